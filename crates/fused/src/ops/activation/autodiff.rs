//! The gradients of activation functions: `dx = dropout(dy) act'(x)`, where `dropout` uses the mask
//! of the forward pass. For a gated function, `dgate = dropout(dy) value act'(gate)` and
//! `dvalue = dropout(dy) act(gate)`.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::flex::{ActivationOps, activate_backward, relu_backward};
use super::function::Activation;
use crate::backend::flex::FlexTensor;
use crate::backend::graph::Strategy;
use crate::ops::dropout::kernel::Dropout;

impl<C: CheckpointStrategy> ActivationOps for Autodiff<Flex, C> {
    fn fused_relu(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self> {
        let prepared = Relu.prepare::<Strategy>([x.node()]);
        let y = Flex::fused_relu(x.into_primitive(), dropout);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((y.clone(), dropout.probability), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn fused_activate(
        x: FloatTensor<Self>,
        activation: Activation,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let prepared = Activate.prepare::<Strategy>([x.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = (prep.checkpoint(&x), activation, dropout);
                let y = Flex::fused_activate(x.into_primitive(), activation, dropout);
                prep.finish(state, y)
            }
            OpsKind::UnTracked(prep) => {
                let y = Flex::fused_activate(x.into_primitive(), activation, dropout);
                prep.finish(y)
            }
        }
    }
}

#[derive(Debug)]
struct Relu;

impl Backward<Flex, 1> for Relu {
    /// The output `y`, and the dropout probability.
    type State = (FlexTensor, f64);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (y, probability) = ops.state;
        unary::<Flex, _>(ops.parents, ops.node, grads, |grad| {
            relu_backward(y, grad, probability)
        });
    }
}

#[derive(Debug)]
struct Activate;

impl Backward<Flex, 1> for Activate {
    /// The node of the input, the activation function and the dropout.
    type State = (NodeId, Activation, Dropout);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (x, activation, dropout) = ops.state;
        let x = checkpointer.retrieve_node_output(x);
        unary::<Flex, _>(ops.parents, ops.node, grads, |grad| {
            activate_backward(x, activation, dropout, grad)
        });
    }
}
