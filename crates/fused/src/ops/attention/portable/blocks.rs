//! The forward and backward pass of attention, one block of queries at a time.
//!
//! In `sqrt(K)` and in shapes, `K` is the number of features of a head. With the weights
//! `P = softmax(Q K^T / sqrt(K))`, the dropout factors `D` (0 or `1 / (1 - probability)`) and the
//! output `O = (P D) V`:
//!
//! ```text
//! dV = (P D)^T dO    dP = (dO V^T) D    dS = P (dP - rowsum(dO O))
//! dQ = dS K / sqrt(K)                   dK = dS^T Q / sqrt(K)
//! ```
//!
//! The gradient of a bias of the scores is the sum of `dS` over the sequences. With grouped
//! queries, `dK` and `dV` are sums over the heads of a group.
//!
//! `P D`, `(dO V^T) D`, `P (..)` and `dO O` are elementwise products. Unscaled attention does not
//! divide by `sqrt(K)`. `attention/mod.rs` explains the other letters in shapes.

use std::ops::Range;

use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{Shape, Slice};

use super::super::mask::KeyMask;
use super::super::terms::{Form, ScoreBias};
use super::masks::{LONG, Masks, WeightDropout};
use crate::backend::portable::size;
use crate::ops::dropout::portable::{DropoutMask, dropped_by_key, scale};

/// Maximum number of attention weights of a block of queries, for [`LONG`] keys or more. All
/// weights of a block are in memory at the same time. The minimum block size of 32 queries (see
/// `blocks`) overrides this maximum.
const AT_ONCE: usize = 1 << 21;

/// The inputs of attention.
pub(super) struct Attention<B: Backend> {
    /// Queries times the scale, `[B, H, T, K]`.
    query: FloatTensor<B>,
    /// Keys, `[B, H, S, K]`: with grouped queries, a copy for each head of queries.
    key: FloatTensor<B>,
    /// Values, `[B, H, S, K]`, copied like the keys.
    value: FloatTensor<B>,
    /// Bias that is added to the scores of every sequence, `[1, H, T, S]`.
    bias: Option<FloatTensor<B>>,
    /// Number of heads of keys and values, `G`.
    of_keys: usize,
    pub masks: Masks<B>,
    pub form: Form,
}

/// A block of `n` queries, with the bias and the masks of their scores.
struct Block<B: Backend> {
    /// Queries, `[B, H, n, K]`.
    query: FloatTensor<B>,
    /// Bias that is added to the scores of every sequence, `[1, H, n, S]`.
    bias: Option<FloatTensor<B>>,
    /// Attention mask, `[B, H, n, S]`, `true` = blocked. `None` if all keys are visible.
    blocked: Option<BoolTensor<B>>,
    dropout: DropoutMask<B>,
}

impl<B: Backend> Attention<B> {
    /// Returns the inputs of self-attention, from packed queries, keys and values,
    /// `[B, T, H + 2 * G, K]`.
    pub(super) fn of_self(packed: FloatTensor<B>, masks: Masks<B>, form: Form) -> Self {
        let query = heads::<B>(packed.clone(), 0, form.n_heads);
        Self::of(query, packed, form.n_heads, masks, form)
    }

    /// Returns the inputs of cross-attention, from queries, `[B, T, H, K]`, and packed keys and
    /// values, `[B, S, 2 * G, K]`.
    pub(super) fn of_cross(
        query: FloatTensor<B>,
        packed: FloatTensor<B>,
        masks: Masks<B>,
        form: Form,
    ) -> Self {
        let query = heads::<B>(query, 0, form.n_heads);
        Self::of(query, packed, 0, masks, form)
    }

    /// Returns the inputs from queries `[B, H, T, K]` and a tensor with keys and values from head
    /// `before` on.
    fn of(
        query: FloatTensor<B>,
        packed: FloatTensor<B>,
        before: usize,
        masks: Masks<B>,
        form: Form,
    ) -> Self {
        let of_keys = (size(&packed, 2) - before) / 2;
        let [key, value] = [0, 1].map(|part| {
            let some = heads::<B>(packed.clone(), before + part * of_keys, of_keys);
            repeated::<B>(some, form.n_heads / of_keys)
        });
        Self {
            query: B::float_mul_scalar(query, form.scale.into()),
            key,
            value,
            bias: None,
            of_keys,
            masks,
            form,
        }
    }

    pub(super) fn with_bias(mut self, bias: ScoreBias<B>) -> Self {
        self.bias = match bias {
            ScoreBias::None => None,
            ScoreBias::Added(bias) => Some(bias),
        };
        self
    }

    fn is_short(&self) -> bool {
        size(&self.key, 2) < LONG
    }

