//! Forward pass (paper, section 3.2.1), one head of one sequence after the other:
//!
//! ```text
//! P = softmax(Q K^T / sqrt(K))    O = dropout(P) V
//! ```
//!
//! It keeps the logarithm of each row's sum, from which the backward pass has the weights again.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::buffers::Buffer;
use crate::dropout::Dropout;
use crate::product::{Matrix, set_product};
use crate::transpose::copy_transposed;

/// Rows of weights at a time, so that they stay in the cache.
pub(super) const BLOCK: usize = 64;

/// Multiply-adds below which a second thread costs more than it brings.
const PARALLEL: usize = 1 << 17;

/// Some heads of a packed projection, `[B, L, N, K]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads<'a> {
    /// The whole projection.
    pub data: &'a [f32],
    /// `L`.
    pub length: usize,
    /// `N`.
    pub n_packed: usize,
    /// The first one that counts.
    pub first: usize,
    /// `K`.
    pub d_head: usize,
}

impl<'a> Heads<'a> {
    /// `[L, K]` of one of them.
    pub(super) fn of(&self, row: usize, head: usize) -> Matrix<'a> {
        let width = self.n_packed * self.d_head;
        let begin = row * self.length * width + (self.first + head) * self.d_head;
        Matrix {
            data: &self.data[begin..],
            rows: self.length,
            columns: self.d_head,
            row_stride: width,
            column_stride: 1,
        }
    }
}

/// A mask's bytes, 0 = visible, with the strides of `[B, H, T, S]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask<'a> {
    pub data: &'a [u8],
    pub strides: [usize; 4],
}

/// What attends to what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention<'a> {
    pub query: Heads<'a>,
    pub key: Heads<'a>,
    pub value: Heads<'a>,
    pub n_heads: usize,
    pub mask: Option<Mask<'a>>,
    pub dropout: Dropout,
}

#[derive(Default)]
pub(super) struct Scratch {
    /// `[T, S]` of a block of rows.
    pub(super) weights: Vec<f32>,
    /// Their gradients.
    #[cfg(feature = "autodiff")]
    pub(super) gradients: Vec<f32>,
    /// `[K, S]`.
    pub(super) key: Vec<f32>,
    /// `[K, S]`.
    #[cfg(feature = "autodiff")]
    pub(super) value: Vec<f32>,
}

thread_local! {
    pub(super) static SCRATCH: std::cell::Cell<Scratch> = std::cell::Cell::default();
}

/// Runs `f` on each item, on all threads if the attention is large enough.
pub(super) fn for_each<T: Send>(is_large: bool, items: Vec<T>, f: impl Fn(T) + Send + Sync) {
    match is_large {
        true => items.into_par_iter().for_each(f),
        false => items.into_iter().for_each(f),
    }
}

/// The rows of each of `n` packed heads: `[L, n, K]`.
pub(super) fn by_head(x: &mut [f32], n: usize, d_head: usize) -> Vec<Vec<&mut [f32]>> {
    let length = x.len() / (n * d_head);
    let mut heads: Vec<Vec<&mut [f32]>> = (0..n).map(|_| Vec::with_capacity(length)).collect();
    for (index, row) in x.chunks_mut(d_head).enumerate() {
        heads[index % n].push(row);
    }
    heads
}

