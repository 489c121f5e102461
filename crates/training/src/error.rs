//! Errors that the user of a run can correct.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use transformer::ConfigError;

/// Subject of a [`UsageError`]: what the error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A setting, by its path in a run's `config.json`, such as `optimization.schedule.warmup`, or
    /// an argument of a program, by its name, such as `run`.
    Setting(String),
    /// Anything else, in words, such as `line 3`, `corpus` or a flag of a program.
    Other(String),
}

/// Error that the user can correct. It says which setting, file or line is wrong, what its value
/// is, and what is expected instead.
///
/// It is displayed as `SUBJECT VALUE: EXPECTED` or, without a value, as `SUBJECT: EXPECTED`.
/// Settings are named by their paths, and a long message is [shortened]. A program with flags for
/// the settings calls [`describe`](Self::describe) to name the flags instead.
///
/// ```
/// use training::error::UsageError;
///
/// let error = UsageError::setting("optimization.steps", 0, "must be at least 1");
/// assert_eq!(error.to_string(), "optimization.steps 0: must be at least 1");
/// let flag = |_path: &str| Some("--steps");
/// assert_eq!(error.describe(flag), "--steps 0: must be at least 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.describe(|_| None))]
pub struct UsageError {
    /// What the error is about: a setting, or anything else.
    pub subject: Subject,
    /// The value that was given; empty if there is none.
    pub value: String,
    /// What is expected instead. The n-th `{}` stands for the n-th element of `settings`.
    pub expected: String,
    /// Paths of other settings that `expected` mentions.
    pub settings: Vec<String>,
}

impl UsageError {
    /// Returns an error about anything other than a setting.
    pub fn new(
        subject: impl Into<String>,
        value: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            subject: Subject::Other(subject.into()),
            value: value.to_string(),
            expected: expected.into(),
            settings: Vec::new(),
        }
    }

    /// Returns an error about the setting at `path`, such as `optimization.steps`.
    pub fn setting(
        path: impl Into<String>,
        value: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            subject: Subject::Setting(path.into()),
            ..Self::new("", value, expected)
        }
    }

    /// Returns an error about the setting at `path` unless it is valid.
    ///
    /// # Errors
    ///
    /// The error of [`setting`](Self::setting), if `is_valid` is false.
    pub(crate) fn check(
        is_valid: bool,
        path: impl Into<String>,
        value: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Result<(), Self> {
        if is_valid {
            Ok(())
        } else {
            Err(Self::setting(path, value, expected))
        }
    }

    /// Converts an error about a field of a configuration structure. The path of the setting is
    /// `SECTION.FIELD`, where `section` is the path of the structure, such as `model`.
    pub fn of_section(section: &str, error: ConfigError) -> Self {
        // `expected_with` visits the mentioned fields from the last to the first, so each is
        // inserted at the front.
        let mentioned = RefCell::new(Vec::new());
        let expected = error.expected_with(|field| {
            mentioned
                .borrow_mut()
                .insert(0, format!("{section}.{field}"));
            "{}".into()
        });
        Self {
            settings: mentioned.into_inner(),
            ..Self::setting(
                format!("{section}.{}", error.field),
                error.value,
                format!("must be {expected}"),
            )
        }
    }

    /// Sets the settings whose names replace the `{}` in `expected`, in their order.
    pub fn naming<'a>(mut self, settings: impl IntoIterator<Item = &'a str>) -> Self {
        self.settings = settings.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the message. `name` returns the name of a setting by its path, such as the name of a
    /// flag. If it returns `None`, the message has the path.
    pub fn describe<'a>(&'a self, name: impl Fn(&'a str) -> Option<&'a str>) -> String {
        let mut text = match &self.subject {
            Subject::Setting(path) => name(path).unwrap_or(path).to_owned(),
            Subject::Other(subject) => subject.clone(),
        };
        if !self.value.is_empty() {
            text.push(' ');
            text += &self.value;
        }
        text += ": ";
        shortened(text + &fill(&self.expected, &self.settings, name))
    }
}

/// Shortens a message of more than 900 characters, such as one that quotes a damaged file.
///
/// The result has the first 700 and the last 200 characters, because paths and reasons are at the
/// beginning and at the end of a message.
pub fn shortened(text: String) -> String {
    const BEGIN: usize = 700;
    const END: usize = 200;
    let at = |n| text.char_indices().nth(n).map(|(at, _)| at);
    let end = text.char_indices().nth_back(END - 1).map(|(at, _)| at);
    match (at(BEGIN), at(BEGIN + END), end) {
        (Some(begin), Some(_), Some(end)) => format!("{} ... {}", &text[..begin], &text[end..]),
        _ => text,
    }
}

