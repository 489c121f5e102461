//! Scaled dot-product attention for heads of width `d_k` (paper, section 3.2.1, equation 1):
//!
//! ```text
//! Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V
//! ```

use burn::tensor::Tensor;
use burn::tensor::activation::softmax;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;

use crate::mask::AttentionMask;

/// Returns the attention `softmax(Q K^T / sqrt(d_k)) V`, without dropout.
///
/// The width `d_k` of a head is `K` in the shapes.
///
/// # Shapes
///
/// - query: `[B, H, T, K]`
/// - key: `[B, H, S, K]`
/// - value: `[B, H, S, K]`
/// - mask: `[B or 1, H or 1, T or 1, S]`, `true` = blocked
/// - output: `[B, H, T, K]`; zeros for a query whose keys are all masked
///
/// # Panics
///
/// If the shapes are others.
pub fn scaled_dot_product_attention(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    mask: Option<&AttentionMask>,
) -> Tensor<4> {
    check(&query, &key, mask);
    assert_eq!(
        key.dims()[..3],
        value.dims()[..3],
        "the keys are {:?}, but the values are {:?}",
        key.dims(),
        value.dims()
    );
    attention_with(query, key, value, mask, &ScoreTerms::default())
}

/// Options, besides a mask, that change the attention scores before the softmax.
#[derive(Clone, Debug, Default)]
pub(super) struct ScoreTerms {
    /// Bias that is added to the scores, `[1, H, T, S]`.
    pub bias: Option<Tensor<4>>,
    /// Whether the scores are not divided by `sqrt(d_k)`.
    pub is_unscaled: bool,
}

/// Returns attention without dropout, with `terms` applied to the scores; see
/// [`scaled_dot_product_attention`] for the shapes.
pub(super) fn attention_with(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    mask: Option<&AttentionMask>,
    terms: &ScoreTerms,
) -> Tensor<4> {
    // Burn's fused operation has no backward pass of its own. The gradient that autodiff derives
    // for it may be NaN for a query whose keys are all masked.
    if query.is_autodiff() {
        return weights_with(query, key, mask, terms).matmul(value);
    }
    let shape = scores_shape(&query, &key);
    let is_causal = mask.is_some_and(AttentionMask::is_causal);
    let mask = mask.filter(|mask| mask.blocks_any() && !is_causal);
    let mask = mask.map(|mask| mask.blocked().clone().expand(shape));
    let bias = terms.bias.clone().map(|bias| bias.expand(shape));
    let options = AttentionModuleOptions {
        scale: terms.is_unscaled.then_some(1.0),
        is_causal,
        ..Default::default()
    };
    attention(query, key, value, mask, bias, options)
}

/// Returns the attention weights `softmax(Q K^T / sqrt(d_k))`.
///
/// The width `d_k` of a head is `K` in the shapes.
///
/// # Shapes
///
/// - query: `[B, H, T, K]`
/// - key: `[B, H, S, K]`
/// - mask: `[B or 1, H or 1, T or 1, S]`, `true` = blocked
/// - output: `[B, H, T, S]`; each row sums to 1, or is zero if all keys of the query are masked
///
/// # Panics
///
/// If the shapes are others.
pub fn attention_weights(
    query: Tensor<4>,
    key: Tensor<4>,
    mask: Option<&AttentionMask>,
) -> Tensor<4> {
    check(&query, &key, mask);
    weights_with(query, key, mask, &ScoreTerms::default())
}

/// Returns attention weights, with `terms` applied to the scores; see [`attention_weights`].
pub(super) fn weights_with(
    query: Tensor<4>,
    key: Tensor<4>,
    mask: Option<&AttentionMask>,
    terms: &ScoreTerms,
) -> Tensor<4> {
    let shape = scores_shape(&query, &key);
    let query = if terms.is_unscaled {
        query
    } else {
        let scale = 1.0 / (query.dims()[3] as f64).sqrt();
        query * scale
    };
    let mut scores = query.matmul(key.swap_dims(2, 3));
    if let Some(bias) = &terms.bias {
        scores = scores + bias.clone();
    }
    let Some(mask) = mask else {
        return softmax(scores, 3);
    };
    // Masked scores get the lowest finite value instead of minus infinity. If all keys of a query
    // are masked, the softmax and its gradient are then finite, and the weights are set to zero
    // afterwards.
    let lowest = scores.dtype().finfo().expect("scores are floats").min;
    let weights = softmax(
        scores.mask_fill(mask.blocked().clone().expand(shape), lowest),
        3,
    );
    match mask.blind() {
        Some(blind) => weights.mask_fill(blind.clone().expand(shape), 0.0),
        None => weights,
    }
}

/// Checks that queries, keys and a mask are made for each other.
fn check(query: &Tensor<4>, key: &Tensor<4>, mask: Option<&AttentionMask>) {
    let [queries, keys] = [query.dims(), key.dims()];
    assert_eq!(
        (&queries[..2], queries[3]),
        (&keys[..2], keys[3]),
        "the queries are {queries:?}, but the keys are {keys:?}"
    );
    if let Some(mask) = mask {
        mask.check(scores_shape(query, key));
    }
}

fn scores_shape(query: &Tensor<4>, key: &Tensor<4>) -> [usize; 4] {
    let [batch, n_heads, t, _] = query.dims();
    let [.., s, _] = key.dims();
    [batch, n_heads, t, s]
}
