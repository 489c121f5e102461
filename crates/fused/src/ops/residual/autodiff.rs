//! The gradients of residual connections: `dx` is the gradient of the sum, and `dy` is `dx` with
//! the dropout of the forward pass.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex, TensorMetadata};

use super::flex::{ResidualOps, backward};
use crate::backend::flex::FlexTensor;
use crate::backend::graph::{Pair, Strategy, parents, register};
use crate::ops::dropout::flex::dropped;
use crate::ops::dropout::kernel::Dropout;
use crate::ops::layer_norm::flex::LayerNormOps;
use crate::ops::layer_norm::statistics::Statistics;

impl<C: CheckpointStrategy> ResidualOps for Autodiff<Flex, C> {
    fn fused_residual(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let prepared = Residual.prepare::<Strategy>([x.node(), y.node()]);
        let sum = Flex::fused_residual(x.into_primitive(), y.into_primitive(), dropout);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(dropout, sum),
            OpsKind::UnTracked(prep) => prep.finish(sum),
        }
    }

    fn fused_residual_and_norm(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        dropout: Dropout,
        statistics: Statistics,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        if !x.is_tracked() && !y.is_tracked() {
            // Neither x nor y needs a gradient, so the sum must not be tracked. The norm is tracked
            // if gamma or beta needs a gradient.
            let sum = Self::fused_residual(x, y, dropout);
            let norm = Self::fused_layer_norm(sum.clone(), gamma, beta, statistics);
            return (sum, norm);
        }
        let parents = [&x, &y, &gamma, &beta].map(|tensor| tensor.node());
        let gamma_node = gamma.clone();
        let [x, y, gamma, beta] = [x, y, gamma, beta].map(|tensor| tensor.into_primitive());
        let (sum, norm) = Flex::fused_residual_and_norm(x, y, gamma, beta, dropout, statistics);
        let pair = Pair::default();
        let prepared = ResidualAndNorm.prepare::<Strategy>(parents);
        let both = match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let forward = Forward {
                    sum: sum.clone(),
                    gamma: prep.checkpoint(&gamma_node),
                    dropout,
                    statistics,
                };
                prep.finish((forward, pair.clone()), sum.clone())
            }
            OpsKind::UnTracked(prep) => prep.finish(sum.clone()),
        };
        pair.results(&both, [sum, norm]).into()
    }
}

#[derive(Debug)]
struct Residual;

impl Backward<Flex, 2> for Residual {
    type State = Dropout;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [x, y] = parents(&ops);
        let sum_grad = grads.consume::<Flex>(&ops.node);
        if let Some(y) = y {
            grads.register::<Flex>(y, dropped(sum_grad.clone(), ops.state));
        }
        if let Some(x) = x {
            grads.register::<Flex>(x, sum_grad);
        }
    }
}

/// Inputs and results of the forward pass that the backward pass reads.
#[derive(Clone, Debug)]
struct Forward {
    sum: FlexTensor,
    gamma: NodeId,
    dropout: Dropout,
    statistics: Statistics,
}

#[derive(Debug)]
struct ResidualAndNorm;

impl Backward<Flex, 4> for ResidualAndNorm {
    type State = (Forward, Pair<Flex>);

    fn backward(
        self,
        ops: Ops<Self::State, 4>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let parents = parents(&ops);
        let (forward, pair) = ops.state;
        let gamma: FlexTensor = checkpointer.retrieve_node_output(forward.gamma);
        drop(grads.consume::<Flex>(&ops.node));
        let (sum, dropout, statistics) = (forward.sum, forward.dropout, forward.statistics);
        let input_grads = match pair.take_gradients() {
            [sum_grad, Some(norm_grad)] => {
                backward(sum, gamma, sum_grad, norm_grad, dropout, statistics)
            }
            [Some(sum_grad), None] => {
                let y_grad = dropped(sum_grad.clone(), dropout);
                // If another operation computed gamma or beta, Burn also runs the backward pass of
                // that operation, which needs a gradient. Gamma and beta therefore get gradients of
                // zeros.
                let dtype = gamma.dtype().into();
                let zeros = Flex::float_zeros(gamma.shape(), &gamma.device(), dtype);
                [sum_grad, y_grad, zeros.clone(), zeros]
            }
            [None, None] => unreachable!("a backward pass starts at one of the results"),
        };
        register::<Flex, 4>(grads, parents, input_grads);
    }
}
