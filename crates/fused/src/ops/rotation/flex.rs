//! Rotation on tensors of flex.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;

use super::kernel;
use crate::backend::flex::{self, FlexTensor};
use crate::profile::Timer;

/// The operation that Burn dispatches to the backend flex, with or without autodiff.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait RotationOps: Backend {
    /// Rotates the first `n_heads` heads of x `[B, T, H, K]` by angles `[T, K/2]`.
    fn fused_rotate(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        n_heads: usize,
    ) -> FloatTensor<Self>;
}

/// The fast path of [`rotate`](super::rotate).
pub(super) fn rotate(x: Tensor<4>, n_heads: usize, angles: [Tensor<2>; 2]) -> Tensor<4> {
    let [cos, sin] = angles.map(Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::fused_rotate(x.into_dispatch(), cos, sin, n_heads))
}

impl RotationOps for Flex {
    fn fused_rotate(x: FlexTensor, cos: FlexTensor, sin: FlexTensor, n_heads: usize) -> FlexTensor {
        rotated(x, &[cos, sin], n_heads, 1.0)
    }
}

/// Rotates by the angles times `sign`.
pub(super) fn rotated(
    mut x: FlexTensor,
    angles: &[FlexTensor; 2],
    n_heads: usize,
    sign: f32,
) -> FlexTensor {
    let _timer = Timer::of("rotation");
    let [cos, sin] = angles.each_ref().map(FlexTensor::to_contiguous);
    let [_, _, heads, k] = x.layout().shape()[..] else {
        unreachable!("the tensor has four dimensions");
    };
    let (cos, sin) = (flex::slice(&cos), flex::slice(&sin));
    flex::with_mut(&mut x, |x| {
        kernel::rotate(x, [heads, k, n_heads], cos, sin, sign)
    });
    x
}
