//! Positional encoding (paper, section 3.5), in three kinds.

pub mod learned;
pub mod rotary;
pub mod sinusoidal;

use burn::module::Module;
use burn::tensor::Tensor;

pub use learned::LearnedEncoding;
pub use rotary::{RotaryEncoding, Rotation};
pub use sinusoidal::SinusoidalEncoding;

use crate::config::{Positions, TransformerConfig};
use crate::init::Init;

/// A position table that is added to the embeddings.
#[derive(Module, Debug)]
pub enum PositionEncoding {
    /// Fixed.
    Sinusoidal(SinusoidalEncoding),
    /// Trained.
    Learned(LearnedEncoding),
}

impl PositionEncoding {
    /// None for the kinds that are not added.
    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Option<Self> {
        match config.positions {
            Positions::Sinusoidal | Positions::SinusoidalHalves => {
                Some(Self::Sinusoidal(SinusoidalEncoding::build(config, init)))
            }
            Positions::Learned => Some(Self::Learned(LearnedEncoding::build(config, init))),
            Positions::Rotary | Positions::None => None,
        }
    }

    /// The encodings of positions `offset..offset + length`.
    ///
    /// # Shapes
    ///
    /// - output: `[length, D]`
    ///
    /// # Panics
    ///
    /// If `offset + length` is past `max_len`.
    pub fn forward(&self, offset: usize, length: usize) -> Tensor<2> {
        match self {
            Self::Sinusoidal(encoding) => encoding.forward(offset, length),
            Self::Learned(encoding) => encoding.forward(offset, length),
        }
    }

    /// Number of positions that there are.
    pub fn max_len(&self) -> usize {
        match self {
            Self::Sinusoidal(encoding) => encoding.max_len(),
            Self::Learned(encoding) => encoding.weight.dims()[0],
        }
    }
}

/// The most tokens that a stack's positions reach; none if it has no positions.
pub(crate) fn max_len(
    added: Option<&PositionEncoding>,
    rotary: Option<&RotaryEncoding>,
) -> Option<usize> {
    let added = added.map(PositionEncoding::max_len);
    added.or(rotary.map(RotaryEncoding::max_len))
}

/// Rows `offset..offset + length` of a position table, never fewer.
fn rows(table: Tensor<2>, offset: usize, length: usize) -> Tensor<2> {
    let [max_len, _] = table.dims();
    assert!(
        offset + length <= max_len,
        "positions {offset}..{} are past max_len ({max_len}): build the model with a larger max_len",
        offset + length
    );
    table.narrow(0, offset, length)
}
