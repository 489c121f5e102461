//! The forward pass of attention (Vaswani et al., 2017, section 3.2.1):
//!
//! ```text
//! P = softmax(Q K^T / sqrt(K))    O = dropout(P) V
//! ```
//!
//! In `sqrt(K)`, `K` is the number of features of a head. The formula omits the mask, the bias and
//! the unscaled variant. The forward pass also returns the log-sum-exp of each row of scores, from
//! which the backward pass computes the weights again.

use pulp::{Simd, WithSimd};

use super::heads::{
    Attention, BLOCK, SCRATCH, Scratch, by_head, for_each, rows, rows_of, transpose,
};
use crate::memory::buffer::Buffer;
use crate::simd::exp::{exponentiate, largest_score};
use crate::simd::level::arch;
use crate::simd::matmul::matrix::Matrix;
use crate::simd::matmul::set_matmul;

impl Attention<'_> {
    /// Returns the output, `[B, T, H * K]`, and the log-sum-exp of each row of scores, `[B, H, T]`.
    /// The log-sum-exp is infinity where all keys are blocked, so that the backward pass computes
    /// weights of zero.
    pub(in super::super) fn forward(&self, batch: usize) -> (Buffer, Buffer) {
        let (t, width) = (self.query.length, self.width());
        let mut output = Buffer::arbitrary(batch * t * width);
        let mut lse = Buffer::arbitrary(batch * self.n_heads * t);
        if self.key.length == 0 {
            output.fill(0.0);
            lse.fill(f32::INFINITY);
        } else if !output.is_empty() {
            let is_large = self.is_large(batch);
            let rows = output.chunks_mut(t * width);
            let rows = rows.zip(lse.chunks_mut(self.n_heads * t)).enumerate();
            for_each(is_large, rows, |(row, (output, lse))| {
                let heads = by_head(output, self.n_heads, self.query.d_head);
                let heads = heads.into_iter().zip(lse.chunks_mut(t)).enumerate();
                for_each(is_large, heads, |(head, (mut output, lse))| {
                    let mut scratch = SCRATCH.take();
                    self.forward_head(row, head, &mut output, lse, &mut scratch);
                    SCRATCH.set(scratch);
                });
            });
        }
        (output, lse)
    }

    fn forward_head(
        &self,
        row: usize,
        head: usize,
        output: &mut [&mut [f32]],
        lse: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let arch = arch();
        let of_keys = head / self.group;
        let (query, value) = (self.query.of(row, head), self.value.of(row, of_keys));
        let key = transpose(self.key.of(row, of_keys), &mut scratch.key);
        let blocks = output.chunks_mut(BLOCK).zip(lse.chunks_mut(BLOCK));
        for ((output, lse), first) in blocks.zip((0..).step_by(BLOCK)) {
            let n = output.len();
            let block = [row, head, first];
            let s = self.visible(block, n);
            scratch.weights.resize(n * s, 0.0);
            let weights = &mut scratch.weights[..];
            let key = Matrix { columns: s, ..key };
            set_matmul(rows_of(query, first, n), key, &mut rows(weights, s));
            arch.dispatch(Softmax {
                attention: self,
                block,
                weights,
                lse,
            });
            self.drop(block, weights, s);
            let value = Matrix { rows: s, ..value };
            set_matmul(Matrix::contiguous(weights, n, s), value, output);
        }
    }
}

/// Turns a block of `Q K^T` into weights, and stores the log-sum-exp of each row of scores.
struct Softmax<'a, 'b> {
    attention: &'a Attention<'a>,
    /// The block's sequence, head and first query.
    block: [usize; 3],
    weights: &'b mut [f32],
    lse: &'b mut [f32],
}

impl WithSimd for Softmax<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let [row, head, first] = self.block;
        let s = self.weights.len() / self.lse.len();
        let rows = self.weights.chunks_exact_mut(s).zip(self.lse);
        for ((weights, lse_of_row), t) in rows.zip(first..) {
            self.attention.mask_row(row, head, t, weights);
            let Some(largest) = largest_score(simd, weights) else {
                weights.fill(0.0);
                *lse_of_row = f32::INFINITY;
                continue;
            };
            let sum = exponentiate(simd, weights, largest);
            let factor = 1.0 / sum;
            for weight in weights {
                *weight *= factor;
            }
            *lse_of_row = largest + sum.ln();
        }
    }
}
