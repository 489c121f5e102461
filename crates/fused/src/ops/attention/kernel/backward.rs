//! The backward pass of attention, with the weights `P`, the output `O` and its gradient `dO`:
//!
//! ```text
//! dV = dropout(P)^T dO            dP = dropout'(dO V^T)
//! dS = P (dP - rowsum(dO O))      dQ = dS K / sqrt(K)      dK = dS^T Q / sqrt(K)
//! ```
//!
//! The gradient of a bias of the scores is the sum of `dS` over the sequences. With grouped
//! queries, `dK` and `dV` are sums over the heads of a group.
//!
//! `dropout` and its derivative `dropout'` multiply by the same mask and factor as in the forward
//! pass. `P (..)` and `dO O` are elementwise products. In `sqrt(K)` and in shapes, `K` is the
//! number of features of a head. Unscaled attention does not divide by `sqrt(K)`.

use pulp::{Simd, WithSimd};

use super::heads::{
    Attention, BLOCK, Heads, SCRATCH, Scratch, by_head, for_each, rows, rows_of, transpose,
};
use crate::memory::buffer::Buffer;
use crate::simd::exp::exponentiate;
use crate::simd::level::arch;
use crate::simd::matmul::matrix::Matrix;
use crate::simd::matmul::{add_matmul, set_matmul};
use crate::simd::vectors::dot;

/// Results of the forward pass, and the gradient of the output.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Backward<'a> {
    /// The output, `[B, T, H * K]`.
    pub output: &'a [f32],
    /// The log-sum-exp of each row of scores, `[B, H, T]`.
    pub lse: &'a [f32],
    /// The gradient of the output, `[B, T, H * K]`.
    pub grad: &'a [f32],
}

/// Gradients for one group of heads in one sequence. Each gradient is a vector of rows of `K`
/// elements.
struct Grads<'a, 'b> {
    /// Gradients of the queries of each head, `[H / G][T]`.
    query: &'b mut [Vec<&'a mut [f32]>],
    /// Gradients of the keys, `[S]`.
    key: Vec<&'a mut [f32]>,
    /// Gradients of the values, `[S]`.
    value: Vec<&'a mut [f32]>,
}

