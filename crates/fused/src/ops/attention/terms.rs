//! What changes the scores of attention before the softmax.

use burn::tensor::{Bool, Tensor};

/// What changes the scores of attention before the softmax: `scale Q K^T + bias`, and minus infinity
/// for blocked keys.
///
/// A mask alone converts into the terms of the paper's attention.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScoreTerms<'a> {
    /// Blocked keys, `true` = blocked; `None` if all are visible.
    pub mask: Option<&'a Tensor<4, Bool>>,
    /// Numbers that are added to the scores, `[1, H, T, S]`.
    pub bias: Option<&'a Tensor<4>>,
    /// `true` leaves out the scale `1 / sqrt(K)`, as in T5.
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

impl ScoreTerms<'_> {
    /// Returns whether the attention is that of the paper, with a mask.
    pub(super) fn is_default(&self) -> bool {
        self.bias.is_none() && !self.is_unscaled
    }

    /// Returns the factor of the scores for heads of `d_head` features.
    #[cfg(feature = "flex")]
    pub(super) fn scale(&self, d_head: usize) -> f32 {
        match self.is_unscaled {
            true => 1.0,
            false => 1.0 / (d_head as f32).sqrt(),
        }
    }
}
