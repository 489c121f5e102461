//! Cross-entropy on tensors of flex.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{Int, Tensor};

use super::chunks::{ChunkOps, forward};
use super::kernel::{self, Settings};
use crate::backend::flex::{self, FlexTensor};
use crate::ops::linear::flex::LinearOps;
use crate::profile::Timer;

/// The operations that Burn dispatches to the backend flex, with or without autodiff.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait CrossEntropyOps: Backend {
    /// Returns the losses `[N]` of each row of the logits `[N, V]`, with and without smoothing.
    fn fused_cross_entropy(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        smoothing: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Returns the losses of each row of `x W + b`. At most `rows_at_a_time` rows are computed at
    /// once.
    fn fused_linear_cross_entropy(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        target: IntTensor<Self>,
        smoothing: f64,
        rows_at_a_time: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// The fast path of cross-entropy.
pub(super) fn cross_entropy(
    logits: Tensor<2>,
    target: Tensor<1, Int>,
    smoothing: f64,
) -> (Tensor<1>, Tensor<1>) {
    let (logits, target) = (logits.into_dispatch(), target.into_dispatch());
    let (smoothed, plain) = Dispatch::fused_cross_entropy(logits, target, smoothing);
    (
        Tensor::from_dispatch(smoothed),
        Tensor::from_dispatch(plain),
    )
}

/// The fast path of [`linear_cross_entropy`](super::linear_cross_entropy).
pub(super) fn linear_cross_entropy(
    [x, weight]: [Tensor<2>; 2],
    bias: Tensor<1>,
    target: Tensor<1, Int>,
    smoothing: f64,
    rows_at_a_time: usize,
) -> (Tensor<1>, Tensor<1>) {
    let (smoothed, plain) = Dispatch::fused_linear_cross_entropy(
        x.into_dispatch(),
        weight.into_dispatch(),
        bias.into_dispatch(),
        target.into_dispatch(),
        smoothing,
        rows_at_a_time,
    );
    (
        Tensor::from_dispatch(smoothed),
        Tensor::from_dispatch(plain),
    )
}

impl CrossEntropyOps for Flex {
    fn fused_cross_entropy(
        logits: FlexTensor,
        target: FlexTensor,
        smoothing: f64,
    ) -> (FlexTensor, FlexTensor) {
        let _timer = Timer::of("cross_entropy");
        let settings = settings(&logits, smoothing);
        let (logits, target) = (logits.to_contiguous(), flex::ids(target));
        let losses = kernel::forward(settings, flex::slice(&logits), &target);
        losses
            .map(|losses| flex::primitive(losses, &[target.len()]))
            .into()
    }

    fn fused_linear_cross_entropy(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        target: FlexTensor,
        smoothing: f64,
        rows_at_a_time: usize,
    ) -> (FlexTensor, FlexTensor) {
        forward::<FlexChunks, Self>(&[x, weight, bias], &target, smoothing, rows_at_a_time)
    }
}

/// Returns the gradient of the logits. It is computed in the memory of `logits` if the tensor is
/// contiguous and has no other owner.
#[cfg(feature = "autodiff")]
pub(super) fn backward(
    mut logits: FlexTensor,
    target: FlexTensor,
    grad: FlexTensor,
    smoothing: f64,
) -> FlexTensor {
    let _timer = Timer::of("cross_entropy");
    let settings = settings(&logits, smoothing);
    let grad = grad.to_contiguous();
    let target = flex::ids(target);
    flex::with_mut(&mut logits, |logits| {
        kernel::backward(settings, logits, &target, flex::slice(&grad));
    });
    logits
}

fn settings(logits: &FlexTensor, smoothing: f64) -> Settings {
    let vocab_size = logits.layout().shape()[1];
    Settings {
        vocab_size,
        smoothing,
    }
}

/// Computes chunks with the kernels of this crate.
#[derive(Debug)]
pub(super) struct FlexChunks;

impl ChunkOps<Flex> for FlexChunks {
    fn linear(x: FlexTensor, weight: FlexTensor, bias: FlexTensor) -> FlexTensor {
        Flex::fused_linear(x, weight, bias)
    }

    fn losses(logits: FlexTensor, target: FlexTensor, smoothing: f64) -> (FlexTensor, FlexTensor) {
        Flex::fused_cross_entropy(logits, target, smoothing)
    }

    #[cfg(feature = "autodiff")]
    fn logits_grad(
        logits: FlexTensor,
        target: FlexTensor,
        grad: FlexTensor,
        smoothing: f64,
    ) -> FlexTensor {
        backward(logits, target, grad, smoothing)
    }

    #[cfg(feature = "autodiff")]
    fn matmul(x: FlexTensor, y: FlexTensor) -> FlexTensor {
        Flex::fused_matmul(x, y)
    }

    #[cfg(feature = "autodiff")]
    fn matmul_and_sums(x: FlexTensor, y: FlexTensor) -> (FlexTensor, FlexTensor) {
        crate::ops::linear::flex::matmul_and_sums(x, y)
    }
}