impl Attention<'_> {
    /// Returns the gradient of packed queries, keys and values, `[B, T, H + 2 * G, K]`.
    pub(in super::super) fn backward_packed(&self, batch: usize, forward: Backward<'_>) -> Buffer {
        let (n, d_head) = (self.query.n_packed, self.query.d_head);
        let mut grad = Buffer::arbitrary(batch * self.query.length * n * d_head);
        if !grad.is_empty() {
            let rows = grad.chunks_mut(self.query.length * n * d_head).enumerate();
            let is_large = self.is_large(batch);
            for_each(is_large, rows, |(row, grad)| {
                let mut heads = self.heads_of_packed(grad);
                let groups = self.groups(&mut heads);
                for_each(is_large, groups, |(group, grads)| {
                    self.backward_group([row, group], forward, grads, None);
                });
            });
        }
        grad
    }

    /// Returns the same gradient as [`backward_packed`](Self::backward_packed), and the gradient of
    /// the bias, `[H, T, T]`.
    pub(in super::super) fn backward_packed_and_bias(
        &self,
        batch: usize,
        forward: Backward<'_>,
    ) -> (Buffer, Buffer) {
        let t = self.query.length;
        let (n, d_head) = (self.query.n_packed, self.query.d_head);
        let mut grad = Buffer::arbitrary(batch * t * n * d_head);
        let mut bias = Buffer::zeros(self.n_heads * t * t);
        if !grad.is_empty() {
            // One thread computes a group of heads for all sequences of the batch, so that the
            // sequences' gradients of the bias are added in a fixed order.
            let rows = grad.chunks_mut(t * n * d_head);
            let mut heads: Vec<_> = rows.map(|grad| self.heads_of_packed(grad)).collect();
            let mut rows: Vec<_> = heads.iter_mut().map(|heads| self.groups(heads)).collect();
            let groups = bias.chunks_mut(self.group * t * t).map(|bias| {
                let grads = rows
                    .iter_mut()
                    .map(|row| row.next().expect("one per group"));
                (bias, grads.collect::<Vec<_>>())
            });
            for_each(self.is_large(batch), groups, |(bias, rows)| {
                for (row, (group, grads)) in rows.into_iter().enumerate() {
                    self.backward_group([row, group], forward, grads, Some(&mut *bias));
                }
            });
        }
        (grad, bias)
    }

    /// Splits the gradient of a packed sequence by head. Returns the heads of the queries, of the
    /// keys and of the values.
    fn heads_of_packed<'a>(&self, grad: &'a mut [f32]) -> [Vec<Vec<&'a mut [f32]>>; 3] {
        let mut query = by_head(grad, self.query.n_packed, self.query.d_head);
        let mut key = query.split_off(self.n_heads);
        let value = key.split_off(key.len() / 2);
        [query, key, value]
    }

    /// Returns the index and the gradients of each group of heads of a sequence. The heads of keys
    /// and values are drained from their vectors.
    fn groups<'a, 'b>(
        &self,
        [query, key, value]: &'b mut [Vec<Vec<&'a mut [f32]>>; 3],
    ) -> impl Iterator<Item = (usize, Grads<'a, 'b>)> + use<'a, 'b> {
        let query = query.chunks_mut(self.group);
        let heads = query.zip(key.drain(..)).zip(value.drain(..)).enumerate();
        heads.map(|(group, ((query, key), value))| (group, Grads { query, key, value }))
    }

    /// Returns the gradients of queries, `[B, T, H, K]`, and of packed keys and values,
    /// `[B, S, 2 * G, K]`.
    pub(in super::super) fn backward(
        &self,
        batch: usize,
        forward: Backward<'_>,
    ) -> (Buffer, Buffer) {
        let (d_head, n_packed) = (self.query.d_head, self.key.n_packed);
        let t = self.query.length * self.width();
        let s = self.key.length * n_packed * d_head;
        let (mut query, mut packed) = (Buffer::arbitrary(batch * t), Buffer::arbitrary(batch * s));
        if query.is_empty() || packed.is_empty() {
            query.fill(0.0);
            packed.fill(0.0);
        } else {
            let rows = query.chunks_mut(t).zip(packed.chunks_mut(s)).enumerate();
            let is_large = self.is_large(batch);
            for_each(is_large, rows, |(row, (query, packed))| {
                let query = by_head(query, self.n_heads, d_head);
                let mut key = by_head(packed, n_packed, d_head);
                let value = key.split_off(n_packed / 2);
                let mut heads = [query, key, value];
                let groups = self.groups(&mut heads);
                for_each(is_large, groups, |(group, grads)| {
                    self.backward_group([row, group], forward, grads, None);
                });
            });
        }
        (query, packed)
    }

    /// Computes the gradients for one group of heads in one sequence, and adds the gradient of the
    /// bias to `bias`, `[H / G, T, S]`.
    fn backward_group(
        &self,
        [row, group]: [usize; 2],
        forward: Backward<'_>,
        grads: Grads<'_, '_>,
        bias: Option<&mut [f32]>,
    ) {
        let mut scratch = SCRATCH.take();
        let mut biases = bias.map(|bias| bias.chunks_mut(self.query.length * self.key.length));
        let Grads {
            query,
            mut key,
            mut value,
        } = grads;
        for (index, query) in query.iter_mut().enumerate() {
            let bias = biases.as_mut().and_then(Iterator::next);
            let head = group * self.group + index;
            let sums = [&mut key[..], &mut value[..]];
            self.backward_head([row, head], forward, query, sums, bias, &mut scratch);
        }
        SCRATCH.set(scratch);
    }

    /// Computes the gradients of one head. The first head of a group sets the gradients of keys and
    /// values, and the other heads add to them.
    fn backward_head(
        &self,
        [row, head]: [usize; 2],
        forward: Backward<'_>,
        d_query: &mut [&mut [f32]],
        [d_key, d_value]: [&mut [&mut [f32]]; 2],
        mut d_bias: Option<&mut [f32]>,
        scratch: &mut Scratch,
    ) {
        let arch = arch();
        let t = self.query.length;
        let of_keys = head / self.group;
        let (query, key) = (self.query.of(row, head), self.key.of(row, of_keys));
        let key_t = transpose(key, &mut scratch.key);
        let value_t = transpose(self.value.of(row, of_keys), &mut scratch.value);
        let like_output = |data| Heads {
            data,
            length: t,
            n_packed: self.n_heads,
            first: 0,
            d_head: self.query.d_head,
        };
        let output = like_output(forward.output).of(row, head);
        let grad = like_output(forward.grad).of(row, head);
        let lse = &forward.lse[(row * self.n_heads + head) * t..][..t];
        for (d_query, first) in d_query.chunks_mut(BLOCK).zip((0..).step_by(BLOCK)) {
            let n = d_query.len();
            let block = [row, head, first];
            let s = self.visible(block, n);
            scratch.weights.resize(n * s, 0.0);
            scratch.gradients.resize(n * s, 0.0);
            let (weights, gradients) = (&mut scratch.weights[..], &mut scratch.gradients[..]);
            let (query, grad) = (rows_of(query, first, n), rows_of(grad, first, n));
            let [key_t, value_t] = [key_t, value_t].map(|x| Matrix { columns: s, ..x });
            set_matmul(query, key_t, &mut rows(weights, s));
            set_matmul(grad, value_t, &mut rows(gradients, s));
            self.drop(block, gradients, s);
            arch.dispatch(SoftmaxBackward {
                attention: self,
                block,
                lse: &lse[first..][..n],
                output: rows_of(output, first, n),
                grad,
                weights,
                gradients,
                d_bias: d_bias.as_mut().map(|bias| {
                    let length = self.key.length;
                    &mut bias[first * length..(first + n) * length]
                }),
            });
            self.drop(block, weights, s);
            let transposed = |data| Matrix {
                data,
                rows: s,
                columns: n,
                row_stride: 1,
                column_stride: s,
            };
            for (x, y, sums) in [
                (transposed(weights), grad, &mut *d_value),
                (transposed(gradients), query, &mut *d_key),
            ] {
                let (seen, others) = sums.split_at_mut(s);
                if first == 0 && head.is_multiple_of(self.group) {
                    set_matmul(x, y, seen);
                    others.iter_mut().for_each(|row| row.fill(0.0));
                } else {
                    add_matmul(x, y, seen);
                }
            }
            let key = Matrix { rows: s, ..key };
            set_matmul(Matrix::contiguous(gradients, n, s), key, d_query);
        }
    }
}

