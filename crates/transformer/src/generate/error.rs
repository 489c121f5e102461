//! Errors of generation and scoring.

use crate::error::{ConfigError, InputError};

/// An error of generation, scoring or alignment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A setting is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model cannot process the sources, targets or prefixes.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The model's outputs are NaN or infinite.
    ///
    /// It is not an error if some of the logits at a position, but not all, are minus infinity.
    #[error(
        "the model's outputs for sequence {sequence} are not finite at position {position}: its parameters are damaged, have diverged, or are too large for the precision"
    )]
    NotFinite {
        /// Index of the sequence in the batch, from 0.
        sequence: usize,
        /// Index of the target token that was to be predicted, from 0.
        position: usize,
    },
}
