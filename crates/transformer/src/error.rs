//! Errors about configurations and inputs.

use std::fmt;

/// Returns a number as text for a [`ConfigError`].
pub(crate) fn number(value: f64) -> String {
    let text = value.to_string();
    match text.len() {
        0..=24 => text,
        // Numbers such as 1e300 have hundreds of digits.
        _ => format!("{value:e}"),
    }
}

/// A setting that is not valid.
///
/// The error displays as `FIELD is VALUE, but must be EXPECTED`.
///
/// ```
/// use transformer::TransformerConfig;
///
/// let error = TransformerConfig::new(10, 10).with_n_heads(3).validate().unwrap_err();
/// assert_eq!(error.to_string(), "n_heads is 3, but must be a divisor of d_model (512)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// Name of the setting, for example of a field of
    /// [`TransformerConfig`](crate::TransformerConfig) or
    /// [`GenerateConfig`](crate::generate::GenerateConfig), or of an argument such as
    /// `label_smoothing`.
    pub field: &'static str,
    /// Invalid value of the setting.
    pub value: String,
    /// Description of the valid values.
    pub expected: String,
}

impl ConfigError {
    /// Creates an error about the `value` of `field`.
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

/// An error in the token ids given to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
        /// Token id that is outside the vocabulary.
        id: u32,
        /// Size of the vocabulary, in tokens.
        vocab_size: usize,
    },
    /// A sequence is longer than the model's `max_len`.
    #[error(
        "sequence {sequence} needs {length} positions, but the model's max_len is {max_len}: shorten it, or build the model with a larger max_len"
    )]
    TooLong {
        /// Index of the sequence in the batch, from 0.
        sequence: usize,
        /// Number of positions that the sequence needs: its tokens, and those that are added to it.
        length: usize,
        /// Maximum length of the sequence, in tokens.
        max_len: usize,
    },
    /// The batch has no sequences.
    #[error("the batch has no sequences, but must have at least one")]
    EmptyBatch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_short() {
        assert_eq!(number(1e300), "1e300");
        assert_eq!(number(-1e-300), "-1e-300");
        assert_eq!(number(0.1 + 0.2), "0.30000000000000004");
        assert_eq!(number(-2.0), "-2");
        assert_eq!(number(f64::NAN), "NaN");
    }
}
