//! Attention for every kind of input, computed by a fast path of the crate `fused` if there is one,
//! and by Burn's operations otherwise.
//!
//! The fast paths are:
//!
//! - `fused::self_attention`, for self-attention without cached tokens.
//! - `fused::attention_step`, for one query per target that attends to a cache or to a memory.
//! - `fused::cross_attention`, for cross-attention with one target per source, and for several new
//!   tokens that attend to a cache.
//!
//! No fast path is taken if the attention weights are to be returned. A fast path returns `None`
//! while fast paths are off, and for backends, precisions, masks and biases that it does not
//! support.
//!
//! Burn's operations need the keys and values of target `i` in row `i` of a tensor. If they are in
//! other rows of a cache or of a memory, they are copied, with one exception. In cross-attention
//! with one query per target, the targets of a source become the queries of one attention, so that
//! the source's memory is not copied. This exception does not apply if the weights are returned.

use burn::nn::Dropout;
use burn::tensor::Tensor;

use super::index::{SourceRows, TargetGroups, TokenRows};
use super::scaled_dot_product::{ScoreTerms, attention_with, weights_with};
use crate::dropout::{dropout as apply_dropout, probability};
use crate::mask::AttentionMask;

/// Queries, and the keys and values to which they attend.
pub(super) enum Inputs<'a> {
    /// Self-attention without cached tokens: queries, keys and values come from the same tokens.
    Own {
        /// Queries of all heads, then keys, then values: `[B, T, H + 2 G, K]`.
        packed: Tensor<4>,
        /// Number of heads of the queries, `H`.
        n_heads: usize,
    },
    /// Self-attention of `R` targets to the tokens in a cache.
    Cached {
        /// Queries of the targets, `[R, T, H, K]`.
        query: Tensor<4>,
        /// Buffer of the cache, `[N, C, 2 G, K]`: `N` rows of `C` positions, keys before values.
        cache: Tensor<4>,
        /// Number of cached tokens of each target, at positions `0..length`.
        length: usize,
        /// Cache row of each token; `None` if all tokens of target `i` are in row `i`.
        tokens: Option<&'a TokenRows>,
    },
    /// Cross-attention of `R` targets to a projected memory.
    Memory {
        /// Queries of the targets, `[R, T, H, K]`.
        query: Tensor<4>,
        /// Projected memory of `B` sources, `[B, S, 2 G, K]`: keys before values.
        memory: Tensor<4>,
        /// Source of each target; `None` if target `i` belongs to source `i`.
        sources: Option<&'a SourceRows>,
    },
}

/// Computes multi-head attention, with dropout on the attention weights.
///
/// # Shapes
///
/// - mask: `[B or 1, H or 1, T or 1, S]`, `true` = blocked; `B` is the number of sources for
///   [`Inputs::Memory`] and the number of targets otherwise
/// - outputs: the context (weighted sums of the values) of `R` targets, `[R, T, H K]`; if
///   `keep_weights`, also the weights before dropout, `[R, H, T, S]`
pub(super) fn attend(
    inputs: Inputs<'_>,
    mask: Option<&AttentionMask>,
    terms: &ScoreTerms,
    dropout: &Dropout,
    keep_weights: bool,
) -> (Tensor<3>, Option<Tensor<4>>) {
    check(&inputs, mask, terms);
    let mask = mask.filter(|mask| mask.blocks_any());
    if !keep_weights && let Some(context) = fast(&inputs, mask, terms, dropout) {
        return (context, None);
    }
    match inputs {
        Inputs::Own { packed, n_heads } => {
            let of_keys = packed.dims()[2] - n_heads;
            let query = packed.clone().narrow(2, 0, n_heads);
            let keys = packed.narrow(2, n_heads, of_keys);
            plain(query, keys, mask, terms, dropout, keep_weights)
        }
        Inputs::Cached {
            query,
            cache,
            length,
            tokens,
        } => {
            let keys = keys_of_targets(cache, query.dims()[0], length, tokens);
            plain(query, keys, mask, terms, dropout, keep_weights)
        }
        Inputs::Memory {
            query,
            memory,
            sources: None,
        } => plain(query, memory, mask, terms, dropout, keep_weights),
        Inputs::Memory {
            query,
            memory,
            sources: Some(sources),
        } => {
            let device = query.device();
            if query.dims()[1] == 1 && !keep_weights {
                let groups = sources.groups(&device);
                return (grouped(query, memory, mask, terms, dropout, groups), None);
            }
            let indices = sources.indices(&device);
            let memory = memory.select(0, indices.clone());
            let mask = mask.map(|mask| mask.select(indices));
            plain(query, memory, mask.as_ref(), terms, dropout, keep_weights)
        }
    }
}

