//! Cross-entropy in Burn's own operations, and its gradient with respect to the logits `z` of a
//! row.
//!
//! For each id `v`, `dz_v = dloss (p_v - ε / V)`, minus `dloss (1 - ε)` if `v` is the target. Here,
//! `dloss` is the gradient of the row's loss, `p` is `softmax(z)`, `ε` the label smoothing and `V`
//! the size of the vocabulary. The gradient is 0 where the target is negative.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn::backend::{
    Autodiff, AutodiffBackend, Backend, Dispatch, TensorMetadata, backend_extension,
};
use burn::tensor::{IndexingUpdateOp, Int, Shape, Tensor};

use super::chunks::{ChunkOps, forward};
use super::chunks_autodiff::forward_tracked;
use crate::backend::graph::Strategy;
use crate::backend::portable::{as_row, on_all_backends, size, sum_rows};

/// The operations that Burn dispatches to every backend. Autodiff backends use the backward pass
/// below and, for chunks, the one in `chunks_autodiff.rs`.
#[backend_extension(
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(feature = "_cube"),
    Autodiff
)]
pub(crate) trait PortableCrossEntropy: Backend {
    /// Returns the losses `[N]` of each row of the logits `[N, V]`, with and without smoothing.
    fn portable_cross_entropy(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        smoothing: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        Loss::<Self>::of(logits, target, smoothing).forward()
    }

    /// Returns the losses of each row of `x W + b`. At most `rows_at_a_time` rows are computed at
    /// once.
    fn portable_linear_cross_entropy(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        target: IntTensor<Self>,
        smoothing: f64,
        rows_at_a_time: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        forward::<PortableChunks, Self>(&[x, weight, bias], &target, smoothing, rows_at_a_time)
    }
}

on_all_backends!(PortableCrossEntropy);

/// The portable path of cross-entropy.
pub(super) fn cross_entropy(
    logits: Tensor<2>,
    target: Tensor<1, Int>,
    smoothing: f64,
) -> (Tensor<1>, Tensor<1>) {
    let (logits, target) = (logits.into_dispatch(), target.into_dispatch());
    let (smoothed, plain) = Dispatch::portable_cross_entropy(logits, target, smoothing);
    (
        Tensor::from_dispatch(smoothed),
        Tensor::from_dispatch(plain),
    )
}

