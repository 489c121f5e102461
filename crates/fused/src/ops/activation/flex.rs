//! Activation functions on tensors of flex.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;

use super::function::Activation;
use super::kernel;
use crate::backend::flex::{self, FlexTensor};
use crate::memory::buffer::Buffer;
use crate::ops::dropout::flex::draw;
use crate::ops::dropout::kernel::Dropout;
use crate::profile::Timer;

/// The operations that Burn dispatches to the backend flex, with or without autodiff.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait ActivationOps: Backend {
    /// Returns `dropout(max(x, 0))` for a tensor of any shape.
    fn fused_relu(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self>;

    /// Returns `dropout(act(x))`, `[N, F]`. The input is `[N, F]`, or `[N, 2 * F]` for a gated
    /// function.
    fn fused_activate(
        x: FloatTensor<Self>,
        activation: Activation,
        dropout: Dropout,
    ) -> FloatTensor<Self>;
}

/// The fast path of ReLU followed by dropout.
pub(super) fn relu<const D: usize>(x: Tensor<D>, dropout: f64) -> Tensor<D> {
    let dropout = draw(dropout, &x.device());
    Tensor::from_dispatch(Dispatch::fused_relu(x.into_dispatch(), dropout))
}

/// The fast path of all activations except ReLU without gates.
pub(super) fn activate(x: Tensor<2>, activation: Activation, dropout: f64) -> Tensor<2> {
    let dropout = draw(dropout, &x.device());
    let y = Dispatch::fused_activate(x.into_dispatch(), activation, dropout);
    Tensor::from_dispatch(y)
}

impl ActivationOps for Flex {
    fn fused_relu(mut x: FlexTensor, dropout: Dropout) -> FlexTensor {
        let _timer = Timer::of("activation");
        flex::with_mut(&mut x, |x| kernel::relu(x, dropout));
        x
    }

    fn fused_activate(mut x: FlexTensor, activation: Activation, dropout: Dropout) -> FlexTensor {
        let _timer = Timer::of("activation");
        if !x.layout().is_contiguous() {
            x = x.to_contiguous();
        }
        let [rows, width] = [0, 1].map(|axis| x.layout().shape()[axis]);
        if x.is_unique() && !activation.is_gated {
            flex::with_mut(&mut x, |x| {
                kernel::activate(None, x, width, activation, dropout);
            });
            return x;
        }
        let columns = activation.columns(width);
        let mut y = Buffer::arbitrary(rows * columns);
        let x = Some(flex::slice(&x));
        kernel::activate(x, &mut y, width, activation, dropout);
        flex::primitive(y, &[rows, columns])
    }
}

/// Returns the gradient of ReLU's input. `y` is the output after ReLU and dropout, and `grad` the
/// gradient of `y`.
#[cfg(feature = "autodiff")]
pub(super) fn relu_backward(y: FlexTensor, mut grad: FlexTensor, probability: f64) -> FlexTensor {
    let _timer = Timer::of("activation");
    let y = y.to_contiguous();
    flex::with_mut(&mut grad, |grad| {
        kernel::relu_backward(grad, flex::slice(&y), probability);
    });
    grad
}

/// Returns the gradient of the input `x`. `grad` is the gradient of the output.
#[cfg(feature = "autodiff")]
pub(super) fn activate_backward(
    x: FlexTensor,
    activation: Activation,
    dropout: Dropout,
    mut grad: FlexTensor,
) -> FlexTensor {
    let _timer = Timer::of("activation");
    let x = x.to_contiguous();
    let width = x.layout().shape()[1];
    let dx = flex::with_mut(&mut grad, |grad| {
        kernel::activate_backward(flex::slice(&x), width, activation, dropout, grad)
    });
    flex::primitive(dx, x.layout().shape())
}
