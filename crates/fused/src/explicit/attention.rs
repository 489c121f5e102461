//! Attention (paper, section 3.2.1). With `P = softmax(Q K^T / sqrt(K))`, `D` the factors of
//! dropout and `O = (P D) V`:
//!
//! ```text
//! dV = (P D)^T dO    dP = (dO V^T) D    dS = P (dP - rowsum(dO O))
//! dQ = dS K / sqrt(K)                   dK = dS^T Q / sqrt(K)
//! ```

use std::ops::Range;

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Shape, Slice};

use super::dropout::{Dropped, dropped, scaled_up};
use super::size;
use crate::nodes::register;

/// Keys from which on the weights are computed again instead of kept, for some queries at a time:
/// at `d_model` 512 and 8 heads they would be about as much as all else that a layer keeps. On
/// ndarray, a step of 512 keys takes up to a tenth longer.
pub(crate) const LONG: usize = 1024;

/// Weights that are there at once where there are so many keys.
const AT_ONCE: usize = 1 << 21;

/// Whether there is a mask, and dropout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Masking {
    pub is_blocked: bool,
    /// Probability of dropout, 0 if there is none.
    pub dropout: f64,
    /// What is dropped where there are [`LONG`] keys or more follows from it.
    pub key: u64,
}

/// Both masks, of which those that there are not are not read.
#[derive(Clone, Debug)]
pub(super) struct Masks<B: Backend> {
    /// Each axis has the scores' size or 1.
    blocked: BoolTensor<B>,
    /// `[B, H, T, S]`, of fewer than [`LONG`] keys.
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
    /// `[B, H, T, K]`, divided by `sqrt(K)`.
    query: FloatTensor<B>,
    /// `[B, H, S, K]`
    key: FloatTensor<B>,
    /// `[B, H, S, K]`
    value: FloatTensor<B>,
    masks: Masks<B>,
}

/// Some of the queries, `[B, H, n, K]`, and the masks of their scores.
struct Block<B: Backend> {
    query: FloatTensor<B>,
    blocked: Option<BoolTensor<B>>,
    dropped: Dropped<B>,
}

impl<B: Backend> Attention<B> {
    /// Of `[B, T, 3 H, K]`.
    pub fn of_packed(packed: FloatTensor<B>, masks: Masks<B>) -> Self {
        let n_heads = size(&packed, 2) / 3;
        let [query, key, value] =
            [0, 1, 2].map(|part| heads::<B>(packed.clone(), part * n_heads, n_heads));
        Self {
            query: scaled::<B>(query),
            key,
            value,
            masks,
        }
    }

    /// Of `[B, T, H, K]` and `[B, S, 2 H, K]`.
    pub fn apart(query: FloatTensor<B>, packed: FloatTensor<B>, masks: Masks<B>) -> Self {
        let n_heads = size(&query, 2);
        let [key, value] = [0, 1].map(|part| heads::<B>(packed.clone(), part * n_heads, n_heads));
        Self {
            query: scaled::<B>(heads::<B>(query, 0, n_heads)),
            key,
            value,
            masks,
        }
    }

    fn is_short(&self) -> bool {
        size(&self.key, 2) < LONG
    }

    /// Queries whose weights are there at once: all, or some at a time.
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<B> {
        let [batch, n_heads, t] = [0, 1, 2].map(|dim| size(&self.query, dim));
        let weights_of_a_row = batch * n_heads * size(&self.key, 2);
        let at_once = match self.is_short() {
            true => t,
            // Each block adds to all keys' gradients.
            false => (AT_ONCE / weights_of_a_row).max(32),
        };
        (0..t)
            .step_by(at_once)
            .map(move |first| first..t.min(first + at_once))
    }

    fn block(&self, rows: &Range<usize>) -> Block<B> {
        let [batch, n_heads, t] = [0, 1, 2].map(|dim| size(&self.query, dim));
        let shape = [batch, n_heads, rows.len(), size(&self.key, 2)];
        let Masking {
            is_blocked,
            dropout,
            key,
        } = self.masks.masking;
        let blocked = || {
            let blocked = self.masks.blocked.clone();
            let blocked = match size(&blocked, 2) {
                1 => blocked,
                _ => B::bool_slice(blocked, &of_rows(rows)),
            };
            B::bool_expand(blocked, Shape::new(shape))
        };
        let mask = match dropout > 0.0 && !self.is_short() {
            true => {
                let heads = (0..batch * n_heads).map(|head| head * t);
                let numbers = heads.flat_map(|head| rows.clone().map(move |row| head + row));
                dropped::<B>(key, dropout, numbers, shape, &self.query.device())
            }
            false => self.masks.dropped.clone(),
        };
        Block {
            query: rows_of::<B>(self.query.clone(), rows),
            blocked: is_blocked.then(blocked),
            dropped: Dropped {
                mask,
                probability: dropout,
            },
        }
    }

