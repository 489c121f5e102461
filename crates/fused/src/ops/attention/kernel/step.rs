//! Attention of one query per target to keys and values that are read in place from a cache. A
//! target is a sequence that is being decoded.

use pulp::{Simd, WithSimd};

use super::super::cache_index::CacheIndex;
use crate::memory::buffer::Buffer;
use crate::parallel;
use crate::simd::exp::{exponentiate, largest_score};
use crate::simd::level::arch;
use crate::simd::vectors::{add_scaled, dot};

/// Number of multiply-adds of queries and keys below which a second thread costs more than it
/// saves.
const PARALLEL: usize = 1 << 16;

thread_local! {
    /// The thread's memory for weights, `[H, T]`, which is reused from target to target.
    static WEIGHTS: std::cell::Cell<Vec<f32>> = const { std::cell::Cell::new(Vec::new()) };
}

/// The inputs of attention for one query per target.
pub(in super::super) struct CachedAttention<'a> {
    /// Queries, `[R, H, K]`.
    pub query: &'a [f32],
    /// Distance from one query to the next, in elements.
    pub query_stride: usize,
    /// The cache: keys and then values, `[N, C, 2 * G, K]`.
    pub packed: &'a [f32],
    /// Number of positions in a row of the cache, `C`.
    pub capacity: usize,
    /// The cache rows that hold the keys and values of each target.
    pub index: CacheIndex<'a>,
    /// Number of keys of each target, `T`.
    pub length: usize,
    /// A byte for each key of each row of the cache, `[N, T]`: 0 = visible, any other value =
    /// blocked. `None` if all keys are visible.
    pub mask: Option<&'a [u8]>,
    /// Bias that is added to the scores of every target, `[H, T]`.
    pub bias: Option<&'a [f32]>,
    /// Factor of `Q K^T`.
    pub scale: f32,
    pub n_heads: usize,
    /// Number of heads of the queries that share one head of keys and values, `H / G`.
    pub group: usize,
    pub d_head: usize,
}

impl CachedAttention<'_> {
    /// Returns the output of `rows` targets, `[R, H * K]`.
    pub(in super::super) fn forward(&self, rows: usize) -> Buffer {
        let width = self.n_heads * self.d_head;
        let mut output = Buffer::zeros(rows * width);
        let arch = arch();
        if rows * self.length * width < PARALLEL {
            arch.dispatch(Targets {
                attention: self,
                first: 0,
                output: &mut output,
            });
        } else {
            let some = rows.div_ceil(4 * parallel::current_num_threads());
            let parts = output.chunks_mut(some * width).enumerate();
            parallel::for_each(parts, |(index, output)| {
                arch.dispatch(Targets {
                    attention: self,
                    first: index * some,
                    output,
                });
            });
        }
        output
    }

    /// Returns the row of the cache that holds the key and the value at position `t` of a target.
    #[inline(always)]
    fn cache_row(&self, target: usize, t: usize) -> usize {
        match self.index {
            CacheIndex::Rows(rows) => rows[target] as usize,
            CacheIndex::Tokens(rows) => rows[target * self.length + t] as usize,
        }
    }

    /// Returns the keys (`part` 0) or the values (`part` 1) at position `t` of a target. `width` is
    /// their number of elements in all heads, `G * K`.
    #[inline(always)]
    fn heads(&self, target: usize, t: usize, part: usize, width: usize) -> &[f32] {
        let token = self.cache_row(target, t) * self.capacity + t;
        &self.packed[(token * 2 + part) * width..][..width]
    }

    fn is_blocked(&self, target: usize, t: usize) -> bool {
        self.mask
            .is_some_and(|mask| mask[self.cache_row(target, t) * self.length + t] != 0)
    }
}

/// Computes the outputs of the targets from `first` on, as many as `output` has rows.
struct Targets<'a> {
    attention: &'a CachedAttention<'a>,
    first: usize,
    output: &'a mut [f32],
}

impl WithSimd for Targets<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // A group size that the compiler knows makes the usual case faster.
        match self.attention.group {
            1 => self.run(simd, 1),
            group => self.run(simd, group),
        }
    }
}

impl Targets<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S, group: usize) {
        let Self {
            attention,
            first,
            output,
        } = self;
        let (scale, d_head) = (attention.scale, attention.d_head);
        let width = attention.n_heads * d_head;
        let key_width = attention.n_heads / group * d_head;
        let group_width = group * d_head;
        // Tokens are read in memory order: all heads of one token, then all heads of the next.
        let mut weights = WEIGHTS.take();
        weights.resize(attention.n_heads * attention.length, 0.0);
        for (target, output) in (first..).zip(output.chunks_exact_mut(width)) {
            let query = &attention.query[target * attention.query_stride..][..width];
            for t in 0..attention.length {
                let mut weights = weights[t..].iter_mut().step_by(attention.length);
                if attention.is_blocked(target, t) {
                    weights.for_each(|weight| *weight = f32::NEG_INFINITY);
                    continue;
                }
                let keys = attention.heads(target, t, 0, key_width);
                let groups = query.chunks_exact(group_width);
                for (queries, key) in groups.zip(keys.chunks_exact(d_head)) {
                    let queries = queries.chunks_exact(d_head);
                    for (query, weight) in queries.zip(&mut weights) {
                        *weight = scale * dot(simd, query, key);
                    }
                }
            }
            if let Some(bias) = attention.bias {
                for (weight, bias) in weights.iter_mut().zip(bias) {
                    *weight += bias;
                }
            }
            // Without keys, the length is 0. `chunks_exact_mut` would panic for chunks of 0
            // elements.
            for weights in weights.chunks_exact_mut(attention.length.max(1)) {
                let Some(largest) = largest_score(simd, weights) else {
                    weights.fill(0.0);
                    continue;
                };
                let sum = exponentiate(simd, weights, largest);
                for weight in weights {
                    *weight /= sum;
                }
            }
            for t in 0..attention.length {
                let mut weights = weights[t..].iter().step_by(attention.length);
                let values = attention.heads(target, t, 1, key_width);
                let groups = output.chunks_exact_mut(group_width);
                for (outputs, value) in groups.zip(values.chunks_exact(d_head)) {
                    let outputs = outputs.chunks_exact_mut(d_head);
                    for (output, &weight) in outputs.zip(&mut weights) {
                        if weight != 0.0 {
                            add_scaled(simd, output, weight, value);
                        }
                    }
                }
            }
        }
        WEIGHTS.set(weights);
    }
}
