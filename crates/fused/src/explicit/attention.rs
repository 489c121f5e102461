//! Attention (paper, section 3.2.1). With `P = softmax(Q K^T / sqrt(K))`, `D` the factors of
//! dropout and `O = (P D) V`:
//!
//! ```text
//! dV = (P D)^T dO    dP = (dO V^T) D    dS = P (dP - rowsum(dO O))
//! dQ = dS K / sqrt(K)                   dK = dS^T Q / sqrt(K)
//! ```

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Shape, Slice};

use super::size;
use crate::nodes::register;

/// Keys from which on the weights are computed again instead of kept: for the memory, since nobody
/// has measured yet where it is faster.
const LONG: usize = 512;

/// Whether there is a mask, and dropout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Masking {
    pub is_blocked: bool,
    /// Probability of dropout, 0 if there is none.
    pub dropout: f64,
}

/// Both masks, of which those that there are not are not read.
#[derive(Clone, Debug)]
pub(super) struct Masks<B: Backend> {
    blocked: BoolTensor<B>,
    dropped: BoolTensor<B>,
    masking: Masking,
}

impl<B: Backend> Masks<B> {
    pub fn new(blocked: BoolTensor<B>, dropped: BoolTensor<B>, masking: Masking) -> Self {
        Self {
            blocked,
            dropped,
            masking,
        }
    }
}

/// What attends to what.
pub(super) struct Attention<B: Backend> {
    /// `[B, H, T, K]`
    query: FloatTensor<B>,
    /// `[B, H, S, K]`
    key: FloatTensor<B>,
    /// `[B, H, S, K]`
    value: FloatTensor<B>,
    /// `[B, H, T, S]`
    blocked: Option<BoolTensor<B>>,
    /// `[B, H, T, S]`, and what the others are multiplied by.
    dropped: Option<(BoolTensor<B>, f64)>,
}

impl<B: Backend> Attention<B> {
    /// Of `[B, T, 3 H, K]`.
    pub fn of_packed(packed: FloatTensor<B>, masks: &Masks<B>) -> Self {
        let n_heads = size(&packed, 2) / 3;
        let [query, key, value] =
            [0, 1, 2].map(|part| heads::<B>(packed.clone(), part * n_heads, n_heads));
        Self::new([query, key, value], masks)
    }

    /// Of `[B, T, H, K]` and `[B, S, 2 H, K]`.
    pub fn apart(query: FloatTensor<B>, packed: FloatTensor<B>, masks: &Masks<B>) -> Self {
        let n_heads = size(&query, 2);
        let query = heads::<B>(query, 0, n_heads);
        let [key, value] = [0, 1].map(|part| heads::<B>(packed.clone(), part * n_heads, n_heads));
        Self::new([query, key, value], masks)
    }

    fn new([query, key, value]: [FloatTensor<B>; 3], masks: &Masks<B>) -> Self {
        let [batch, n_heads, t] = [0, 1, 2].map(|dim| size(&query, dim));
        let shape = Shape::new([batch, n_heads, t, size(&key, 2)]);
        let Masking {
            is_blocked,
            dropout,
        } = masks.masking;
        let blocked = || B::bool_expand(masks.blocked.clone(), shape);
        let dropped = || (masks.dropped.clone(), 1.0 / (1.0 - dropout));
        Self {
            blocked: is_blocked.then(blocked),
            dropped: (dropout > 0.0).then(dropped),
            query,
            key,
            value,
        }
    }

    /// Whether keeping the weights costs little.
    fn is_short(&self) -> bool {
        size(&self.key, 2) < LONG
    }

    fn scale(&self) -> f64 {
        1.0 / (size(&self.query, 3) as f64).sqrt()
    }

    /// `P`; zeros for a query whose keys are all blocked.
    fn weights(&self) -> FloatTensor<B> {
        let query = B::float_mul_scalar(self.query.clone(), self.scale().into());
        let scores = B::float_matmul(query, B::float_transpose(self.key.clone()));
        let Some(blocked) = &self.blocked else {
            return B::softmax(scores, 3);
        };
        // The lowest finite number: such a query's softmax is finite, too.
        let lowest = scores.dtype().finfo().expect("scores are floats").min;
        let scores = B::float_mask_fill(scores, blocked.clone(), lowest.into());
        B::float_mask_fill(B::softmax(scores, 3), blocked.clone(), 0.0.into())
    }

    fn drop(&self, x: FloatTensor<B>) -> FloatTensor<B> {
        match &self.dropped {
            None => x,
            Some((dropped, scale)) => {
                let kept = B::float_mask_fill(x, dropped.clone(), 0.0.into());
                B::float_mul_scalar(kept, (*scale).into())
            }
        }
    }