    /// `[B, T, H K]`, and the weights before dropout if keeping them costs little.
    pub fn forward(&self) -> (FloatTensor<B>, Option<FloatTensor<B>>) {
        let (mut outputs, mut kept) = (Vec::new(), None);
        for rows in self.blocks() {
            let block = self.block(&rows);
            let weights = block.weights(&self.key);
            kept = self.is_short().then(|| weights.clone());
            outputs.push(B::float_matmul(
                block.dropped.masked(weights),
                self.value.clone(),
            ));
        }
        let output = scaled_up::<B>(joined::<B>(outputs), self.masks.masking.dropout);
        let output = packed::<B>(output);
        let [batch, t, n_heads, d_head] = [0, 1, 2, 3].map(|dim| size(&output, dim));
        let output = B::float_reshape(output, Shape::new([batch, t, n_heads * d_head]));
        (output, kept)
    }

    /// The output, and what the backward pass is made of.
    pub fn forward_kept<const N: usize>(self, inputs: [NodeId; N]) -> (Kept<B, N>, FloatTensor<B>) {
        let (output, weights) = self.forward();
        let kept = Kept {
            inputs,
            masks: self.masks,
            output: output.clone(),
            weights,
        };
        (kept, output)
    }

    /// Of queries, keys and values, each `[B, L, H, K]`.
    fn backward(
        &self,
        output: FloatTensor<B>,
        mut kept: Option<FloatTensor<B>>,
        grad: FloatTensor<B>,
    ) -> [FloatTensor<B>; 3] {
        let n_heads = size(&self.query, 1);
        let [output, grad] = [output, grad].map(|x| split::<B>(x, n_heads));
        let sums = B::float_sum_dim(B::float_mul(grad.clone(), output), 3);
        // Factors stand here, at `[.., K]`, of which there is less than of weights.
        let grad = scaled_up::<B>(grad, self.masks.masking.dropout);
        let key = scaled::<B>(self.key.clone());
        let (mut of_query, mut of_key_value) = (Vec::new(), None);
        for rows in self.blocks() {
            let block = self.block(&rows);
            let [grad, sums] = [&grad, &sums].map(|x| rows_of::<B>(x.clone(), &rows));
            let weights = kept.take().unwrap_or_else(|| block.weights(&self.key));
            let dropped = block.dropped.masked(weights.clone());
            let of_value = B::float_matmul(B::float_transpose(dropped), grad.clone());
            let of_weights = B::float_matmul(grad, B::float_transpose(self.value.clone()));
            let of_weights = block.dropped.masked(of_weights);
            let of_scores = B::float_mul(weights, B::float_sub(of_weights, sums));
            of_query.push(B::float_matmul(of_scores.clone(), key.clone()));
            let of_key = B::float_matmul(B::float_transpose(of_scores), block.query);
            of_key_value = Some(match of_key_value {
                None => (of_key, of_value),
                Some((key, value)) => (B::float_add(key, of_key), B::float_add(value, of_value)),
            });
        }
        let (of_key, of_value) = of_key_value.expect("there is a query");
        [joined::<B>(of_query), of_key, of_value].map(packed::<B>)
    }
}

impl<B: Backend> Block<B> {
    /// `P`; zeros for a query whose keys are all blocked.
    fn weights(&self, key: &FloatTensor<B>) -> FloatTensor<B> {
        let scores = B::float_matmul(self.query.clone(), B::float_transpose(key.clone()));
        let Some(blocked) = &self.blocked else {
            return B::softmax(scores, 3);
        };
        // The lowest finite number: such a query's softmax is finite, too.
        let lowest = scores.dtype().finfo().expect("scores are floats").min;
        let scores = B::float_mask_fill(scores, blocked.clone(), lowest.into());
        B::float_mask_fill(B::softmax(scores, 3), blocked.clone(), 0.0.into())
    }
}

/// `[B, H, L, K]`, divided by `sqrt(K)`.
fn scaled<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let factor = 1.0 / (size(&x, 3) as f64).sqrt();
    B::float_mul_scalar(x, factor.into())
}

/// Blocks of `[B, H, T, K]`, without a copy if there is one.
fn joined<B: Backend>(mut blocks: Vec<FloatTensor<B>>) -> FloatTensor<B> {
    match blocks.len() {
        1 => blocks.remove(0),
        _ => B::float_cat(blocks, 2),
    }
}

/// Some of `[B, H, T, ..]`.
fn rows_of<B: Backend>(x: FloatTensor<B>, rows: &Range<usize>) -> FloatTensor<B> {
    match rows.len() == size(&x, 2) {
        true => x,
        false => B::float_slice(x, &of_rows(rows)),
    }
}

fn of_rows(rows: &Range<usize>) -> [Slice; 4] {
    let rows = Slice::from(rows.clone());
    [Slice::full(), Slice::full(), rows, Slice::full()]
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
        let attention = Attention::<B>::of_packed(packed, kept.masks);
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
        let attention = Attention::<B>::apart(query, packed, kept.masks);
        let [query, key, value] = attention.backward(kept.output, kept.weights, grad);
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        register::<B, 2>(grads, nodes, [query, B::float_cat(vec![key, value], 2)]);
    }
}
