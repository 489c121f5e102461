//! Packed heads, masks and scratch memory, which the forward and backward passes share.

use crate::ops::dropout::kernel::Dropout;
use crate::parallel;
use crate::simd::matmul::matrix::Matrix;
use crate::simd::transpose::copy_transposed;

/// Number of queries in a block. The weights of so few queries usually stay in the CPU cache.
pub(super) const BLOCK: usize = 64;

/// Number of multiply-adds below which a second thread costs more than it saves.
const PARALLEL: usize = 1 << 17;

/// Consecutive heads of a packed projection `[B, L, N, K]`.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Heads<'a> {
    /// The whole projection.
    pub data: &'a [f32],
    /// Number of tokens of a sequence, `L`.
    pub length: usize,
    /// Number of heads of the projection, `N`.
    pub n_packed: usize,
    /// Index of the first head of this view in the projection.
    pub first: usize,
    /// Number of features of a head, `K`.
    pub d_head: usize,
}

impl<'a> Heads<'a> {
    /// Returns the matrix `[L, K]` of one head of a sequence.
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

/// An attention mask with a byte for each key of each query: 0 = visible, any other value =
/// blocked.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct MaskBytes<'a> {
    pub data: &'a [u8],
    /// Stride of each axis of `[B, H, T, S]`, in bytes. It is 0 for an axis that is broadcast.
    pub strides: [usize; 4],
}

/// The inputs of attention.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Attention<'a> {
    pub query: Heads<'a>,
    pub key: Heads<'a>,
    pub value: Heads<'a>,
    /// Number of heads of the queries, `H`.
    pub n_heads: usize,
    /// Number of heads of the queries that share one head of keys and values, `H / G`.
    pub group: usize,
    pub mask: Option<MaskBytes<'a>>,
    pub dropout: Dropout,
    /// Bias that is added to the scores of every sequence, `[H, T, S]`.
    pub bias: Option<&'a [f32]>,
    /// Factor of `Q K^T`.
    pub scale: f32,
}

/// Memory that a thread reuses from head to head.
#[derive(Default)]
pub(super) struct Scratch {
    /// Weights of a block, at most `[BLOCK, S]`.
    pub(super) weights: Vec<f32>,
    /// Gradients of the weights, at most `[BLOCK, S]`.
    #[cfg(feature = "autodiff")]
    pub(super) gradients: Vec<f32>,
    /// Transposed keys, `[K, S]`.
    pub(super) key: Vec<f32>,
    /// Transposed values, `[K, S]`.
    #[cfg(feature = "autodiff")]
    pub(super) value: Vec<f32>,
}

thread_local! {
    /// The calling thread's scratch memory. A function takes the memory out of the cell, and puts
    /// it back when it is done.
    pub(super) static SCRATCH: std::cell::Cell<Scratch> = std::cell::Cell::default();
}

/// Runs `f` on each item: on all threads if `is_large`, else on the calling thread.
pub(super) fn for_each<T: Send>(
    is_large: bool,
    items: impl IntoIterator<Item = T>,
    f: impl Fn(T) + Sync,
) {
    parallel::map_if(is_large, items.into_iter(), f);
}

/// Splits `x`, `[L, n, K]`, by head. Returns one vector for each of the `n` heads, with the head's
/// `L` rows of `K` elements.
pub(super) fn by_head(x: &mut [f32], n: usize, d_head: usize) -> Vec<Vec<&mut [f32]>> {
    let length = x.len() / (n * d_head);
    let mut heads: Vec<Vec<&mut [f32]>> = (0..n).map(|_| Vec::with_capacity(length)).collect();
    for (index, row) in x.chunks_mut(d_head).enumerate() {
        heads[index % n].push(row);
    }
    heads
}

