//! The part of a model that a file holds.

use std::fmt;

/// The part of a model that a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A whole model: encoder and decoder with generator.
    Model,
    /// An encoder alone.
    Encoder,
    /// A decoder alone, with its generator.
    Decoder,
}

impl Contents {
    /// Returns `[has_encoder, has_decoder]`: which stacks belong to this part.
    pub(super) fn has(self) -> [bool; 2] {
        [self != Self::Decoder, self != Self::Encoder]
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "a whole model",
            Self::Encoder => "an encoder alone",
            Self::Decoder => "a decoder alone",
        })
    }
}
