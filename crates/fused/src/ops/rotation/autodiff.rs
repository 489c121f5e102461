//! The gradient of a rotation: the output's gradient is turned back.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::flex::{RotationOps, rotated};
use crate::backend::flex::FlexTensor;
use crate::backend::graph::Strategy;

impl<C: CheckpointStrategy> RotationOps for Autodiff<Flex, C> {
    fn fused_rotate(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
        n_heads: usize,
    ) -> FloatTensor<Self> {
        let prepared = Rotation.prepare::<Strategy>([x.node()]);
        let angles = [cos, sin].map(|angles| angles.into_primitive());
        let y = rotated(x.into_primitive(), &angles, n_heads, 1.0);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((angles, n_heads), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }
}

#[derive(Debug)]
struct Rotation;

impl Backward<Flex, 1> for Rotation {
    type State = ([FlexTensor; 2], usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (angles, n_heads) = ops.state;
        unary::<Flex, _>(ops.parents, ops.node, grads, |grad| {
            rotated(grad, &angles, n_heads, -1.0)
        });
    }
}
