//! The gradient of cross-entropy with respect to the logits `z` of a row.
//!
//! For each id `v`, `dz_v = dloss (p_v - ε / V)`, minus `dloss (1 - ε)` if `v` is the target. Here,
//! `dloss` is the gradient of the row's loss, `p` is `softmax(z)`, `ε` the label smoothing and `V`
//! the size of the vocabulary. The gradient is 0 where the target is negative.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, AutodiffBackend, Flex};

use super::chunks_autodiff::forward_tracked;
use super::flex::{CrossEntropyOps, FlexChunks, backward};
use crate::backend::flex::FlexTensor;
use crate::backend::graph::Strategy;

impl<C: CheckpointStrategy> CrossEntropyOps for Autodiff<Flex, C> {
    fn fused_cross_entropy(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        smoothing: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let prepared = CrossEntropy.prepare::<Strategy>([logits.node()]);
        let logits = logits.into_primitive();
        let (smoothed, plain) =
            Flex::fused_cross_entropy(logits.clone(), target.clone(), smoothing);
        let smoothed = match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((logits, target, smoothing), smoothed),
            OpsKind::UnTracked(prep) => prep.finish(smoothed),
        };
        (smoothed, Self::from_inner(plain))
    }

    fn fused_linear_cross_entropy(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        target: IntTensor<Self>,
        smoothing: f64,
        rows_at_a_time: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let inputs = [x, weight, bias];
        forward_tracked::<FlexChunks, Flex>(inputs, target, smoothing, rows_at_a_time).into()
    }
}

#[derive(Debug)]
struct CrossEntropy;

impl Backward<Flex, 1> for CrossEntropy {
    /// The logits, the target and the smoothing. The gradient is computed in the memory of the logits
    /// if they are contiguous and have no other owner.
    type State = (FlexTensor, FlexTensor, f64);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (logits, target, smoothing) = ops.state;
        unary::<Flex, _>(ops.parents, ops.node, grads, |grad| {
            backward(logits, target, grad, smoothing)
        });
    }
}
