//! Attention on packed projections of all heads:
//! `dropout(softmax(Q K^T / sqrt(d_head))) V` (Vaswani et al., 2017, section 3.2.1).
//!
//! In shapes, `B` is the number of sequences, `T` the number of queries of a sequence, `S` the
//! number of its keys, `H` the number of heads, and `K` the number of features of a head
//! (`d_head`). With grouped queries (Ainslie et al., 2023), there are `G` heads of keys and values,
//! and `H / G` consecutive heads of queries share one of these heads; otherwise `G` is `H`.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
mod cache_index;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod kernel;
#[cfg(any(feature = "flex", feature = "autodiff"))]
mod mask;
#[cfg(all(feature = "_portable", feature = "autodiff"))]
mod portable;
mod terms;
#[cfg(all(test, feature = "flex"))]
mod tests;

use burn::tensor::Tensor;

pub use self::cache_index::CacheIndex;
pub use self::terms::ScoreTerms;
use super::dropout::draw;

/// Returns the output of self-attention, or `None` if no fast path supports the tensors and terms.
///
/// On flex in f32, the attention weights are not kept for the backward pass, which computes them
/// again. On other backends and in other precisions, there is a fast path only with autodiff. For
/// fewer than 1,024 keys, this path keeps the weights and the dropout mask for the backward pass.
/// For 1,024 keys or more, the backward pass computes both again.
///
/// # Shapes
///
/// With `B` sequences of `T` tokens, `H = n_heads` heads of queries and `G` heads of keys, each of
/// `K` features:
///
/// - packed: queries, keys and values, `[B, T, H + 2 * G, K]`
/// - terms: a mask `[B or 1, H or 1, T or 1, T or 1]`, `true` = blocked, and a bias `[1, H, T, T]`
/// - output: `[B, T, H * K]`; zeros for a query whose keys are all blocked
///
/// # Panics
///
/// If the shapes do not fit together, or `dropout` is not in `[0, 1)`.
pub fn self_attention<'a>(
    packed: &Tensor<4>,
    n_heads: usize,
    terms: impl Into<ScoreTerms<'a>>,
    dropout: f64,
) -> Option<Tensor<3>> {
    let terms = terms.into();
    let [batch, length, heads, _] = packed.dims();
    let of_keys = heads.saturating_sub(n_heads);
    assert!(
        of_keys.is_multiple_of(2) && is_grouped(n_heads, of_keys / 2),
        "queries, keys and values have {heads} heads together, which is not {n_heads} and two times a divisor of {n_heads}"
    );
    let scores = [batch, n_heads, length, length];
    check(&terms, scores, dropout);
    #[cfg(feature = "flex")]
    if crate::backend::flex::takes(packed) {
        return flex::self_attention(packed.clone(), n_heads, terms, dropout);
    }
    #[cfg(all(feature = "_portable", feature = "autodiff"))]
    if crate::backend::portable::takes(packed) {
        let packed = packed.clone();
        return Some(portable::self_attention(packed, terms, scores, dropout));
    }
    None
}

/// Returns the output of cross-attention, or `None` if no fast path supports the tensors and terms.
///
/// See [`self_attention`]. A bias is not supported.
///
/// # Shapes
///
/// With `B` pairs of sequences, `T` queries, `S` keys, `H` heads of queries and `G` heads of keys,
/// each of `K` features:
///
/// - query: `[B, T, H, K]`
/// - packed: keys and values, `[B, S, 2 * G, K]`
/// - terms: a mask `[B or 1, H or 1, T or 1, S or 1]`, `true` = blocked
/// - output: `[B, T, H * K]`; zeros for a query whose keys are all blocked
///
/// # Panics
///
/// If the shapes do not fit together, or `dropout` is not in `[0, 1)`.
pub fn cross_attention<'a>(
    query: &Tensor<4>,
    packed: &Tensor<4>,
    terms: impl Into<ScoreTerms<'a>>,
    dropout: f64,
) -> Option<Tensor<3>> {
    let terms = terms.into();
    let [batch, t, n_heads, d_head] = query.dims();
    let [rows, s, heads, width] = packed.dims();
    assert!(
        [rows, width] == [batch, d_head]
            && heads.is_multiple_of(2)
            && is_grouped(n_heads, heads / 2),
        "the query is {:?}, but keys and values are {:?}",
        query.dims(),
        packed.dims()
    );
    let scores = [batch, n_heads, t, s];
    check(&terms, scores, dropout);
    if terms.bias.is_some() {
        return None;
    }
    #[cfg(feature = "flex")]
    if crate::backend::flex::takes(query) && crate::backend::flex::takes(packed) {
        return flex::cross_attention(query.clone(), packed.clone(), terms, dropout);
    }
    #[cfg(all(feature = "_portable", feature = "autodiff"))]
    if crate::backend::portable::takes(query) && crate::backend::portable::takes(packed) {
        let inputs = [query.clone(), packed.clone()];
        return Some(portable::cross_attention(inputs, terms, scores, dropout));
    }
    None
}

