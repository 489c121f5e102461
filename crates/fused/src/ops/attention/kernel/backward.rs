//! The backward pass of attention, with the weights `P`, the output `O` and its gradient `dO`:
//!
//! ```text
//! dV = dropout(P)^T dO            dP = dropout'(dO V^T)
//! dS = P (dP - rowsum(dO O))      dQ = dS K / sqrt(K)      dK = dS^T Q / sqrt(K)
//! ```
//!
//! `dropout` and its derivative `dropout'` multiply by the same mask and factor as in the forward
//! pass. `P (..)` and `dO O` are elementwise products. In `sqrt(K)`, `K` is the number of features
//! of a head.

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

impl Attention<'_> {
    /// Returns the gradient of packed queries, keys and values, `[B, T, 3 * H, K]`.
    pub(in super::super) fn backward_packed(&self, batch: usize, forward: Backward<'_>) -> Buffer {
        let (n, d_head) = (3 * self.n_heads, self.query.d_head);
        let mut grad = Buffer::arbitrary(batch * self.query.length * n * d_head);
        if !grad.is_empty() {
            let rows = grad.chunks_mut(self.query.length * n * d_head).enumerate();
            for_each(self.is_large(batch), rows.collect(), |(row, grad)| {
                let mut query = by_head(grad, n, d_head);
                let mut key = query.split_off(self.n_heads);
                let value = key.split_off(self.n_heads);
                self.backward_row(batch, row, forward, [query, key, value]);
            });
        }
        grad
    }

    /// Returns the gradients of queries, `[B, T, H, K]`, and of packed keys and values,
    /// `[B, S, 2 * H, K]`.
    pub(in super::super) fn backward(
        &self,
        batch: usize,
        forward: Backward<'_>,
    ) -> (Buffer, Buffer) {
        let (width, d_head) = (self.width(), self.query.d_head);
        let (t, s) = (self.query.length * width, self.key.length * 2 * width);
        let (mut query, mut packed) = (Buffer::arbitrary(batch * t), Buffer::arbitrary(batch * s));
        if query.is_empty() || packed.is_empty() {
            query.fill(0.0);
            packed.fill(0.0);
        } else {
            let rows = query.chunks_mut(t).zip(packed.chunks_mut(s)).enumerate();
            for_each(
                self.is_large(batch),
                rows.collect(),
                |(row, (query, packed))| {
                    let query = by_head(query, self.n_heads, d_head);
                    let mut key = by_head(packed, 2 * self.n_heads, d_head);
                    let value = key.split_off(self.n_heads);
                    self.backward_row(batch, row, forward, [query, key, value]);
                },
            );
        }
        (query, packed)
    }

    fn backward_row(
        &self,
        batch: usize,
        row: usize,
        forward: Backward<'_>,
        [query, key, value]: [Vec<Vec<&mut [f32]>>; 3],
    ) {
        let heads = query.into_iter().zip(key).zip(value).enumerate();
        for_each(
            self.is_large(batch),
            heads.collect(),
            |(head, ((query, key), value))| {
                let mut scratch = SCRATCH.take();
                self.backward_head(row, head, forward, [query, key, value], &mut scratch);
                SCRATCH.set(scratch);
            },
        );
    }

    fn backward_head(
        &self,
        row: usize,
        head: usize,
        forward: Backward<'_>,
        [mut d_query, mut d_key, mut d_value]: [Vec<&mut [f32]>; 3],
        scratch: &mut Scratch,
    ) {
        let arch = arch();
        let t = self.query.length;
        let (query, key) = (self.query.of(row, head), self.key.of(row, head));
        let key_t = transpose(key, &mut scratch.key);
        let value_t = transpose(self.value.of(row, head), &mut scratch.value);
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
                (transposed(weights), grad, &mut d_value),
                (transposed(gradients), query, &mut d_key),
            ] {
                let (seen, others) = sums.split_at_mut(s);
                match first {
                    0 => {
                        set_matmul(x, y, seen);
                        others.iter_mut().for_each(|row| row.fill(0.0));
                    }
                    _ => add_matmul(x, y, seen),
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
}

impl WithSimd for SoftmaxBackward<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
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
            for (gradient, weight) in gradients.iter_mut().zip(weights) {
                *gradient = scale * *weight * (*gradient - mean);
            }
        }
    }
}
