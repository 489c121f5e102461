//! Scaled dot-product attention (paper, section 3.2.1, equation 1):
//!
//! ```text
//! Attention(Q, K, V) = softmax(Q K^T / sqrt(K)) V
//! ```

use burn::nn::Dropout;
use burn::tensor::Tensor;
use burn::tensor::activation::softmax;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;

use crate::dropout::{dropout as apply_dropout, probability};
use crate::mask::AttentionMask;

/// Attention without dropout.
///
/// # Shapes
///
/// - query: `[B, H, T, K]`
/// - key: `[B, H, S, K]`
/// - value: `[B, H, S, K]`
/// - output: `[B, H, T, K]`; zeros for a query whose keys are all masked
pub fn scaled_dot_product_attention(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    mask: Option<&AttentionMask>,
) -> Tensor<4> {
    // Burn's fused operation has no backward pass of its own, and the one that autodiff derives
    // is NaN for a row with every key masked.
    if query.is_autodiff() {
        return attention_weights(query, key, mask).matmul(value);
    }
    let shape = scores_shape(&query, &key);
    let mask = mask.map(|mask| mask.blocked().clone().expand(shape));
    attention(
        query,
        key,
        value,
        mask,
        None,
        AttentionModuleOptions::default(),
    )
}

/// The weights, `softmax(Q K^T / sqrt(K))`.
///
/// # Shapes
///
/// - query: `[B, H, T, K]`
/// - key: `[B, H, S, K]`
/// - output: `[B, H, T, S]`; each row sums to 1, or is zero if all its keys are masked
pub fn attention_weights(
    query: Tensor<4>,
    key: Tensor<4>,
    mask: Option<&AttentionMask>,
) -> Tensor<4> {
    let shape = scores_shape(&query, &key);
    let scale = 1.0 / (shape_d_head(&query) as f64).sqrt();
    let scores = (query * scale).matmul(key.swap_dims(2, 3));
    let Some(mask) = mask else {
        return softmax(scores, 3);
    };
    // The lowest finite number, not minus infinity: a row that is masked as a whole then has a
    // finite softmax and gradient, and is zeroed afterwards.
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

/// Attention by its fast path, where there is one: queries, keys and values `[B, T, 3 H, K]` to
/// `[B, T, D]`.
pub(super) fn self_attention(
    packed: &Tensor<4>,
    mask: Option<&AttentionMask>,
    dropout: &Dropout,
) -> Option<Tensor<3>> {
    let mask = mask.map(AttentionMask::blocked);
    fused::self_attention(packed, mask, probability(dropout))
}

/// The same from queries `[B, T, H, K]` to keys and values `[B, S, 2 H, K]`.
pub(super) fn cross_attention(
    query: &Tensor<4>,
    packed: &Tensor<4>,
    mask: Option<&AttentionMask>,
    dropout: &Dropout,
) -> Option<Tensor<3>> {
    let mask = mask.map(AttentionMask::blocked);
    fused::cross_attention(query, packed, mask, probability(dropout))
}

/// Attention with dropout on the weights, and the weights before dropout where they are asked for.
pub(super) fn attend(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    mask: Option<&AttentionMask>,
    dropout: &Dropout,
    keep_weights: bool,
) -> (Tensor<4>, Option<Tensor<4>>) {
    if !keep_weights && !query.is_autodiff() {
        return (scaled_dot_product_attention(query, key, value, mask), None);
    }
    let weights = attention_weights(query, key, mask);
    let kept = keep_weights.then(|| weights.clone());
    (apply_dropout(dropout, weights).matmul(value), kept)
}

fn shape_d_head(query: &Tensor<4>) -> usize {
    query.dims()[3]
}

fn scores_shape(query: &Tensor<4>, key: &Tensor<4>) -> [usize; 4] {
    let [batch, n_heads, t, _] = query.dims();
    let [.., s, _] = key.dims();
    [batch, n_heads, t, s]
}
