//! Errors that are the user's to mend.

use std::fmt;

use transformer::ConfigError;

/// A flag, a file or a line of the input, its value, and what would be right. Ends the program with
/// code 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    /// The flag, with its dashes; or what else is wrong.
    pub flag: String,
    /// The value that was given; empty if the flag takes none.
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
        f.write_str(&self.flag)?;
        if !self.value.is_empty() {
            write!(f, " {}", self.value)?;
        }
        write!(f, ": {}", self.expected)
    }
}

impl std::error::Error for UsageError {}

impl From<ConfigError> for UsageError {
    /// Calls the fields of a model or a generation by the flags that set them.
    fn from(error: ConfigError) -> Self {
        let flag = match error.field {
            "n_heads" => "--heads".into(),
            "n_encoder_layers" | "n_decoder_layers" => "--layers".into(),
            "width" => "--beam".into(),
            "forbidden" => "--forbid".into(),
            field => format!("--{}", field.replace('_', "-")),
        };
        let expected = [
            ("d_model", "--d-model"),
            ("n_heads", "--heads"),
            ("max_length", "--max-length"),
            ("the beam's width", "--beam"),
            ("use a beam, or sampling", "use --beam or --sample"),
        ]
        .iter()
        .fold(error.expected, |text, (name, flag)| {
            text.replace(name, flag)
        });
        Self::new(flag, error.value, format!("must be {expected}"))
    }
}

/// A user's words in quotation marks, the first of them if there are many, control characters
/// escaped.
pub fn quote(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_are_one_short_line() {
        assert_eq!(quote("1 2"), r#""1 2""#);
        assert_eq!(quote("a\nb\u{1b}"), r#""a\nb\u{1b}""#);
        let long = quote(&"é".repeat(10_000));
        assert_eq!(long, format!("\"{}\"...", "é".repeat(60)));
    }
}
