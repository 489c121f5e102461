//! The scale, bias and mask of the attention scores before the softmax.

#[cfg(any(feature = "flex", feature = "autodiff"))]
use burn::backend::tensor::FloatTensor;
#[cfg(any(feature = "flex", feature = "autodiff"))]
use burn::backend::{Backend, Dispatch, ExtensionType};
use burn::tensor::{Bool, Tensor};

/// The scale, bias and mask of the attention scores before the softmax.
///
/// The scores are `scale Q K^T + bias`, and minus infinity for blocked keys.
///
/// An optional mask converts into terms with the scale `1 / sqrt(d_head)` and without a bias, as in
/// Vaswani et al. (2017). `d_head` is the number of features of a head.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScoreTerms<'a> {
    /// Attention mask, `true` = blocked, `[B or 1, H or 1, T or 1, S or 1]` for `B` sequences, `H`
    /// heads, `T` queries and `S` keys. [`attention_step`](crate::attention_step()) needs another
    /// shape, which it documents. `None` if all keys are visible.
    pub mask: Option<&'a Tensor<4, Bool>>,
    /// Bias that is added to the scores of every sequence, `[1, H, T, S]` for `H` heads, `T`
    /// queries and `S` keys.
    pub bias: Option<&'a Tensor<4>>,
    /// `true` leaves out the scale `1 / sqrt(d_head)`, as in T5.
    pub is_unscaled: bool,
}

impl<'a> From<Option<&'a Tensor<4, Bool>>> for ScoreTerms<'a> {
    fn from(mask: Option<&'a Tensor<4, Bool>>) -> Self {
        Self {
            mask,
            ..Self::default()
        }
    }
}

/// The number of heads and the scale of attention.
#[cfg(any(feature = "flex", feature = "autodiff"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// Number of heads of the queries, `H`.
    pub n_heads: usize,
    /// Factor of `Q K^T`.
    pub scale: f64,
}

#[cfg(any(feature = "flex", feature = "autodiff"))]
impl ScoreTerms<'_> {
    /// Returns the form of attention with `n_heads` heads of queries, each of `d_head` features.
    pub(super) fn form(&self, n_heads: usize, d_head: usize) -> Form {
        let scale = if self.is_unscaled {
            1.0
        } else {
            1.0 / (d_head as f64).sqrt()
        };
        Form { n_heads, scale }
    }
}

/// A bias of the attention scores, which may be absent.
#[cfg(any(feature = "flex", feature = "autodiff"))]
#[derive(Clone, Debug, ExtensionType)]
pub(crate) enum ScoreBias<B: Backend> {
    /// Nothing is added.
    None,
    /// The bias is added to the scores of every sequence, `[1, H, T, S]`.
    Added(FloatTensor<B>),
}

#[cfg(any(feature = "flex", feature = "autodiff"))]
impl ScoreBias<Dispatch> {
    pub fn of(bias: Option<&Tensor<4>>) -> Self {
        match bias {
            None => Self::None,
            Some(bias) => Self::Added(bias.clone().into_dispatch()),
        }
    }
}
