//! What can be wrong with a configuration or an input.

use std::fmt;

/// A setting that no model can be built from.
///
/// Displays as `FIELD is VALUE, but must be EXPECTED`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The field of [`TransformerConfig`](crate::TransformerConfig), by its name there.
    pub field: &'static str,
    /// The value that was given.
    pub value: String,
    /// What would be right.
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

/// Token ids that the model cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// An id that has no row in the embedding.
    #[error(
        "sequence {sequence}, position {position}: token id {id} is outside the vocabulary, ids are 0..{vocab_size}"
    )]
    TokenOutOfRange {
        /// Index of the sequence in the batch, from 0.
        sequence: usize,
        /// Index of the token in the sequence, from 0.
        position: usize,
        /// The id that was given.
        id: u32,
        /// Number of ids that exist.
        vocab_size: usize,
    },
    /// A sequence with more tokens than there are positions.
    #[error(
        "sequence {sequence} has {length} tokens, but the model's max_len is {max_len}: shorten it, or build the model with a larger max_len"
    )]
    TooLong {
        /// Index of the sequence in the batch, from 0.
        sequence: usize,
        /// Its number of tokens.
        length: usize,
        /// The most that the model can take.
        max_len: usize,
    },
    /// No sequence at all.
    #[error("the batch has no sequences, but must have at least one")]
    EmptyBatch,
}