/// Returns whether `n_heads` heads of queries can share `of_keys` heads of keys equally.
fn is_grouped(n_heads: usize, of_keys: usize) -> bool {
    of_keys > 0 && n_heads.is_multiple_of(of_keys)
}

/// Returns the output of attention with one query per target, and with keys and values from a
/// cache. Returns `None` if no fast path supports the tensors and terms.
///
/// A target is a sequence that is being decoded, such as a hypothesis of a beam search. Keys and
/// values are not copied out of the cache if it is contiguous and not a view of a larger tensor.
/// There is a fast path only on flex in f32 without autodiff.
///
/// # Shapes
///
/// With `R` targets, a cache of `N` rows with `C` positions each, `H` heads of queries and `G`
/// heads of keys, each of `K` features:
///
/// - query: `[R, 1, H, K]`
/// - packed: the cache, with keys and then values, `[N, C, 2 * G, K]`
/// - index: the cache rows that hold the keys and values of each target
/// - length: number of keys `T` of each target, at positions `0..T`, at most `C`
/// - terms: a mask `[N, 1, 1, T]`, `true` = blocked, and a bias `[1, H, 1, T]`
/// - output: `[R, 1, H * K]`; zeros for a target whose keys are all blocked
///
/// # Panics
///
/// If the shapes do not fit together. An exception is the mask: with a mask of another shape, there
/// is no fast path. The fast path also panics if the index places a key in a row outside the cache.
pub fn attention_step<'a>(
    query: &Tensor<4>,
    packed: &Tensor<4>,
    index: CacheIndex<'_>,
    length: usize,
    terms: impl Into<ScoreTerms<'a>>,
) -> Option<Tensor<3>> {
    let terms = terms.into();
    let [rows, one, n_heads, d_head] = query.dims();
    let [n, capacity, packed_heads, packed_d_head] = packed.dims();
    let (indices, expected) = match index {
        CacheIndex::Rows(index) => (index.len(), rows),
        CacheIndex::Tokens(index) => (index.len(), rows * length),
    };
    assert!(
        one == 1
            && packed_d_head == d_head
            && packed_heads.is_multiple_of(2)
            && is_grouped(n_heads, packed_heads / 2)
            && length <= capacity
            && indices == expected,
        "the query is [{rows}, {one}, {n_heads}, {d_head}], but keys and values are [{n}, {capacity}, {packed_heads}, {packed_d_head}] and the index has {indices} rows, not {expected}, for {length} keys per target"
    );
    check_bias(&terms, [n_heads, 1, length]);
    #[cfg(feature = "flex")]
    return flex::attention_step(query, packed, index, length, terms);
    #[cfg(not(feature = "flex"))]
    None
}

/// Panics unless the dropout probability is valid, the mask can be broadcast to the shape of the
/// scores, and the bias has the shape of the scores of a sequence.
fn check(terms: &ScoreTerms<'_>, scores: [usize; 4], dropout: f64) {
    draw::check(dropout);
    let [_, n_heads, t, s] = scores;
    check_bias(terms, [n_heads, t, s]);
    let mask = terms.mask;
    let Some(mask) = mask.map(Tensor::dims) else {
        return;
    };
    let fits = |(&size, &wanted): (&usize, &usize)| size == wanted || size == 1;
    assert!(
        mask.iter().zip(&scores).all(fits),
        "the mask is {mask:?}, but the scores are {scores:?}"
    );
}

/// Panics unless the bias has the shape of the scores of one sequence, `[1, H, T, S]`.
fn check_bias(terms: &ScoreTerms<'_>, [n_heads, t, s]: [usize; 3]) {
    if let Some(bias) = terms.bias.map(Tensor::dims) {
        assert!(
            bias == [1, n_heads, t, s],
            "the bias is {bias:?}, but the scores of a sequence are [1, {n_heads}, {t}, {s}]"
        );
    }
}
