//! Layer norm on tensors of flex. With a mean and without autodiff, Burn's own layer norm is as
//! fast and is used instead.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;

use super::kernel::Norm;
use super::statistics::Statistics;
use crate::backend::flex::{self, FlexTensor};
#[cfg(feature = "autodiff")]
use crate::memory::buffer::Buffer;
use crate::profile::Timer;

/// The operation that Burn dispatches to the backend flex, with or without autodiff.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait LayerNormOps: Backend {
    /// Returns the layer norm of each row of `x`, `[N, D]`.
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        statistics: Statistics,
    ) -> FloatTensor<Self>;
}

/// The fast path of layer norm.
pub(super) fn layer_norm(
    x: Tensor<2>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    statistics: Statistics,
) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::fused_layer_norm(
        x.into_dispatch(),
        gamma.into_dispatch(),
        beta.into_dispatch(),
        statistics,
    ))
}

impl LayerNormOps for Flex {
    fn fused_layer_norm(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        statistics: Statistics,
    ) -> FlexTensor {
        let _timer = Timer::of("residual_norm");
        let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.to_contiguous());
        let y =
            Norm::new(flex::slice(&gamma), flex::slice(&beta), statistics).forward(flex::slice(&x));
        flex::primitive(y, x.layout().shape())
    }
}

/// Returns the gradients of x, gamma and beta.
#[cfg(feature = "autodiff")]
pub(super) fn backward(
    x: FlexTensor,
    gamma: FlexTensor,
    grad: FlexTensor,
    statistics: Statistics,
) -> [FlexTensor; 3] {
    let _timer = Timer::of("residual_norm");
    let [x, gamma, grad] = [x, gamma, grad].map(|tensor| tensor.to_contiguous());
    let norm = Norm::new(flex::slice(&gamma), &[], statistics);
    let mut dx = Buffer::arbitrary(flex::slice(&x).len());
    let parameters = norm.backward(flex::slice(&x), flex::slice(&grad), &mut dx);
    let [gamma, beta] = parameters.map(flex::vector);
    [flex::primitive(dx, x.layout().shape()), gamma, beta]
}
