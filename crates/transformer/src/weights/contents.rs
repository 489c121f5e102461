//! The part of a model that a file holds.

use std::fmt;

/// What of a model a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Encoder, decoder and generator.
    Model,
    /// The encoder alone.
    Encoder,
    /// The decoder alone, with its generator.
    Decoder,
}

impl Contents {
    /// Whether it is an encoder, and whether it is a decoder.
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
