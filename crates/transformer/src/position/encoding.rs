//! The positional encodings that are added to embeddings.

use burn::module::Module;
use burn::tensor::{Int, Tensor};

use super::in_attention::AttentionPosition;
use super::learned::LearnedEncoding;
use super::sinusoidal::SinusoidalEncoding;
use crate::config::{Positions, TransformerConfig};
use crate::init::Init;

/// A position table that is added to embeddings.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // A stack has only one, so its size does not matter.
pub enum PositionEncoding {
    /// Fixed sines and cosines.
    Sinusoidal(SinusoidalEncoding),
    /// Trained vectors.
    Learned(LearnedEncoding),
}

impl PositionEncoding {
    /// Builds the configured position table; `None` if positions act in self-attention or are not
    /// encoded.
    pub(crate) fn build(
        config: &TransformerConfig,
        is_causal: bool,
        init: &mut Init,
    ) -> Option<Self> {
        match config.positions {
            Positions::Sinusoidal | Positions::SinusoidalHalves | Positions::SinusoidalFairseq => {
                let encoding = SinusoidalEncoding::build(config, is_causal, init);
                Some(Self::Sinusoidal(encoding))
            }
            Positions::Learned => Some(Self::Learned(LearnedEncoding::build(config, init))),
            Positions::Rotary | Positions::Relative | Positions::Alibi | Positions::None => None,
        }
    }

    /// Returns the encodings of positions `offset..offset + length`.
    ///
    /// # Shapes
    ///
    /// - output: `[length, D]`
    ///
    /// # Panics
    ///
    /// If `offset + length` exceeds `max_len`, or `length` is 0.
    pub fn forward(&self, offset: usize, length: usize) -> Tensor<2> {
        match self {
            Self::Sinusoidal(encoding) => encoding.forward(offset, length),
            Self::Learned(encoding) => encoding.forward(offset, length),
        }
    }

    /// Returns the encodings of the tokens `ids`, which follow `offset` earlier tokens of each
    /// sequence.
    ///
    /// Token `i` has the encoding of position `offset + i`. In sources with
    /// [`Positions::SinusoidalFairseq`], padding gets zeros instead, and positions count only the
    /// other tokens.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, T]`
    /// - output: `[B, T, D]`, or `[1, T, D]` if positions count every token
    pub(crate) fn of_tokens(&self, ids: Tensor<2, Int>, offset: usize) -> Tensor<3> {
        match self {
            Self::Sinusoidal(encoding) => encoding.of_tokens(ids, offset),
            Self::Learned(encoding) => encoding.forward(offset, ids.dims()[1]).unsqueeze(),
        }
    }

    /// Returns the number of positions in the table.
    pub fn max_len(&self) -> usize {
        match self {
            Self::Sinusoidal(encoding) => encoding.max_len(),
            Self::Learned(encoding) => encoding.weight.dims()[0],
        }
    }
}

/// Returns the maximum sequence length of a stack, in tokens; `None` if any length is possible.
pub(crate) fn max_len(
    added: Option<&PositionEncoding>,
    in_attention: Option<&AttentionPosition>,
) -> Option<usize> {
    let added = added.map(PositionEncoding::max_len);
    added.or(in_attention.and_then(AttentionPosition::max_len))
}
