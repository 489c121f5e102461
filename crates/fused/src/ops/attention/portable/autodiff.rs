//! The nodes of portable attention in the autodiff graph.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend};

use super::super::mask::KeyMask;
use super::super::terms::{Form, ScoreBias};
use super::PortableAttention;
use super::blocks::Attention;
use super::masks::{Masks, WeightDropout};
use crate::backend::graph::{Strategy, parents, register};

impl<B: Backend, C: CheckpointStrategy> PortableAttention for Autodiff<B, C> {
    fn portable_self_attention(
        packed: FloatTensor<Self>,
        mask: KeyMask<Self>,
        bias: ScoreBias<Self>,
        dropout: WeightDropout<Self>,
        form: Form,
    ) -> FloatTensor<Self> {
        let masks = Masks::inner(mask, dropout);
        match bias {
            ScoreBias::None => self_attention::<B>(packed, masks, form),
            ScoreBias::Added(bias) => biased_self_attention::<B>(packed, bias, masks, form),
        }
    }

    fn portable_cross_attention(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        mask: KeyMask<Self>,
        dropout: WeightDropout<Self>,
        form: Form,
    ) -> FloatTensor<Self> {
        let masks = Masks::inner(mask, dropout);
        let prepared = CrossAttention.prepare::<Strategy>([query.node(), packed.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let inputs = [prep.checkpoint(&query), prep.checkpoint(&packed)];
                let (query, packed) = (query.into_primitive(), packed.into_primitive());
                let attention = Attention::<B>::of_cross(query, packed, masks, form);
                let (kept, output) = Kept::forward(inputs, attention);
                prep.finish(kept, output)
            }
            OpsKind::UnTracked(prep) => {
                let (query, packed) = (query.into_primitive(), packed.into_primitive());
                let attention = Attention::<B>::of_cross(query, packed, masks, form);
                prep.finish(attention.forward().0)
            }
        }
    }
}

fn self_attention<B: Backend>(
    packed: FloatTensor<Autodiff<B>>,
    masks: Masks<B>,
    form: Form,
) -> FloatTensor<Autodiff<B>> {
    let prepared = SelfAttention.prepare::<Strategy>([packed.node()]);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let inputs = [prep.checkpoint(&packed)];
            let attention = Attention::<B>::of_self(packed.into_primitive(), masks, form);
            let (kept, output) = Kept::forward(inputs, attention);
            prep.finish(kept, output)
        }
        OpsKind::UnTracked(prep) => {
            let attention = Attention::<B>::of_self(packed.into_primitive(), masks, form);
            prep.finish(attention.forward().0)
        }
    }
}

fn biased_self_attention<B: Backend>(
    packed: FloatTensor<Autodiff<B>>,
    bias: FloatTensor<Autodiff<B>>,
    masks: Masks<B>,
    form: Form,
) -> FloatTensor<Autodiff<B>> {
    let prepared = BiasedSelfAttention.prepare::<Strategy>([packed.node(), bias.node()]);
    match prepared.compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let inputs = [prep.checkpoint(&packed), prep.checkpoint(&bias)];
            let attention = Attention::<B>::of_self(packed.into_primitive(), masks, form);
            let attention = attention.with_bias(ScoreBias::Added(bias.into_primitive()));
            let (kept, output) = Kept::forward(inputs, attention);
            prep.finish(kept, output)
        }
        OpsKind::UnTracked(prep) => {
            let attention = Attention::<B>::of_self(packed.into_primitive(), masks, form);
            let attention = attention.with_bias(ScoreBias::Added(bias.into_primitive()));
            prep.finish(attention.forward().0)
        }
    }
}

#[derive(Debug)]
struct SelfAttention;

#[derive(Debug)]
struct BiasedSelfAttention;

#[derive(Debug)]
struct CrossAttention;

/// Inputs and results of the forward pass that the backward pass reads.
#[derive(Clone, Debug)]
struct Kept<B: Backend, const N: usize> {
    inputs: [NodeId; N],
    masks: Masks<B>,
    form: Form,
    output: FloatTensor<B>,
    /// The weights before dropout, `[B, H, T, S]`. `None` for [`LONG`](super::masks::LONG) keys or
    /// more, for which the backward pass computes the weights again.
    weights: Option<FloatTensor<B>>,
}

impl<B: Backend, const N: usize> Kept<B, N> {
    /// Computes the forward pass. Returns the values that the backward pass reads, and the output.
    fn forward(inputs: [NodeId; N], attention: Attention<B>) -> (Self, FloatTensor<B>) {
        let (output, weights) = attention.forward();
        let kept = Self {
            inputs,
            form: attention.form,
            masks: attention.masks,
            output: output.clone(),
            weights,
        };
        (kept, output)
    }
}

impl<B: Backend> Backward<B, 1> for SelfAttention {
    type State = Kept<B, 1>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let parents = parents(&ops);
        let kept = ops.state;
        let [packed] = kept.inputs.map(|id| checkpointer.retrieve_node_output(id));
        let grad = grads.consume::<B>(&ops.node);
        let attention = Attention::<B>::of_self(packed, kept.masks, kept.form);
        let (parts, _) = attention.backward(kept.output, kept.weights, grad, false);
        register::<B, 1>(grads, parents, [B::float_cat(parts.into(), 2)]);
    }
}

impl<B: Backend> Backward<B, 2> for BiasedSelfAttention {
    type State = Kept<B, 2>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let parents = parents(&ops);
        let kept = ops.state;
        let [packed, bias] = kept.inputs.map(|id| checkpointer.retrieve_node_output(id));
        let grad = grads.consume::<B>(&ops.node);
        let attention = Attention::<B>::of_self(packed, kept.masks, kept.form);
        let attention = attention.with_bias(ScoreBias::Added(bias));
        let [packed_node, bias_node] = parents;
        // A fixed bias, as in ALiBi, needs no gradient, so it has no node here.
        let (parts, bias) =
            attention.backward(kept.output, kept.weights, grad, bias_node.is_some());
        register::<B, 1>(grads, [packed_node], [B::float_cat(parts.into(), 2)]);
        if let Some(bias) = bias {
            register::<B, 1>(grads, [bias_node], [bias]);
        }
    }
}

impl<B: Backend> Backward<B, 2> for CrossAttention {
    type State = Kept<B, 2>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let parents = parents(&ops);
        let kept = ops.state;
        let [query, packed] = kept.inputs.map(|id| checkpointer.retrieve_node_output(id));
        let grad = grads.consume::<B>(&ops.node);
        let attention = Attention::<B>::of_cross(query, packed, kept.masks, kept.form);
        let ([query, key, value], _) = attention.backward(kept.output, kept.weights, grad, false);
        register::<B, 2>(grads, parents, [query, B::float_cat(vec![key, value], 2)]);
    }
}
