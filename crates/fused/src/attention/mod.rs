//! Attention where keys and values lie, as the packed projections left them.

#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(crate) mod backward;
#[cfg(feature = "flex")]
pub(crate) mod inputs;
#[cfg(feature = "flex")]
pub(crate) mod kernel;
mod step;

use burn::tensor::{Bool, Tensor};

pub use step::{Places, attention_step};

/// `dropout(softmax(Q K^T / sqrt(K))) V` of a sequence with itself; none where there is no fast
/// path. On flex in f32, nothing of size `T x T` is kept for the backward pass, which computes the
/// weights again; on other backends, under training alone, and for other precisions, the
/// weights of fewer than 1,024 keys are kept, and what is dropped of them; of more, nothing is.
///
/// # Shapes
///
/// - packed: queries, keys and values, `[B, T, 3 H, K]`
/// - mask: `[B or 1, H or 1, T or 1, T or 1]`, `true` = blocked
/// - output: `[B, T, H K]`; zeros for a query whose keys are all blocked
///
/// # Panics
///
/// If the shapes do not fit together, or the probability is not in `[0, 1)`.
pub fn self_attention(
    packed: &Tensor<4>,
    mask: Option<&Tensor<4, Bool>>,
    dropout: f64,
) -> Option<Tensor<3>> {
    let [batch, length, heads, _] = packed.dims();
    assert!(
        heads.is_multiple_of(3),
        "queries, keys and values have {heads} heads together, which is no multiple of 3"
    );
    check(mask, [batch, heads / 3, length, length], dropout);
    #[cfg(feature = "flex")]
    if crate::flex::takes(packed) {
        use crate::dropout::Dropout;
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let device = packed.device();
        let (mask, dropout) = (
            dispatch_mask(mask, &device)?,
            Dropout::draw(dropout, &device),
        );
        let packed = packed.clone().into_dispatch();
        let y = Dispatch::fused_self_attention(packed, mask, dropout);
        return Some(Tensor::from_dispatch(y));
    }
    #[cfg(feature = "autodiff")]
    if crate::explicit::takes(packed) && packed.shape().num_elements() > 0 {
        use crate::explicit::ExplicitOps;
        use burn::backend::Dispatch;

        let scores = [batch, heads / 3, length, length];
        let (blocked, dropped, masking) = explicit_masks(mask, scores, dropout, &packed.device());
        let packed = packed.clone().into_dispatch();
        let y = Dispatch::explicit_self_attention(packed, blocked, dropped, masking);
        return Some(Tensor::from_dispatch(y));
    }
    None
}

/// The same from one sequence to another.
///
/// # Shapes
///
/// - query: `[B, T, H, K]`
/// - packed: keys and values, `[B, S, 2 H, K]`
/// - mask: `[B or 1, H or 1, T or 1, S or 1]`, `true` = blocked
/// - output: `[B, T, H K]`; zeros for a query whose keys are all blocked
///
/// # Panics
///
/// If the shapes do not fit together, or the probability is not in `[0, 1)`.
pub fn cross_attention(
    query: &Tensor<4>,
    packed: &Tensor<4>,
    mask: Option<&Tensor<4, Bool>>,
    dropout: f64,
) -> Option<Tensor<3>> {
    let (left, right) = (query.dims(), packed.dims());
    let [batch, t, n_heads, d_head] = left;
    let s = right[1];
    assert!(
        right == [batch, s, 2 * n_heads, d_head],
        "the query is {left:?}, but keys and values are {right:?}"
    );
    check(mask, [batch, n_heads, t, s], dropout);
    #[cfg(feature = "flex")]
    if crate::flex::takes(query) && crate::flex::takes(packed) {
        use crate::dropout::Dropout;
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let device = query.device();
        let (mask, dropout) = (
            dispatch_mask(mask, &device)?,
            Dropout::draw(dropout, &device),
        );
        let (query, packed) = (
            query.clone().into_dispatch(),
            packed.clone().into_dispatch(),
        );
        let y = Dispatch::fused_cross_attention(query, packed, mask, dropout);
        return Some(Tensor::from_dispatch(y));
    }
    #[cfg(feature = "autodiff")]
    if crate::explicit::takes(query)
        && crate::explicit::takes(packed)
        && [query, packed].iter().all(|x| x.shape().num_elements() > 0)
    {
        use crate::explicit::ExplicitOps;
        use burn::backend::Dispatch;

        let scores = [batch, n_heads, t, s];
        let (blocked, dropped, masking) = explicit_masks(mask, scores, dropout, &query.device());
        let (query, packed) = (
            query.clone().into_dispatch(),
            packed.clone().into_dispatch(),
        );
        let y = Dispatch::explicit_cross_attention(query, packed, blocked, dropped, masking);
        return Some(Tensor::from_dispatch(y));
    }
    None
}

fn check(mask: Option<&Tensor<4, Bool>>, scores: [usize; 4], dropout: f64) {
    crate::dropout::check(dropout);
    let Some(mask) = mask.map(Tensor::dims) else {
        return;
    };
    let fits = |(&size, &wanted): (&usize, &usize)| size == wanted || size == 1;
    assert!(
        mask.iter().zip(&scores).all(fits),
        "the mask is {mask:?}, but the scores are {scores:?}"
    );
}

/// One element that blocks nothing stands for no mask.
#[cfg(feature = "flex")]
fn dispatch_mask(
    mask: Option<&Tensor<4, Bool>>,
    device: &burn::tensor::Device,
) -> Option<burn::backend::tensor::BoolTensor<burn::backend::Dispatch>> {
    let mask = match mask {
        Some(mask) => mask.clone(),
        None => Tensor::from_data([[[[false]]]], &device.clone().without_autodiff()),
    };
    crate::flex::bool(&mask).map(|_| mask.into_dispatch())
}

/// The blocked, the dropped, and which of them there are.
#[cfg(feature = "autodiff")]
fn explicit_masks(
    mask: Option<&Tensor<4, Bool>>,
    scores: [usize; 4],
    dropout: f64,
    device: &burn::tensor::Device,
) -> (
    burn::backend::tensor::BoolTensor<burn::backend::Dispatch>,
    burn::backend::tensor::BoolTensor<burn::backend::Dispatch>,
    crate::explicit::Masking,
) {
    let device = device.clone().without_autodiff();
    // Of many keys it would be large: what is dropped is computed from a key, twice.
    let is_long = scores[3] >= crate::explicit::LONG;
    let drawn = if is_long { 0.0 } else { dropout };
    let dropped = crate::dropout::draw_mask(scores, drawn, &device);
    let masking = crate::explicit::Masking {
        is_blocked: mask.is_some(),
        dropout,
        key: match dropout > 0.0 && is_long {
            true => crate::dropout::draw_key(&device),
            false => 0,
        },
    };
    // Without an upload: it is not read.
    let none = || Tensor::empty([1; 4], &device);
    let blocked = mask.cloned().unwrap_or_else(none);
    (blocked.into_dispatch(), dropped, masking)
}
