//! The positional encodings that act in self-attention.

use burn::module::Module;
use burn::tensor::Tensor;

use super::alibi::Alibi;
use super::relative::RelativeBias;
use super::rotary::{RotaryEncoding, Rotation};
use crate::config::TransformerConfig;
use crate::init::Init;

/// A positional encoding that acts in the self-attention of a stack.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // A stack has only one, so its size does not matter.
pub enum AttentionPosition {
    /// Queries and keys are rotated.
    Rotary(RotaryEncoding),
    /// Trained biases are added to the scores.
    Relative(RelativeBias),
    /// Multiples of the distance are subtracted from the scores.
    Alibi(Alibi),
}

impl AttentionPosition {
    /// Builds the configured encoding; `None` if it does not act in self-attention.
    pub(crate) fn build(
        config: &TransformerConfig,
        is_causal: bool,
        init: &mut Init,
    ) -> Option<Self> {
        let rotary = RotaryEncoding::build(config, init).map(Self::Rotary);
        rotary
            .or_else(|| RelativeBias::build(config, is_causal, init).map(Self::Relative))
            .or_else(|| Alibi::build(config, init).map(Self::Alibi))
    }

    /// Returns the encoding of `length` tokens after `past` earlier ones, which all layers share.
    ///
    /// # Panics
    ///
    /// If positions are rotary, and `past + length` exceeds `max_len` or `length` is 0.
    pub(crate) fn forward(&self, past: usize, length: usize) -> PositionTerm {
        match self {
            Self::Rotary(rotary) => PositionTerm::Rotation(rotary.forward(past, length)),
            Self::Relative(relative) => PositionTerm::Bias(relative.forward(past, length)),
            Self::Alibi(alibi) => PositionTerm::Bias(alibi.forward(past, length)),
        }
    }

    /// Returns the maximum sequence length, in tokens; `None` if any length is possible.
    pub(super) fn max_len(&self) -> Option<usize> {
        match self {
            Self::Rotary(rotary) => Some(rotary.max_len()),
            Self::Relative(_) | Self::Alibi(_) => None,
        }
    }
}

/// The effect of a positional encoding on self-attention, which is the same in all layers.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // A pass has only one, so its size does not matter.
pub(crate) enum PositionTerm {
    /// Rotation of queries and keys.
    Rotation(Rotation),
    /// Biases that are added to the scores of `length` queries after `past` tokens,
    /// `[1, H, length, past + length]`.
    Bias(Tensor<4>),
}
