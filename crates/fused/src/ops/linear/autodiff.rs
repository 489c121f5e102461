//! The gradient of the linear layer: `dx = dy W^T`, `dW = x^T dy`, and `db` is the sum of all rows
//! of `dy`.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, OpsPrep, Tracked};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::flex::{LinearOps, matmul_and_sums, sum_rows};
use crate::backend::flex::FlexTensor;
use crate::backend::graph::{Strategy, parents};

impl<C: CheckpointStrategy> LinearOps for Autodiff<Flex, C> {
    fn fused_matmul(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        let prepared = Linear.prepare::<Strategy>([x.node(), weight.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let inputs = Inputs::keep(&mut prep, &x, &weight);
                let y = Flex::fused_matmul(x.into_primitive(), weight.into_primitive());
                prep.finish(inputs, y)
            }
            OpsKind::UnTracked(prep) => {
                let y = Flex::fused_matmul(x.into_primitive(), weight.into_primitive());
                prep.finish(y)
            }
        }
    }

    fn fused_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let prepared = Linear.prepare::<Strategy>([x.node(), weight.node(), bias.node()]);
        let forward = |x: FloatTensor<Self>, weight: FloatTensor<Self>| {
            Flex::fused_linear(
                x.into_primitive(),
                weight.into_primitive(),
                bias.into_primitive(),
            )
        };
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let inputs = Inputs::keep(&mut prep, &x, &weight);
                prep.finish(inputs, forward(x, weight))
            }
            OpsKind::UnTracked(prep) => prep.finish(forward(x, weight)),
        }
    }
}

#[derive(Debug)]
struct Linear;

/// The inputs that the backward pass reads. `x` is kept only if the weight needs a gradient, and
/// `weight` only if `x` needs one.
#[derive(Clone, Debug)]
struct Inputs {
    x: Option<NodeId>,
    weight: Option<NodeId>,
}

impl Inputs {
    fn keep<const N: usize>(
        prep: &mut OpsPrep<Linear, Flex, Self, Strategy, N, Tracked>,
        x: &FloatTensor<Autodiff<Flex>>,
        weight: &FloatTensor<Autodiff<Flex>>,
    ) -> Self
    where
        Linear: Backward<Flex, N, State = Self>,
    {
        Self {
            x: weight.is_tracked().then(|| prep.checkpoint(x)),
            weight: x.is_tracked().then(|| prep.checkpoint(weight)),
        }
    }

    fn backward(
        self,
        [x, weight, bias]: [Option<NodeId>; 3],
        grad: FlexTensor,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let mut transposed = |input: Option<NodeId>| {
            let id = input.expect("the input was kept for this gradient");
            Flex::float_transpose(checkpointer.retrieve_node_output(id))
        };
        match (weight, bias) {
            (Some(weight), Some(bias)) => {
                let (weight_grad, bias_grad) = matmul_and_sums(transposed(self.x), grad.clone());
                grads.register::<Flex>(weight, weight_grad);
                grads.register::<Flex>(bias, bias_grad);
            }
            (Some(weight), None) => {
                let weight_grad = Flex::fused_matmul(transposed(self.x), grad.clone());
                grads.register::<Flex>(weight, weight_grad);
            }
            (None, Some(bias)) => {
                grads.register::<Flex>(bias, sum_rows(grad.clone()));
            }
            (None, None) => {}
        }
        if let Some(node) = x {
            let grad = Flex::fused_matmul(grad, transposed(self.weight));
            grads.register::<Flex>(node, grad);
        }
    }
}

impl Backward<Flex, 2> for Linear {
    type State = Inputs;

    fn backward(self, ops: Ops<Inputs, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let [x, weight] = parents(&ops);
        let grad = grads.consume::<Flex>(&ops.node);
        ops.state
            .backward([x, weight, None], grad, grads, checkpointer);
    }
}

impl Backward<Flex, 3> for Linear {
    type State = Inputs;

    fn backward(self, ops: Ops<Inputs, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let parents = parents(&ops);
        let grad = grads.consume::<Flex>(&ops.node);
        ops.state.backward(parents, grad, grads, checkpointer);
    }
}
