//! Dropout on tensors of flex.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Device, Tensor};

use super::draw::draw_key;
use super::kernel::{Dropout, drop_in_place};
use crate::backend::flex::{self, FlexTensor};
use crate::profile::Timer;

/// The operation that Burn dispatches to the backend flex, with or without autodiff.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait DropoutOps: Backend {
    /// Applies dropout to a tensor of any shape.
    fn fused_dropout(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self>;
}

/// The fast path of dropout.
pub(super) fn dropout<const D: usize>(x: Tensor<D>, probability: f64) -> Tensor<D> {
    let dropout = draw(probability, &x.device());
    Tensor::from_dispatch(Dispatch::fused_dropout(x.into_dispatch(), dropout))
}

/// Draws a dropout key from the device. For a probability of 0 or a device without autodiff, draws
/// nothing and returns the default, which drops no element.
pub(crate) fn draw(probability: f64, device: &Device) -> Dropout {
    if probability > 0.0 && device.is_autodiff() {
        Dropout {
            key: draw_key(device),
            probability,
        }
    } else {
        Dropout::default()
    }
}

impl DropoutOps for Flex {
    fn fused_dropout(mut x: FlexTensor, dropout: Dropout) -> FlexTensor {
        let _timer = Timer::of("dropout");
        flex::with_mut(&mut x, |x| drop_in_place(x, dropout));
        x
    }
}

/// Returns a copy of `x` with dropout applied, or `x` itself if the probability is 0.
#[cfg(feature = "autodiff")]
pub(crate) fn dropped(x: FlexTensor, dropout: Dropout) -> FlexTensor {
    if dropout.probability == 0.0 {
        return x;
    }
    let _timer = Timer::of("residual_norm");
    let x = x.to_contiguous();
    flex::primitive(
        super::kernel::dropped(flex::slice(&x), dropout),
        x.layout().shape(),
    )
}