/// Returns the error for a file or folder that cannot be written.
///
/// This is `usage` if another path would help. Otherwise, for example if the disk is full, it is an
/// error with the cause.
pub fn unwritable(path: &Path, error: io::Error, usage: UsageError) -> anyhow::Error {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::AlreadyExists
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput => usage.into(),
        _ => anyhow::Error::new(error).context(format!("cannot write {}", path.display())),
    }
}

/// Replaces each `{}` in a text by the name of the next setting, as long as there is one.
fn fill<'a>(
    text: &'a str,
    settings: &'a [String],
    name: impl Fn(&'a str) -> Option<&'a str>,
) -> String {
    let mut filled = String::new();
    let mut rest = text;
    for setting in settings {
        let Some((before, after)) = rest.split_once("{}") else {
            break;
        };
        filled += before;
        filled += name(setting).unwrap_or(setting);
        rest = after;
    }
    filled + rest
}

/// Error of a run that cannot continue, because its loss, a gradient, a parameter or an output is
/// not finite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.describe(|_| None))]
pub struct DivergedError {
    /// What happened, such as `the loss is NaN at step 12`.
    pub what: String,
    /// Advice to the user. Each `{}` stands for one of `settings`, in their order.
    pub advice: String,
    /// Paths of the settings that `advice` mentions.
    pub settings: Vec<String>,
}

impl DivergedError {
    /// Returns the message. `name` returns the name of a setting by its path, such as the name of a
    /// flag. If it returns `None`, the message has the path.
    pub fn describe<'a>(&'a self, name: impl Fn(&'a str) -> Option<&'a str>) -> String {
        format!(
            "{}: {}",
            self.what,
            fill(&self.advice, &self.settings, name)
        )
    }
}

impl From<ConfigError> for UsageError {
    /// Converts an error about a field of the model's configuration.
    fn from(error: ConfigError) -> Self {
        Self::of_section("model", error)
    }
}

/// Returns a user's text in quotation marks, with control characters escaped. Text of more than 60
/// characters is truncated to 60, and `...` follows its quotation marks.
pub fn quote(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_one_short_line() {
        assert_eq!(quote("1 2"), r#""1 2""#);
        assert_eq!(quote("a\nb\u{1b}"), r#""a\nb\u{1b}""#);
        let long = quote(&"é".repeat(10_000));
        assert_eq!(long, format!("\"{}\"...", "é".repeat(60)));
    }

    #[test]
    fn long_messages_lose_their_middle() {
        let message = |n: usize| UsageError::new("file", "é".repeat(n), "is damaged").to_string();
        assert_eq!(
            message(800),
            format!("file {}: is damaged", "é".repeat(800))
        );
        let long = message(100_000);
        assert!(long.starts_with("file éé") && long.ends_with("éé: is damaged"));
        assert_eq!(long.chars().count(), 905);
    }

    #[test]
    fn only_a_wrong_path_is_wrong_usage() {
        let error = |kind: ErrorKind| {
            let usage = UsageError::new("--output", "a", "cannot be written");
            unwritable(Path::new("a/b"), kind.into(), usage)
        };
        for kind in [ErrorKind::NotFound, ErrorKind::PermissionDenied] {
            assert!(error(kind).is::<UsageError>());
        }
        for kind in [ErrorKind::StorageFull, ErrorKind::FileTooLarge] {
            assert!(!error(kind).is::<UsageError>());
            assert_eq!(error(kind).to_string(), "cannot write a/b");
        }
    }

    #[test]
    fn fields_of_the_model_are_settings() {
        let config = transformer::TransformerConfig::new(9, 9).with_n_heads(3);
        let error = UsageError::from(config.validate().unwrap_err());
        let text = "model.n_heads 3: must be a divisor of model.d_model (512)";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn mentioned_settings_are_named_like_the_subject() {
        let error = UsageError::setting("data.min_length", 9, "must be at most {} (5)")
            .naming(["data.max_length"]);
        let text = "data.min_length 9: must be at most data.max_length (5)";
        assert_eq!(error.to_string(), text);
        let flag = |path| match path {
            "data.min_length" => Some("--min-length"),
            "data.max_length" => Some("--max-length"),
            _ => None,
        };
        let text = "--min-length 9: must be at most --max-length (5)";
        assert_eq!(error.describe(flag), text);
        // A message without settings keeps its braces.
        let plain = UsageError::new("line 1", "", "is not {} JSON");
        assert_eq!(plain.to_string(), "line 1: is not {} JSON");
    }
}