/// Turns a block of `Q K^T` into weights, and the gradients of the weights into gradients of
/// `Q K^T`.
struct SoftmaxBackward<'a, 'b> {
    attention: &'a Attention<'a>,
    /// The block's sequence, head and first query.
    block: [usize; 3],
    lse: &'a [f32],
    output: Matrix<'a>,
    grad: Matrix<'a>,
    weights: &'b mut [f32],
    gradients: &'b mut [f32],
    /// The gradient of the bias, `[n, S]` for the `n` queries of the block, to which the gradients
    /// of the scores are added. `None` if no bias needs a gradient.
    d_bias: Option<&'b mut [f32]>,
}

impl WithSimd for SoftmaxBackward<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Heads { d_head, .. } = self.attention.query;
        let s = self.weights.len() / self.lse.len();
        let scale = self.attention.scale;
        let [row, head, first] = self.block;
        let weights = self.weights.chunks_exact_mut(s);
        let rows = weights.zip(self.gradients.chunks_exact_mut(s)).enumerate();
        for (index, (weights, gradients)) in rows {
            self.attention.mask_row(row, head, first + index, weights);
            exponentiate(simd, weights, self.lse[index]);
            let grad = &self.grad.data[index * self.grad.row_stride..][..d_head];
            let output = &self.output.data[index * self.output.row_stride..][..d_head];
            let mean = dot(simd, grad, output);
            if let Some(d_bias) = &mut self.d_bias {
                let length = self.attention.key.length;
                let d_bias = &mut d_bias[index * length..][..s];
                for ((sum, gradient), weight) in d_bias.iter_mut().zip(&*gradients).zip(&*weights) {
                    *sum += *weight * (*gradient - mean);
                }
            }
            for (gradient, weight) in gradients.iter_mut().zip(weights) {
                *gradient = scale * *weight * (*gradient - mean);
            }
        }
    }
}