impl Attention<'_> {
    pub(super) fn is_large(&self, batch: usize) -> bool {
        let Heads { length, d_head, .. } = self.query;
        batch * self.n_heads * length * self.key.length * d_head >= PARALLEL
    }

    pub(super) fn width(&self) -> usize {
        self.n_heads * self.query.d_head
    }

    /// The output `[B, T, H K]`, and for each row of weights the logarithm of its sum,
    /// `[B, H, T]`: infinity where all keys are blocked.
    pub(crate) fn forward(&self, batch: usize) -> (Buffer, Buffer) {
        let (t, width) = (self.query.length, self.width());
        let mut output = Buffer::arbitrary(batch * t * width);
        let mut log_sums = Buffer::arbitrary(batch * self.n_heads * t);
        if self.key.length == 0 {
            output.fill(0.0);
            log_sums.fill(f32::INFINITY);
        } else if !output.is_empty() {
            let is_large = self.is_large(batch);
            let rows = output.chunks_mut(t * width);
            let rows = rows.zip(log_sums.chunks_mut(self.n_heads * t)).enumerate();
            for_each(is_large, rows.collect(), |(row, (output, log_sums))| {
                let heads = by_head(output, self.n_heads, self.query.d_head);
                let heads = heads.into_iter().zip(log_sums.chunks_mut(t)).enumerate();
                for_each(
                    is_large,
                    heads.collect(),
                    |(head, (mut output, log_sums))| {
                        let mut scratch = SCRATCH.take();
                        self.forward_head(row, head, &mut output, log_sums, &mut scratch);
                        SCRATCH.set(scratch);
                    },
                );
            });
        }
        (output, log_sums)
    }

    fn forward_head(
        &self,
        row: usize,
        head: usize,
        output: &mut [&mut [f32]],
        log_sums: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let arch = Arch::new();
        let (query, value) = (self.query.of(row, head), self.value.of(row, head));
        let key = transpose(self.key.of(row, head), &mut scratch.key);
        let blocks = output.chunks_mut(BLOCK).zip(log_sums.chunks_mut(BLOCK));
        for ((output, log_sums), first) in blocks.zip((0..).step_by(BLOCK)) {
            let n = output.len();
            let place = [row, head, first];
            let s = self.visible(place, n);
            scratch.weights.resize(n * s, 0.0);
            let weights = &mut scratch.weights[..];
            let key = Matrix { columns: s, ..key };
            set_product(rows_of(query, first, n), key, &mut rows(weights, s));
            arch.dispatch(Softmax {
                attention: self,
                place,
                weights,
                log_sums,
            });
            self.drop(place, weights, s);
            let value = Matrix { rows: s, ..value };
            set_product(Matrix::contiguous(weights, n, s), value, output);
        }
    }

    /// Keys up to the last one that any of `n` rows sees, at least one: those after it, such as a
    /// causal mask's, are left out of all products.
    pub(super) fn visible(&self, [row, head, first]: [usize; 3], n: usize) -> usize {
        let s = self.key.length;
        let Some(Mask { data, strides }) = self.mask else {
            return s;
        };
        if strides[3] != 1 {
            return s;
        }
        let rows = if strides[2] == 0 { 1 } else { n };
        (first..first + rows).rev().fold(1, |visible, t| {
            let begin = row * strides[0] + head * strides[1] + t * strides[2];
            let after = &data[begin + visible..begin + s];
            last_zero(after).map_or(visible, |last| visible + last + 1)
        })
    }

    /// Drops some of the weights of the rows from `first` on, of which the first `s` of each are
    /// there.
    pub(super) fn drop(&self, [row, head, first]: [usize; 3], weights: &mut [f32], s: usize) {
        let place = (row * self.n_heads + head) * self.query.length + first;
        if s == self.key.length {
            self.dropout.apply(weights, place * s);
            return;
        }
        for (weights, place) in weights.chunks_exact_mut(s).zip(place..) {
            self.dropout.apply(weights, place * self.key.length);
        }
    }
}

/// Index of the last byte that is zero.
fn last_zero(bytes: &[u8]) -> Option<usize> {
    let (rest, chunks) = bytes.as_rchunks::<32>();
    // All of a chunk at once: a search that stops in it would not be vector instructions.
    let has_zero = |chunk: &[u8; 32]| chunk.iter().fold(false, |any, &byte| any | (byte == 0));
    let within = |bytes: &[u8]| bytes.iter().rposition(|&byte| byte == 0);
    match chunks.iter().rposition(has_zero) {
        Some(chunk) => within(&chunks[chunk]).map(|last| rest.len() + 32 * chunk + last),
        None => within(rest),
    }
}

/// The largest score that is a number, minus infinity where none is; `None` where a query sees
/// nothing, so that all scores are minus infinity.
#[inline(always)]
pub(super) fn largest(scores: &[f32]) -> Option<f32> {
    // In lanes that the compiler makes vectors of.
    const LANES: usize = 32;
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (lines, rest) = scores.as_chunks::<LANES>();
    for line in lines {
        for (m, &x) in lanes.iter_mut().zip(line) {
            *m = if x > *m { x } else { *m };
        }
    }
    for (m, &x) in lanes.iter_mut().zip(rest) {
        *m = if x > *m { x } else { *m };
    }
    let largest = lanes.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
    let sees = largest > f32::NEG_INFINITY || scores.iter().any(|x| x.is_nan());
    sees.then_some(largest)
}

pub(super) fn rows(x: &mut [f32], width: usize) -> Vec<&mut [f32]> {
    x.chunks_mut(width).collect()
}

