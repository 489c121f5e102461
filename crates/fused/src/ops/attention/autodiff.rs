//! The gradients of attention. `kernel/backward.rs` has the formulas, and `mod.rs` explains the
//! letters in shapes.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::flex::{AttentionOps, Inputs};
use super::mask::KeyMask;
use super::terms::{Form, ScoreBias};
use crate::backend::flex::FlexTensor;
use crate::backend::graph::{Strategy, parents, register};
use crate::ops::dropout::kernel::Dropout;

impl<C: CheckpointStrategy> AttentionOps for Autodiff<Flex, C> {
    fn fused_self_attention(
        packed: FloatTensor<Self>,
        mask: KeyMask<Self>,
        bias: ScoreBias<Self>,
        form: Form,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let of_scores = (mask.inner(), form, dropout);
        match bias {
            ScoreBias::None => self_attention(packed, of_scores),
            ScoreBias::Added(bias) => biased_self_attention(packed, bias, of_scores),
        }
    }

    fn fused_cross_attention(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        mask: KeyMask<Self>,
        form: Form,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let mask = mask.inner();
        let prepared = CrossAttention.prepare::<Strategy>([query.node(), packed.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let nodes = [prep.checkpoint(&query), prep.checkpoint(&packed)];
                let (query, packed) = (query.into_primitive(), packed.into_primitive());
                let inputs = Inputs::of_cross(query, packed, mask.clone(), form, dropout);
                let (forward, output) = Forward::of(nodes, (mask, form, dropout), &inputs);
                prep.finish(forward, output)
            }
            OpsKind::UnTracked(prep) => {
                let (query, packed) = (query.into_primitive(), packed.into_primitive());
                let y = Flex::fused_cross_attention(query, packed, mask, form, dropout);
                prep.finish(y)
            }
        }
    }
}

/// The mask, form and dropout of attention, which have no gradients.
type OfScores = (KeyMask<Flex>, Form, Dropout);

fn self_attention(
    packed: FloatTensor<Autodiff<Flex>>,
    (mask, form, dropout): OfScores,
) -> FloatTensor<Autodiff<Flex>> {
    let prepared = SelfAttention.prepare::<Strategy>([packed.node()]);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let nodes = [prep.checkpoint(&packed)];
            let inputs = Inputs::of_self(packed.into_primitive(), mask.clone(), form, dropout);
            let (forward, output) = Forward::of(nodes, (mask, form, dropout), &inputs);
            prep.finish(forward, output)
        }
        OpsKind::UnTracked(prep) => {
            let inputs = Inputs::of_self(packed.into_primitive(), mask, form, dropout);
            prep.finish(inputs.forward().0)
        }
    }
}

fn biased_self_attention(
    packed: FloatTensor<Autodiff<Flex>>,
    bias: FloatTensor<Autodiff<Flex>>,
    (mask, form, dropout): OfScores,
) -> FloatTensor<Autodiff<Flex>> {
    let prepared = BiasedSelfAttention.prepare::<Strategy>([packed.node(), bias.node()]);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let nodes = [prep.checkpoint(&packed), prep.checkpoint(&bias)];
            let inputs = Inputs::of_self(packed.into_primitive(), mask.clone(), form, dropout);
            let inputs = inputs.with_bias(ScoreBias::Added(bias.into_primitive()));
            let (forward, output) = Forward::of(nodes, (mask, form, dropout), &inputs);
            prep.finish(forward, output)
        }
        OpsKind::UnTracked(prep) => {
            let inputs = Inputs::of_self(packed.into_primitive(), mask, form, dropout);
            let inputs = inputs.with_bias(ScoreBias::Added(bias.into_primitive()));
            prep.finish(inputs.forward().0)
        }
    }
}

/// Inputs and results of the forward pass that the backward pass reads.
#[derive(Clone, Debug)]
struct Forward<const N: usize> {
    inputs: [NodeId; N],
    of_scores: OfScores,
    output: FlexTensor,
    /// Log-sum-exp of each row of scores, `[B, H, T]`.
    lse: FlexTensor,
}

impl<const N: usize> Forward<N> {
    /// Computes the forward pass. Returns the values that the backward pass reads, and the output.
    fn of(nodes: [NodeId; N], of_scores: OfScores, inputs: &Inputs) -> (Self, FlexTensor) {
        let (output, lse) = inputs.forward();
        let forward = Self {
            inputs: nodes,
            of_scores,
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
            let (mask, form, dropout) = forward.of_scores;
            let inputs = Inputs::of_self(packed, mask, form, dropout);
            inputs.backward_self([forward.output, forward.lse, grad])
        });
    }
}

#[derive(Debug)]
struct BiasedSelfAttention;

impl Backward<Flex, 2> for BiasedSelfAttention {
    type State = Forward<2>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let parents = parents(&ops);
        let forward = ops.state;
        let [packed, bias] = forward
            .inputs
            .map(|id| checkpointer.retrieve_node_output(id));
        let grad = grads.consume::<Flex>(&ops.node);
        let (mask, form, dropout) = forward.of_scores;
        let inputs = Inputs::of_self(packed, mask, form, dropout);
        let inputs = inputs.with_bias(ScoreBias::Added(bias));
        let forward = [forward.output, forward.lse, grad];
        if parents[1].is_none() {
            // The bias needs no gradient, as in ALiBi, whose bias is fixed.
            if let Some(node) = parents[0] {
                grads.register::<Flex>(node, inputs.backward_self(forward));
            }
            return;
        }
        register::<Flex, 2>(grads, parents, inputs.backward_self_and_bias(forward));
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
        let (mask, form, dropout) = forward.of_scores;
        let inputs = Inputs::of_cross(query, packed, mask, form, dropout);
        let input_grads = inputs.backward_cross([forward.output, forward.lse, grad]);
        register::<Flex, 2>(grads, parents, input_grads);
    }
}
