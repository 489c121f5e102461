//! The positional encodings that are added to embeddings.

use burn::module::Module;
use burn::tensor::{Int, Tensor};

use super::in_attention::AttentionPosition;
use super::learned::LearnedEncoding;
use super::sinusoidal::SinusoidalEncoding;
use crate::config::{PositionConfig, Positions};
use crate::init::Init;

/// A position table that is added to embeddings: sinusoidal or learned.
///
/// It is a struct, not an enum, since Burn puts the names of variants into those of parameters.
#[derive(Module, Debug)]
pub struct PositionEncoding {
    sinusoidal: Option<SinusoidalEncoding>,
    learned: Option<LearnedEncoding>,
}

impl From<SinusoidalEncoding> for PositionEncoding {
    fn from(sinusoidal: SinusoidalEncoding) -> Self {
        Self {
            sinusoidal: Some(sinusoidal),
            learned: None,
        }
    }
}

impl From<LearnedEncoding> for PositionEncoding {
    fn from(learned: LearnedEncoding) -> Self {
        Self {
            sinusoidal: None,
            learned: Some(learned),
        }
    }
}

impl PositionEncoding {
    /// Builds the configured position table; `None` if positions act in self-attention or are not
    /// encoded.
    pub(crate) fn build(
        config: &PositionConfig,
        d_model: usize,
        is_causal: bool,
        init: &mut Init,
    ) -> Option<Self> {
        match config.kind {
            Positions::Sinusoidal | Positions::SinusoidalHalves | Positions::SinusoidalFairseq => {
                Some(SinusoidalEncoding::build(config, d_model, is_causal, init).into())
            }
            Positions::Learned => {
                Some(LearnedEncoding::build(config.max_len, d_model, init).into())
            }
            Positions::Rotary | Positions::Relative | Positions::Alibi | Positions::None => None,
        }
    }

    /// Returns the same encoding of up to `max_len` positions, unless it is learned.
    pub(crate) fn lengthened(self, max_len: usize, init: &mut Init) -> Self {
        let Self {
            sinusoidal,
            learned,
        } = self;
        Self {
            sinusoidal: sinusoidal.map(|encoding| encoding.lengthened(max_len, init)),
            learned,
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
        match (&self.sinusoidal, &self.learned) {
            (Some(encoding), _) => encoding.forward(offset, length),
            (_, Some(encoding)) => encoding.forward(offset, length),
            (None, None) => unreachable!("an encoding has a table"),
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
        match &self.sinusoidal {
            Some(encoding) => encoding.of_tokens(ids, offset),
            None => self.forward(offset, ids.dims()[1]).unsqueeze(),
        }
    }

    /// Returns the number of positions in the table.
    pub fn max_len(&self) -> usize {
        let learned = self.learned.as_ref();
        let learned = learned.map(|encoding| encoding.weight.dims()[0]);
        let sinusoidal = self.sinusoidal.as_ref();
        sinusoidal.map_or(learned.unwrap_or(0), SinusoidalEncoding::max_len)
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
