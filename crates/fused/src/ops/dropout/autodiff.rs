//! The gradient of dropout: dropout of the output's gradient with the same mask.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::flex::DropoutOps;
use super::kernel::Dropout;
use crate::backend::graph::Strategy;

impl<C: CheckpointStrategy> DropoutOps for Autodiff<Flex, C> {
    fn fused_dropout(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self> {
        let prepared = DropoutNode.prepare::<Strategy>([x.node()]);
        let y = Flex::fused_dropout(x.into_primitive(), dropout);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(dropout, y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }
}

#[derive(Debug)]
struct DropoutNode;

impl Backward<Flex, 1> for DropoutNode {
    type State = Dropout;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dropout = ops.state;
        unary::<Flex, _>(ops.parents, ops.node, grads, |grad| {
            Flex::fused_dropout(grad, dropout)
        });
    }
}
