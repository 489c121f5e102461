//! Errors about configurations and inputs.

use std::fmt;

/// A setting that is not valid.
///
/// Displays as `FIELD is VALUE, but must be EXPECTED`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the field, as in [`TransformerConfig`](crate::TransformerConfig) or
    /// [`GenerateConfig`](crate::generate::GenerateConfig).
    pub field: &'static str,
    /// Value of the field.
    pub value: String,
    /// Description of the valid values.
    pub expected: String,
}

impl ConfigError {
    pub(crate) fn new(
        field: &'static str,
        value: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            field,
            value: value.to_string(),
            expected: expected.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            value,
            expected,
        } = self;
        write!(f, "{field} is {value}, but must be {expected}")
    }
}

impl std::error::Error for ConfigError {}

/// Token ids that a model cannot process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// A token id is outside the vocabulary.
    #[error(
        "sequence {sequence}, position {position}: token id {id} is outside the vocabulary, ids are 0..{vocab_size}"
    )]
    TokenOutOfRange {
        /// Index of the sequence in the batch, from 0.
        sequence: usize,
        /// Index of the token in the sequence, from 0.
        position: usize,
        /// The token id.
        id: u32,
        /// Size of the vocabulary.
        vocab_size: usize,
    },
    /// A sequence is longer than the model's `max_len`.
    #[error(
        "sequence {sequence} has {length} tokens, but the model's max_len is {max_len}: shorten it, or build the model with a larger max_len"
    )]
    TooLong {
        /// Index of the sequence in the batch, from 0.
        sequence: usize,
        /// Length of the sequence, in tokens.
        length: usize,
        /// Maximum length, in tokens.
        max_len: usize,
    },
    /// The batch has no sequences.
    #[error("the batch has no sequences, but must have at least one")]
    EmptyBatch,
}
