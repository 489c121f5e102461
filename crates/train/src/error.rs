//! Errors that are the user's to mend.

use std::fmt;

use transformer::ConfigError;

/// A flag, the value that it was given, and what would be right. Ends the program with code 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    /// The flag, with its dashes.
    pub flag: String,
    /// The value that was given.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

impl UsageError {
    /// A wrong value of a flag.
    pub fn new(
        flag: impl Into<String>,
        value: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            flag: flag.into(),
            value: value.to_string(),
            expected: expected.into(),
        }
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.flag, self.value, self.expected)
    }
}

impl std::error::Error for UsageError {}

impl From<ConfigError> for UsageError {
    /// Calls the model's fields by the flags that set them.
    fn from(error: ConfigError) -> Self {
        let flag = match error.field {
            "n_heads" => "--heads".into(),
            "n_encoder_layers" | "n_decoder_layers" => "--layers".into(),
            field => format!("--{}", field.replace('_', "-")),
        };
        let expected = error.expected.replace("d_model", "--d-model");
        let expected = expected.replace("n_heads", "--heads");
        Self::new(flag, error.value, format!("must be {expected}"))
    }
}