    /// Returns the range of queries of each block. For fewer than [`LONG`] keys, all queries are in
    /// one block.
    fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<B> {
        let [batch, n_heads, t] = [0, 1, 2].map(|dim| size(&self.query, dim));
        let weights_of_a_row = batch * n_heads * size(&self.key, 2);
        let at_once = if self.is_short() {
            t
        } else {
            // Every block but the last has at least 32 queries, since each block reads and writes
            // the gradients of all keys.
            (AT_ONCE / weights_of_a_row).max(32)
        };
        (0..t)
            .step_by(at_once)
            .map(move |first| first..t.min(first + at_once))
    }

    fn block(&self, rows: &Range<usize>) -> Block<B> {
        let [batch, n_heads, t] = [0, 1, 2].map(|dim| size(&self.query, dim));
        let shape = [batch, n_heads, rows.len(), size(&self.key, 2)];
        let blocked = match &self.masks.mask {
            KeyMask::None => None,
            KeyMask::Blocked(mask) => {
                let mask = match size(mask, 2) {
                    1 => mask.clone(),
                    _ => B::bool_slice(mask.clone(), &of_rows(rows)),
                };
                Some(B::bool_expand(mask, Shape::new(shape)))
            }
        };
        let dropout = match &self.masks.dropout {
            WeightDropout::None => DropoutMask::None,
            // The drawn mask covers all queries. It exists only for fewer than `LONG` keys, for
            // which all queries are in one block.
            WeightDropout::Drawn {
                dropped,
                probability,
            } => DropoutMask::Drawn {
                dropped: dropped.clone(),
                probability: *probability,
            },
            &WeightDropout::Keyed { key, probability } => {
                let heads = (0..batch * n_heads).map(|head| head * t);
                let indices = heads.flat_map(|head| rows.clone().map(move |row| head + row));
                let device = self.query.device();
                DropoutMask::Drawn {
                    dropped: dropped_by_key::<B>(key, probability, indices, shape, &device),
                    probability,
                }
            }
        };
        Block {
            query: rows_of::<B>(self.query.clone(), rows),
            bias: self.bias.clone().map(|bias| rows_of::<B>(bias, rows)),
            blocked,
            dropout,
        }
    }

    /// Returns the output, `[B, T, H * K]`, and the weights before dropout. The weights are `None`
    /// for [`LONG`] keys or more.
    pub(super) fn forward(&self) -> (FloatTensor<B>, Option<FloatTensor<B>>) {
        let (mut outputs, mut kept) = (Vec::new(), None);
        for rows in self.blocks() {
            let block = self.block(&rows);
            let weights = block.weights(&self.key);
            kept = self.is_short().then(|| weights.clone());
            outputs.push(B::float_matmul(
                block.dropout.mask(weights),
                self.value.clone(),
            ));
        }
        let output = scale::<B>(joined::<B>(outputs), self.masks.dropout.probability());
        let output = packed::<B>(output);
        let [batch, t, n_heads, d_head] = [0, 1, 2, 3].map(|dim| size(&output, dim));
        let output = B::float_reshape(output, Shape::new([batch, t, n_heads * d_head]));
        (output, kept)
    }

    /// Returns the gradients of queries, `[B, T, H, K]`, and of keys and values, each
    /// `[B, S, G, K]`. Also returns the gradient of the bias, `[1, H, T, S]`, if `trains_bias`.
    pub(super) fn backward(
        &self,
        output: FloatTensor<B>,
        mut kept: Option<FloatTensor<B>>,
        grad: FloatTensor<B>,
        trains_bias: bool,
    ) -> ([FloatTensor<B>; 3], Option<FloatTensor<B>>) {
        let n_heads = size(&self.query, 1);
        let [output, grad] = [output, grad].map(|x| split::<B>(x, n_heads));
        let sums = B::float_sum_dim(B::float_mul(grad.clone(), output), 3);
        // The scale factors of dropout and of the scores are applied to tensors `[.., K]`, which
        // usually have fewer elements than the weights.
        let grad = scale::<B>(grad, self.masks.dropout.probability());
        let key = B::float_mul_scalar(self.key.clone(), self.form.scale.into());
        let (mut query_grads, mut bias_grads) = (Vec::new(), Vec::new());
        let mut key_value_grads = None;
        for rows in self.blocks() {
            let block = self.block(&rows);
            let [grad, sums] = [&grad, &sums].map(|x| rows_of::<B>(x.clone(), &rows));
            let weights = kept.take().unwrap_or_else(|| block.weights(&self.key));
            let dropped = block.dropout.mask(weights.clone());
            let value_grad = B::float_matmul(B::float_transpose(dropped), grad.clone());
            let weights_grad = B::float_matmul(grad, B::float_transpose(self.value.clone()));
            let weights_grad = block.dropout.mask(weights_grad);
            let scores_grad = B::float_mul(weights, B::float_sub(weights_grad, sums));
            if trains_bias {
                bias_grads.push(B::float_sum_dim(scores_grad.clone(), 0));
            }
            query_grads.push(B::float_matmul(scores_grad.clone(), key.clone()));
            let key_grad = B::float_matmul(B::float_transpose(scores_grad), block.query);
            key_value_grads = Some(match key_value_grads {
                None => (key_grad, value_grad),
                Some((key, value)) => {
                    (B::float_add(key, key_grad), B::float_add(value, value_grad))
                }
            });
        }
        let (key_grad, value_grad) = key_value_grads.expect("there is a query");
        let [key_grad, value_grad] = [key_grad, value_grad].map(|x| summed::<B>(x, self.of_keys));
        let parts = [joined::<B>(query_grads), key_grad, value_grad].map(packed::<B>);
        (parts, trains_bias.then(|| joined::<B>(bias_grads)))
    }
}