/// The portable path of [`linear_cross_entropy`](super::linear_cross_entropy).
pub(super) fn linear_cross_entropy(
    [x, weight]: [Tensor<2>; 2],
    bias: Tensor<1>,
    target: Tensor<1, Int>,
    smoothing: f64,
    rows_at_a_time: usize,
) -> (Tensor<1>, Tensor<1>) {
    let (smoothed, plain) = Dispatch::portable_linear_cross_entropy(
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

impl<B: Backend, C: CheckpointStrategy> PortableCrossEntropy for Autodiff<B, C> {
    fn portable_cross_entropy(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        smoothing: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let prepared = CrossEntropy.prepare::<Strategy>([logits.node()]);
        let loss = Loss::<B>::of(logits.into_primitive(), target, smoothing);
        let (smoothed, plain) = loss.forward();
        let smoothed = match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(loss, smoothed),
            OpsKind::UnTracked(prep) => prep.finish(smoothed),
        };
        (smoothed, Self::from_inner(plain))
    }

    fn portable_linear_cross_entropy(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        target: IntTensor<Self>,
        smoothing: f64,
        rows_at_a_time: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let inputs = [x, weight, bias];
        forward_tracked::<PortableChunks, B>(inputs, target, smoothing, rows_at_a_time).into()
    }
}

/// The values from which the losses of all rows and the gradient of the logits are computed.
#[derive(Clone, Debug)]
struct Loss<B: Backend> {
    /// Log-probabilities of all ids, `[N, V]`.
    log_probabilities: FloatTensor<B>,
    /// Target id of each row, `[N, 1]`; 0 for an ignored target.
    target: IntTensor<B>,
    /// Whether the target of each row is ignored, `[N, 1]`.
    is_ignored: BoolTensor<B>,
    smoothing: f64,
}

impl<B: Backend> Loss<B> {
    fn of(logits: FloatTensor<B>, target: IntTensor<B>, smoothing: f64) -> Self {
        let rows = size(&logits, 0);
        let target = B::int_reshape(target, Shape::new([rows, 1]));
        let settings = burn::backend::get_device_settings::<B>(&logits.device());
        Self {
            is_ignored: B::int_lower_elem(target.clone(), 0.into(), settings.bool_dtype),
            log_probabilities: B::log_softmax(logits, 1),
            target: B::int_clamp_min(target, 0.into()),
            smoothing,
        }
    }

    /// Returns the loss of each row, `[N]`, with and without label smoothing.
    fn forward(&self) -> (FloatTensor<B>, FloatTensor<B>) {
        let all = &self.log_probabilities;
        let target = B::float_gather(1, all.clone(), self.target.clone());
        let of_rows = |loss| {
            let loss = B::float_mask_fill(loss, self.is_ignored.clone(), 0.0.into());
            B::float_reshape(loss, Shape::new([size(all, 0)]))
        };
        let plain = of_rows(B::float_neg(target.clone()));
        if self.smoothing == 0.0 {
            return (plain.clone(), plain);
        }
        let label = B::float_mul_scalar(target, (self.smoothing - 1.0).into());
        let mean = B::float_mean_dim(all.clone(), 1);
        let smooth = B::float_mul_scalar(mean, self.smoothing.into());
        (of_rows(B::float_sub(label, smooth)), plain)
    }

    /// Returns the gradient of the logits, from the gradient of each row's loss.
    fn backward(self, grad: FloatTensor<B>) -> FloatTensor<B> {
        let [rows, vocab_size] = [0, 1].map(|dim| size(&self.log_probabilities, dim));
        let grad = B::float_reshape(grad, Shape::new([rows, 1]));
        let grad = B::float_mask_fill(grad, self.is_ignored, 0.0.into());
        let mut probabilities = B::float_exp(self.log_probabilities);
        if self.smoothing > 0.0 {
            let each = -self.smoothing / vocab_size as f64;
            probabilities = B::float_add_scalar(probabilities, each.into());
        }
        let target_grad = B::float_mul_scalar(grad.clone(), (self.smoothing - 1.0).into());
        let all = B::float_mul(probabilities, grad);
        B::float_scatter(1, all, self.target, target_grad, IndexingUpdateOp::Add)
    }
}

#[derive(Debug)]
struct CrossEntropy;

impl<B: Backend> Backward<B, 1> for CrossEntropy {
    type State = Loss<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let loss = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| loss.backward(grad));
    }
}

/// Computes chunks with Burn's own operations.
#[derive(Debug)]
struct PortableChunks;

impl<B: Backend> ChunkOps<B> for PortableChunks {
    fn linear(x: FloatTensor<B>, weight: FloatTensor<B>, bias: FloatTensor<B>) -> FloatTensor<B> {
        B::float_add(B::float_matmul(x, weight), as_row::<B>(bias))
    }

    fn losses(
        logits: FloatTensor<B>,
        target: IntTensor<B>,
        smoothing: f64,
    ) -> (FloatTensor<B>, FloatTensor<B>) {
        Loss::<B>::of(logits, target, smoothing).forward()
    }

    fn logits_grad(
        logits: FloatTensor<B>,
        target: IntTensor<B>,
        grad: FloatTensor<B>,
        smoothing: f64,
    ) -> FloatTensor<B> {
        Loss::<B>::of(logits, target, smoothing).backward(grad)
    }

    fn matmul(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
        B::float_matmul(x, y)
    }

    fn matmul_and_sums(x: FloatTensor<B>, y: FloatTensor<B>) -> (FloatTensor<B>, FloatTensor<B>) {
        let sums = sum_rows::<B>(y.clone());
        (B::float_matmul(x, y), sums)
    }
}
