//! Errors of generation and scoring.

use crate::error::{ConfigError, InputError};

/// An error in the arguments of generation or scoring.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// A setting is not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model cannot process the sources, targets or prefixes.
    #[error(transparent)]
    Input(#[from] InputError),
}