/// `n` rows from `first` on.
pub(super) fn rows_of(x: Matrix<'_>, first: usize, n: usize) -> Matrix<'_> {
    Matrix {
        data: &x.data[first * x.row_stride..],
        rows: n,
        ..x
    }
}

/// `x^T`, row after row.
pub(super) fn transpose<'a>(x: Matrix<'_>, to: &'a mut Vec<f32>) -> Matrix<'a> {
    to.resize(x.rows * x.columns, 0.0);
    copy_transposed(x.data, x.row_stride, [x.rows, x.columns], to, x.rows);
    Matrix::contiguous(to, x.columns, x.rows)
}

/// Scores of some rows to weights.
struct Softmax<'a, 'b> {
    attention: &'a Attention<'a>,
    /// Sequence, head and first row.
    place: [usize; 3],
    weights: &'b mut [f32],
    log_sums: &'b mut [f32],
}

impl WithSimd for Softmax<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let [row, head, first] = self.place;
        let s = self.weights.len() / self.log_sums.len();
        let rows = self.weights.chunks_exact_mut(s).zip(self.log_sums);
        for ((weights, log_sum), t) in rows.zip(first..) {
            self.attention.mask_row(row, head, t, weights);
            let Some(largest) = largest(weights) else {
                weights.fill(0.0);
                *log_sum = f32::INFINITY;
                continue;
            };
            let sum = crate::log_sum_exp::exponentiate(simd, weights, largest);
            let factor = 1.0 / sum;
            for weight in weights {
                *weight *= factor;
            }
            *log_sum = largest + sum.ln();
        }
    }
}

impl Attention<'_> {
    /// Products to scores: scaled, minus infinity where they are blocked.
    #[inline(always)]
    pub(super) fn mask_row(&self, row: usize, head: usize, t: usize, scores: &mut [f32]) {
        let scale = 1.0 / (self.query.d_head as f32).sqrt();
        for score in scores.iter_mut() {
            *score *= scale;
        }
        let Some(Mask { data, strides }) = self.mask else {
            return;
        };
        let blocked = &data[row * strides[0] + head * strides[1] + t * strides[2]..];
        match strides[3] {
            1 => {
                for (score, &blocked) in scores.iter_mut().zip(blocked) {
                    *score = if blocked == 0 {
                        *score
                    } else {
                        f32::NEG_INFINITY
                    };
                }
            }
            0 if blocked[0] != 0 => scores.fill(f32::NEG_INFINITY),
            0 => {}
            stride => {
                for (score, &blocked) in scores.iter_mut().zip(blocked.iter().step_by(stride)) {
                    *score = if blocked == 0 {
                        *score
                    } else {
                        f32::NEG_INFINITY
                    };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_after_the_last_visible_one_are_left_out() {
        let (t, s) = (150, 150);
        let heads = |length| Heads {
            data: &[],
            length,
            n_packed: 1,
            first: 0,
            d_head: 1,
        };
        let attention = |data, strides| Attention {
            query: heads(t),
            key: heads(s),
            value: heads(s),
            n_heads: 1,
            mask: Some(Mask { data, strides }),
            dropout: Dropout::default(),
        };
        let causal: Vec<u8> = (0..t * s).map(|i| u8::from(i % s > i / s)).collect();
        let causal = attention(&causal, [0, 0, s, 1]);
        for (first, n) in [(0, 1), (0, 64), (64, 64), (128, 22)] {
            assert_eq!(causal.visible([0, 0, first], n), first + n);
        }
        // Of the second row, whose padding begins after 7 tokens.
        let padding: Vec<u8> = (0..2 * s).map(|i| u8::from(i >= s + 7)).collect();
        let padding = attention(&padding, [s, 0, 0, 1]);
        assert_eq!(padding.visible([0, 0, 64], 64), s);
        assert_eq!(padding.visible([1, 0, 64], 64), 7);
        // What sees nothing has one key, which is blocked.
        let nothing = vec![1; s];
        assert_eq!(attention(&nothing, [0, 0, 0, 1]).visible([0, 0, 0], 64), 1);
    }

    #[test]
    fn the_last_zero_is_found_wherever_it_is() {
        for length in [0, 1, 31, 32, 33, 100] {
            assert_eq!(last_zero(&vec![1; length]), None);
            for last in 0..length {
                let bytes: Vec<u8> = (0..length).map(|i| u8::from(i > last) * 5).collect();
                assert_eq!(last_zero(&bytes), Some(last), "of {length}");
            }
        }
    }
}
