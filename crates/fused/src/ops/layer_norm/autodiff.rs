//! The gradient of layer norm. `kernel.rs` has the formulas.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::flex::{LayerNormOps, backward};
use super::statistics::Statistics;
use crate::backend::graph::{Strategy, parents, register};

impl<C: CheckpointStrategy> LayerNormOps for Autodiff<Flex, C> {
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        statistics: Statistics,
    ) -> FloatTensor<Self> {
        let prepared = LayerNorm.prepare::<Strategy>([x.node(), gamma.node(), beta.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = (prep.checkpoint(&x), prep.checkpoint(&gamma), statistics);
                let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.into_primitive());
                prep.finish(state, Flex::fused_layer_norm(x, gamma, beta, statistics))
            }
            OpsKind::UnTracked(prep) => {
                let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.into_primitive());
                prep.finish(Flex::fused_layer_norm(x, gamma, beta, statistics))
            }
        }
    }
}

#[derive(Debug)]
struct LayerNorm;

impl Backward<Flex, 3> for LayerNorm {
    /// The nodes of x and gamma, and the statistics.
    type State = (NodeId, NodeId, Statistics);

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let parents = parents(&ops);
        let (x, gamma, statistics) = ops.state;
        let x = checkpointer.retrieve_node_output(x);
        let gamma = checkpointer.retrieve_node_output(gamma);
        let grad = grads.consume::<Flex>(&ops.node);
        register::<Flex, 3>(grads, parents, backward(x, gamma, grad, statistics));
    }
}
