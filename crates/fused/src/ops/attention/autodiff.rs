//! The gradients of attention. `kernel/backward.rs` has the formulas.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::flex::{AttentionOps, Inputs};
use super::mask::KeyMask;
use crate::backend::flex::FlexTensor;
use crate::backend::graph::{parents, register};
use crate::ops::dropout::kernel::Dropout;

impl<C: CheckpointStrategy> AttentionOps for Autodiff<Flex, C> {
    fn fused_self_attention(
        packed: FloatTensor<Self>,
        mask: KeyMask<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let mask = mask.inner();
        let prepared = SelfAttention.prepare::<C>([packed.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let nodes = [prep.checkpoint(&packed)];
                let inputs = Inputs::of_self(packed.into_primitive(), mask.clone(), dropout);
                let (forward, output) = Forward::of(nodes, mask, dropout, &inputs);
                prep.finish(forward, output)
            }
            OpsKind::UnTracked(prep) => {
                let packed = packed.into_primitive();
                prep.finish(Flex::fused_self_attention(packed, mask, dropout))
            }
        }
    }

    fn fused_cross_attention(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        mask: KeyMask<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let mask = mask.inner();
        let prepared = CrossAttention.prepare::<C>([query.node(), packed.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let nodes = [prep.checkpoint(&query), prep.checkpoint(&packed)];
                let (query, packed) = (query.into_primitive(), packed.into_primitive());
                let inputs = Inputs::of_cross(query, packed, mask.clone(), dropout);
                let (forward, output) = Forward::of(nodes, mask, dropout, &inputs);
                prep.finish(forward, output)
            }
            OpsKind::UnTracked(prep) => {
                let (query, packed) = (query.into_primitive(), packed.into_primitive());
                prep.finish(Flex::fused_cross_attention(query, packed, mask, dropout))
            }
        }
    }
}

/// Inputs and results of the forward pass that the backward pass reads.
#[derive(Clone, Debug)]
struct Forward<const N: usize> {
    inputs: [NodeId; N],
    mask: KeyMask<Flex>,
    dropout: Dropout,
    output: FlexTensor,
    /// Log-sum-exp of each row of scores, `[B, H, T]`.
    lse: FlexTensor,
}

impl<const N: usize> Forward<N> {
    /// Computes the forward pass. Returns the values that the backward pass reads, and the output.
    fn of(
        nodes: [NodeId; N],
        mask: KeyMask<Flex>,
        dropout: Dropout,
        inputs: &Inputs,
    ) -> (Self, FlexTensor) {
        let (output, lse) = inputs.forward();
        let forward = Self {
            inputs: nodes,
            mask,
            dropout,
            output: output.clone(),
            lse,
        };
        (forward, output)
    }
}

#[derive(Debug)]
struct SelfAttention;

impl Backward<Flex, 1> for SelfAttention {
    type State = Forward<1>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let forward = ops.state;
        let [packed] = forward
            .inputs
            .map(|id| checkpointer.retrieve_node_output(id));
        unary::<Flex, _>(ops.parents, ops.node, grads, |grad| {
            let inputs = Inputs::of_self(packed, forward.mask, forward.dropout);
            inputs.backward_self([forward.output, forward.lse, grad])
        });
    }
}

#[derive(Debug)]
struct CrossAttention;

impl Backward<Flex, 2> for CrossAttention {
    type State = Forward<2>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let parents = parents(&ops);
        let forward = ops.state;
        let [query, packed] = forward
            .inputs
            .map(|id| checkpointer.retrieve_node_output(id));
        let grad = grads.consume::<Flex>(&ops.node);
        let inputs = Inputs::of_cross(query, packed, forward.mask, forward.dropout);
        let input_grads = inputs.backward_cross([forward.output, forward.lse, grad]);
        register::<Flex, 2>(grads, parents, input_grads);
    }
}