impl<B: Backend> Block<B> {
    /// Returns the weights `P`, which are zeros for a query whose keys are all blocked.
    fn weights(&self, key: &FloatTensor<B>) -> FloatTensor<B> {
        let mut scores = B::float_matmul(self.query.clone(), B::float_transpose(key.clone()));
        if let Some(bias) = &self.bias {
            scores = B::float_add(scores, bias.clone());
        }
        let Some(blocked) = &self.blocked else {
            return B::softmax(scores, 3);
        };
        // Blocked scores get the lowest finite value, so that the softmax is finite even if all
        // keys are blocked.
        let lowest = scores.dtype().finfo().expect("scores are floats").min;
        let scores = B::float_mask_fill(scores, blocked.clone(), lowest.into());
        B::float_mask_fill(B::softmax(scores, 3), blocked.clone(), 0.0.into())
    }
}

/// Repeats each of the `G` heads of a tensor `[B, G, L, K]` for the `group` heads of queries that
/// share it.
fn repeated<B: Backend>(x: FloatTensor<B>, group: usize) -> FloatTensor<B> {
    if group == 1 {
        return x;
    }
    let [batch, of_keys, length, d_head] = [0, 1, 2, 3].map(|dim| size(&x, dim));
    let x = B::float_reshape(x, Shape::new([batch, of_keys, 1, length, d_head]));
    let x = B::float_expand(x, Shape::new([batch, of_keys, group, length, d_head]));
    B::float_reshape(x, Shape::new([batch, of_keys * group, length, d_head]))
}

/// Adds up a tensor `[B, H, L, K]` over the heads that share one of `of_keys` heads of keys. This
/// is the backward pass of [`repeated`].
fn summed<B: Backend>(x: FloatTensor<B>, of_keys: usize) -> FloatTensor<B> {
    let [batch, n_heads, length, d_head] = [0, 1, 2, 3].map(|dim| size(&x, dim));
    if of_keys == n_heads {
        return x;
    }
    let groups = Shape::new([batch, of_keys, n_heads / of_keys, length, d_head]);
    let sums = B::float_sum_dim(B::float_reshape(x, groups), 2);
    B::float_reshape(sums, Shape::new([batch, of_keys, length, d_head]))
}

/// Joins blocks of queries into a tensor `[B, H, T, ..]`, without a copy if there is only one
/// block.
fn joined<B: Backend>(mut blocks: Vec<FloatTensor<B>>) -> FloatTensor<B> {
    match blocks.len() {
        1 => blocks.remove(0),
        _ => B::float_cat(blocks, 2),
    }
}

/// Returns the part of a tensor `[B, H, T, ..]` that belongs to the queries in the range `rows`.
fn rows_of<B: Backend>(x: FloatTensor<B>, rows: &Range<usize>) -> FloatTensor<B> {
    if rows.len() == size(&x, 2) {
        x
    } else {
        B::float_slice(x, &of_rows(rows))
    }
}

fn of_rows(rows: &Range<usize>) -> [Slice; 4] {
    let rows = Slice::from(rows.clone());
    [Slice::full(), Slice::full(), rows, Slice::full()]
}

/// Returns `n_heads` heads of a packed tensor `[B, L, N, K]`, from head `first` on, as
/// `[B, H, L, K]`.
fn heads<B: Backend>(packed: FloatTensor<B>, first: usize, n_heads: usize) -> FloatTensor<B> {
    let some = Slice::from(first..first + n_heads);
    let some = B::float_slice(packed, &[Slice::full(), Slice::full(), some, Slice::full()]);
    B::float_swap_dims(some, 1, 2)
}

/// Returns heads `[B, H, L, K]` as a packed tensor `[B, L, H, K]`.
fn packed<B: Backend>(heads: FloatTensor<B>) -> FloatTensor<B> {
    B::float_swap_dims(heads, 1, 2)
}

/// Splits a tensor `[B, L, H * K]` into heads, `[B, H, L, K]`.
fn split<B: Backend>(x: FloatTensor<B>, n_heads: usize) -> FloatTensor<B> {
    let [batch, length, width] = [0, 1, 2].map(|dim| size(&x, dim));
    let shape = Shape::new([batch, length, n_heads, width / n_heads]);
    B::float_swap_dims(B::float_reshape(x, shape), 1, 2)
}