    /// `[B, T, H K]`, and the weights before dropout.
    pub fn forward(&self) -> (FloatTensor<B>, FloatTensor<B>) {
        let weights = self.weights();
        let dropped = self.drop(weights.clone());
        let output = packed::<B>(B::float_matmul(dropped, self.value.clone()));
        let [batch, t, n_heads, d_head] = [0, 1, 2, 3].map(|dim| size(&output, dim));
        let output = B::float_reshape(output, Shape::new([batch, t, n_heads * d_head]));
        (output, weights)
    }

    /// The output, and what the backward pass is made of.
    pub fn forward_kept<const N: usize>(
        &self,
        inputs: [NodeId; N],
        masks: Masks<B>,
    ) -> (Kept<B, N>, FloatTensor<B>) {
        let (output, weights) = self.forward();
        let kept = Kept {
            inputs,
            masks,
            output: output.clone(),
            weights: self.is_short().then_some(weights),
        };
        (kept, output)
    }

    /// Of queries, keys and values, each `[B, L, H, K]`.
    fn backward(
        &self,
        output: FloatTensor<B>,
        weights: Option<FloatTensor<B>>,
        grad: FloatTensor<B>,
    ) -> [FloatTensor<B>; 3] {
        let n_heads = size(&self.query, 1);
        let [output, grad] = [output, grad].map(|x| split::<B>(x, n_heads));
        let weights = weights.unwrap_or_else(|| self.weights());
        let dropped = self.drop(weights.clone());
        let of_value = B::float_matmul(B::float_transpose(dropped), grad.clone());
        let of_weights = B::float_matmul(grad.clone(), B::float_transpose(self.value.clone()));
        let sums = B::float_sum_dim(B::float_mul(grad, output), 3);
        let of_scores = B::float_mul(weights, B::float_sub(self.drop(of_weights), sums));
        let of_scores = B::float_mul_scalar(of_scores, self.scale().into());
        let of_query = B::float_matmul(of_scores.clone(), self.key.clone());
        let of_key = B::float_matmul(B::float_transpose(of_scores), self.query.clone());
        [of_query, of_key, of_value].map(packed::<B>)
    }
}

/// Some heads of `[B, L, N, K]`: `[B, H, L, K]`.
fn heads<B: Backend>(packed: FloatTensor<B>, first: usize, n_heads: usize) -> FloatTensor<B> {
    let some = Slice::from(first..first + n_heads);
    let some = B::float_slice(packed, &[Slice::full(), Slice::full(), some, Slice::full()]);
    B::float_swap_dims(some, 1, 2)
}

/// `[B, H, L, K]` to `[B, L, H, K]`.
fn packed<B: Backend>(heads: FloatTensor<B>) -> FloatTensor<B> {
    B::float_swap_dims(heads, 1, 2)
}

/// `[B, L, H K]` to `[B, H, L, K]`.
fn split<B: Backend>(x: FloatTensor<B>, n_heads: usize) -> FloatTensor<B> {
    let [batch, length, width] = [0, 1, 2].map(|dim| size(&x, dim));
    let shape = Shape::new([batch, length, n_heads, width / n_heads]);
    B::float_swap_dims(B::float_reshape(x, shape), 1, 2)
}

#[derive(Debug)]
pub(super) struct SelfAttention;

#[derive(Debug)]
pub(super) struct CrossAttention;

/// What both backward passes are made of.
#[derive(Clone, Debug)]
pub(super) struct Kept<B: Backend, const N: usize> {
    inputs: [NodeId; N],
    masks: Masks<B>,
    output: FloatTensor<B>,
    weights: Option<FloatTensor<B>>,
}

impl<B: Backend> Backward<B, 1> for SelfAttention {
    type State = Kept<B, 1>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let kept = ops.state;
        let [packed] = kept.inputs.map(|id| checkpointer.retrieve_node_output(id));
        let grad = grads.consume::<B>(&ops.node);
        let attention = Attention::<B>::of_packed(packed, &kept.masks);
        let parts = attention.backward(kept.output, kept.weights, grad);
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        register::<B, 1>(grads, nodes, [B::float_cat(parts.into(), 2)]);
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
        let kept = ops.state;
        let [query, packed] = kept.inputs.map(|id| checkpointer.retrieve_node_output(id));
        let grad = grads.consume::<B>(&ops.node);
        let attention = Attention::<B>::apart(query, packed, &kept.masks);
        let [query, key, value] = attention.backward(kept.output, kept.weights, grad);
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        register::<B, 2>(grads, nodes, [query, B::float_cat(vec![key, value], 2)]);
    }
}