/// Checks that a mask and a bias are made for these queries and keys.
fn check(inputs: &Inputs<'_>, mask: Option<&AttentionMask>, terms: &ScoreTerms) {
    let of_query = |query: &Tensor<4>| {
        let [targets, length, n_heads, _] = query.dims();
        [targets, n_heads, length]
    };
    let ([batch, n_heads, queries], keys) = match inputs {
        Inputs::Own { packed, n_heads } => {
            let [batch, length, ..] = packed.dims();
            ([batch, *n_heads, length], length)
        }
        Inputs::Cached { query, length, .. } => (of_query(query), *length),
        Inputs::Memory {
            query,
            memory,
            sources,
        } => {
            let [batch, keys, ..] = memory.dims();
            let [targets, n_heads, queries] = of_query(query);
            assert!(
                sources.is_some() || targets == batch,
                "the queries are {:?}, but the memory's keys and values are {:?}",
                query.dims(),
                memory.dims()
            );
            ([batch, n_heads, queries], keys)
        }
    };
    if let Some(mask) = mask {
        mask.check([batch, n_heads, queries, keys]);
    }
    if let Some(bias) = &terms.bias {
        let (found, expected) = (bias.dims(), [1, n_heads, queries, keys]);
        assert_eq!(
            found, expected,
            "the bias of positions is {found:?}, but the scores need {expected:?}"
        );
    }
}

/// Returns the context of `R` targets from a fast path, `[R, T, H K]`. Returns `None` if no fast
/// path supports the inputs.
fn fast(
    inputs: &Inputs<'_>,
    mask: Option<&AttentionMask>,
    terms: &ScoreTerms,
    dropout: &Dropout,
) -> Option<Tensor<3>> {
    let terms = fused::ScoreTerms {
        mask: mask.map(AttentionMask::blocked),
        bias: terms.bias.as_ref(),
        is_unscaled: terms.is_unscaled,
    };
    match inputs {
        Inputs::Own { packed, n_heads } => {
            fused::self_attention(packed, *n_heads, terms, probability(dropout))
        }
        Inputs::Cached {
            query,
            cache,
            length,
            tokens,
        } => match tokens {
            _ if query.dims()[1] != 1 => {
                let keys = keys_of_targets(cache.clone(), query.dims()[0], *length, *tokens);
                fused::cross_attention(query, &keys, terms, probability(dropout))
            }
            Some(tokens) => {
                let index = fused::CacheIndex::Tokens(&tokens.rows);
                fused::attention_step(query, cache, index, *length, terms)
            }
            None => step_of_rows(query, cache, *length, terms),
        },
        Inputs::Memory {
            query,
            memory,
            sources,
        } => {
            let [_, length, ..] = memory.dims();
            let is_step = query.dims()[1] == 1;
            match sources {
                Some(sources) if is_step => {
                    let index = fused::CacheIndex::Rows(&sources.rows);
                    fused::attention_step(query, memory, index, length, terms)
                }
                Some(_) => None,
                None => is_step
                    .then(|| step_of_rows(query, memory, length, terms))
                    .flatten()
                    .or_else(|| fused::cross_attention(query, memory, terms, probability(dropout))),
            }
        }
    }
}

/// Returns the keys and values of `R` targets, `[R, length, 2 G, K]`, from a cache.
fn keys_of_targets(
    cache: Tensor<4>,
    targets: usize,
    length: usize,
    tokens: Option<&TokenRows>,
) -> Tensor<4> {
    match tokens {
        Some(tokens) => tokens.gather(cache),
        None => cache.narrow(0, 0, targets).narrow(1, 0, length),
    }
}