impl Attention<'_> {
    /// Returns whether attention of `batch` sequences is enough work for several threads.
    pub(super) fn is_large(&self, batch: usize) -> bool {
        let Heads { length, d_head, .. } = self.query;
        batch * self.n_heads * length * self.key.length * d_head >= PARALLEL
    }

    /// Returns the width of the output, `H * K`.
    pub(super) fn width(&self) -> usize {
        self.n_heads * self.query.d_head
    }

    /// Returns the number of keys up to the last one that any query of a block sees, at least 1.
    /// All matmuls skip the later keys, such as those that a causal mask blocks. Keys are skipped
    /// only with a mask that is contiguous along the keys. The block has `n` queries, and
    /// `[row, head, first]` are its sequence, its head and its first query.
    pub(super) fn visible(&self, [row, head, first]: [usize; 3], n: usize) -> usize {
        let s = self.key.length;
        let Some(MaskBytes { data, strides }) = self.mask else {
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

    /// Applies dropout to `weights`, `[n, s]`: the weights of the first `s` keys, for `n` queries
    /// of sequence `row` and head `head`, from query `first` on.
    pub(super) fn drop(&self, [row, head, first]: [usize; 3], weights: &mut [f32], s: usize) {
        let query = (row * self.n_heads + head) * self.query.length + first;
        if s == self.key.length {
            self.dropout.apply(weights, query * s);
            return;
        }
        for (weights, query) in weights.chunks_exact_mut(s).zip(query..) {
            self.dropout.apply(weights, query * self.key.length);
        }
    }

    /// Turns one query's row of `Q K^T` into scores: scales the row, adds the bias, and sets the
    /// scores of blocked keys to minus infinity.
    #[inline(always)]
    pub(super) fn mask_row(&self, row: usize, head: usize, t: usize, scores: &mut [f32]) {
        for score in scores.iter_mut() {
            *score *= self.scale;
        }
        if let Some(bias) = self.bias {
            let begin = (head * self.query.length + t) * self.key.length;
            for (score, bias) in scores.iter_mut().zip(&bias[begin..]) {
                *score += bias;
            }
        }
        let Some(MaskBytes { data, strides }) = self.mask else {
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

/// Returns the index of the last byte that is zero, or `None` if no byte is zero.
fn last_zero(bytes: &[u8]) -> Option<usize> {
    let (rest, chunks) = bytes.as_rchunks::<32>();
    // The fold reads all bytes of a chunk without an early exit, so that the compiler can use
    // vectors.
    let has_zero = |chunk: &[u8; 32]| chunk.iter().fold(false, |any, &byte| any | (byte == 0));
    let within = |bytes: &[u8]| bytes.iter().rposition(|&byte| byte == 0);
    match chunks.iter().rposition(has_zero) {
        Some(chunk) => within(&chunks[chunk]).map(|last| rest.len() + 32 * chunk + last),
        None => within(rest),
    }
}

/// Splits a matrix into its rows of `width` elements.
pub(super) fn rows(x: &mut [f32], width: usize) -> Vec<&mut [f32]> {
    x.chunks_mut(width).collect()
}

/// Returns `n` rows of a matrix, from `first` on.
pub(super) fn rows_of(x: Matrix<'_>, first: usize, n: usize) -> Matrix<'_> {
    Matrix {
        data: &x.data[first * x.row_stride..],
        rows: n,
        ..x
    }
}

/// Copies `x^T` into `to`, row after row, and returns a view of the copy.
pub(super) fn transpose<'a>(x: Matrix<'_>, to: &'a mut Vec<f32>) -> Matrix<'a> {
    to.resize(x.rows * x.columns, 0.0);
    copy_transposed(x.data, x.row_stride, [x.rows, x.columns], to, x.rows);
    Matrix::contiguous(to, x.columns, x.rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_after_the_last_visible_one_are_skipped() {
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
            group: 1,
            mask: Some(MaskBytes { data, strides }),
            dropout: Dropout::default(),
            bias: None,
            scale: 1.0,
        };
        let causal: Vec<u8> = (0..t * s).map(|i| u8::from(i % s > i / s)).collect();
        let causal = attention(&causal, [0, 0, s, 1]);
        for (first, n) in [(0, 1), (0, 64), (64, 64), (128, 22)] {
            assert_eq!(causal.visible([0, 0, first], n), first + n);
        }
        // The second sequence has 7 tokens before its padding.
        let padding: Vec<u8> = (0..2 * s).map(|i| u8::from(i >= s + 7)).collect();
        let padding = attention(&padding, [s, 0, 0, 1]);
        assert_eq!(padding.visible([0, 0, 64], 64), s);
        assert_eq!(padding.visible([1, 0, 64], 64), 7);
        // If all keys are blocked, `visible` returns 1, its minimum.
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
