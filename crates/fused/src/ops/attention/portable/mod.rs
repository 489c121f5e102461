//! Attention in Burn's own operations (Vaswani et al., 2017, section 3.2.1). `attention/mod.rs`
//! explains the letters in shapes.

mod autodiff;
mod blocks;
mod masks;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

use self::blocks::Attention;
use self::masks::{Masks, WeightDropout};
use super::mask::KeyMask;
use super::terms::{Form, ScoreBias, ScoreTerms};
use crate::backend::portable::on_all_backends;

/// The operations that Burn dispatches to every backend. `autodiff.rs` has the backward passes of
/// autodiff backends.
#[backend_extension(
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(feature = "_cube"),
    Autodiff
)]
pub(crate) trait PortableAttention: Backend {
    /// Returns the output of self-attention, `[B, T, H * K]`, from packed queries, keys and values,
    /// `[B, T, H + 2 * G, K]`.
    fn portable_self_attention(
        packed: FloatTensor<Self>,
        #[extension_type] mask: KeyMask<Self>,
        #[extension_type] bias: ScoreBias<Self>,
        #[extension_type] dropout: WeightDropout<Self>,
        form: Form,
    ) -> FloatTensor<Self> {
        let masks = Masks::<Self> { mask, dropout };
        let attention = Attention::<Self>::of_self(packed, masks, form);
        attention.with_bias(bias).forward().0
    }

    /// Returns the output of cross-attention, `[B, T, H * K]`, from queries, `[B, T, H, K]`, and
    /// packed keys and values, `[B, S, 2 * G, K]`.
    fn portable_cross_attention(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        #[extension_type] mask: KeyMask<Self>,
        #[extension_type] dropout: WeightDropout<Self>,
        form: Form,
    ) -> FloatTensor<Self> {
        let masks = Masks::<Self> { mask, dropout };
        let attention = Attention::<Self>::of_cross(query, packed, masks, form);
        attention.forward().0
    }
}

on_all_backends!(PortableAttention);

/// The portable path of self-attention. `scores` is the shape of the scores, `[B, H, T, T]`.
pub(super) fn self_attention(
    packed: Tensor<4>,
    terms: ScoreTerms<'_>,
    scores: [usize; 4],
    dropout: f64,
) -> Tensor<3> {
    let form = terms.form(scores[1], packed.dims()[3]);
    let dropout = WeightDropout::draw(scores, dropout, &packed.device());
    let (mask, bias) = (KeyMask::of(terms.mask), ScoreBias::of(terms.bias));
    let packed = packed.into_dispatch();
    let y = Dispatch::portable_self_attention(packed, mask, bias, dropout, form);
    Tensor::from_dispatch(y)
}

/// The portable path of cross-attention. `scores` is the shape of the scores, `[B, H, T, S]`.
pub(super) fn cross_attention(
    [query, packed]: [Tensor<4>; 2],
    terms: ScoreTerms<'_>,
    scores: [usize; 4],
    dropout: f64,
) -> Tensor<3> {
    let form = terms.form(scores[1], query.dims()[3]);
    let dropout = WeightDropout::draw(scores, dropout, &query.device());
    let mask = KeyMask::of(terms.mask);
    let (query, packed) = (query.into_dispatch(), packed.into_dispatch());
    let y = Dispatch::portable_cross_attention(query, packed, mask, dropout, form);
    Tensor::from_dispatch(y)
}