/// Returns the context of one query per target, which attends to positions `0..length` of a cache.
///
/// The keys and values of target `i` are in row `i` of `cache`. Returns `None` if `fused` has no
/// fast path for the inputs.
fn step_of_rows(
    query: &Tensor<4>,
    cache: &Tensor<4>,
    length: usize,
    terms: fused::ScoreTerms<'_>,
) -> Option<Tensor<3>> {
    let rows: Vec<u32> = (0..query.dims()[0] as u32).collect();
    let index = fused::CacheIndex::Rows(&rows);
    fused::attention_step(query, cache, index, length, terms)
}

/// Computes the attention of queries `[R, T, H, K]` to keys and values `[R, S, 2 G, K]` with Burn's
/// operations.
///
/// Returns the context, `[R, T, H K]`, and, if `keep_weights`, the attention weights before
/// dropout, `[R, H, T, S]`.
fn plain(
    query: Tensor<4>,
    packed: Tensor<4>,
    mask: Option<&AttentionMask>,
    terms: &ScoreTerms,
    dropout: &Dropout,
    keep_weights: bool,
) -> (Tensor<3>, Option<Tensor<4>>) {
    let query = query.swap_dims(1, 2);
    let [key, value] = key_and_value(packed, query.dims()[1]);
    if !keep_weights && !query.is_autodiff() {
        let context = attention_with(query, key, value, mask, terms);
        return (join_heads(context), None);
    }
    let weights = weights_with(query, key, mask, terms);
    let kept = keep_weights.then(|| weights.clone());
    let context = apply_dropout(dropout, weights).matmul(value);
    (join_heads(context), kept)
}

/// Computes the attention of one query per target, `[R, 1, H, K]`, to the memory `[B, S, 2 G, K]`.
///
/// The targets of a source become the queries of one attention, so that the source's memory is not
/// copied.
fn grouped(
    query: Tensor<4>,
    memory: Tensor<4>,
    mask: Option<&AttentionMask>,
    terms: &ScoreTerms,
    dropout: &Dropout,
    TargetGroups { width, order }: &TargetGroups,
) -> Tensor<3> {
    let [batch, ..] = memory.dims();
    let [_, _, n_heads, d_head] = query.dims();
    let mut query: Tensor<3> = query.squeeze_dim(1);
    if let Some((target_in, _)) = order {
        query = query.select(0, target_in.clone());
    }
    let query = query.reshape([batch, *width, n_heads, d_head]);
    let (context, _) = plain(query, memory, mask, terms, dropout, false);
    let mut context: Tensor<2> = context.flatten(0, 1);
    if let Some((_, cell_of)) = order {
        context = context.select(0, cell_of.clone());
    }
    context.unsqueeze_dim(1)
}

/// Splits packed keys and values, `[B, S, 2 G, K]`, into two tensors `[B, H, S, K]`. With grouped
/// queries, each key-value head is repeated for the `H / G` query heads that share it.
fn key_and_value(packed: Tensor<4>, n_heads: usize) -> [Tensor<4>; 2] {
    let [batch, length, packed_heads, d_head] = packed.dims();
    let of_keys = packed_heads / 2;
    let heads = packed.swap_dims(1, 2);
    [0, of_keys].map(|first| {
        let some = heads.clone().narrow(1, first, of_keys);
        if of_keys == n_heads {
            return some;
        }
        let some: Tensor<5> = some.unsqueeze_dim(2);
        some.expand([batch, of_keys, n_heads / of_keys, length, d_head])
            .reshape([batch, n_heads, length, d_head])
    })
}

/// Joins the heads of `[B, H, T, K]` into vectors `[B, T, H K]`.
fn join_heads(x: Tensor<4>) -> Tensor<3> {
    let [batch, n_heads, length, d_head] = x.dims();
    x.swap_dims(1, 2).reshape([batch, length, n_heads * d_head])
}
