//! Errors that the user of a run can correct.

use std::fmt::{self, Display};
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::setting::{Kind, Section, Setting, json, shown};

/// Subject of a [`UsageError`]: what the error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Subject {
    /// A setting of a run.
    Setting(&'static Setting),
    /// An argument of a function of this library, such as `run`, or a field of
    /// [`GenerateConfig`](transformer::generate::GenerateConfig).
    Argument(&'static str),
    /// Anything else, in words, such as `line 3`, `corpus` or a flag of a program.
    Other(String),
}

impl Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Setting(setting) => setting.path,
            Self::Argument(name) => name,
            Self::Other(subject) => subject,
        })
    }
}

/// Error that the user can correct. It says which setting, file or line is wrong, what its value
/// is, and what is expected instead.
///
/// It is displayed as `SUBJECT VALUE: EXPECTED` or, without a value, as `SUBJECT: EXPECTED`.
/// Settings are named by their paths, and a long message is [shortened]. A program with flags for
/// the settings calls [`describe`](Self::describe) to name the flag instead.
///
/// ```
/// use training::config::OptimizationConfig;
/// use training::error::UsageError;
///
/// let steps = OptimizationConfig::steps;
/// let error = UsageError::setting(steps, 0, "must be at least 1");
/// assert_eq!(error.to_string(), "optimization.steps 0: must be at least 1");
/// assert_eq!(error.describe(steps.name()), "--steps 0: must be at least 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.describe(&self.subject))]
pub struct UsageError {
    /// What the error is about.
    pub subject: Subject,
    /// The value that was given; empty if there is none.
    pub value: String,
    /// What is expected instead.
    pub expected: String,
}

impl UsageError {
    /// Returns an error about anything other than a setting.
    pub fn new(
        subject: impl Into<String>,
        value: impl Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::about(Subject::Other(subject.into()), value, expected)
    }

    /// Returns an error about a setting.
    pub fn setting(
        setting: &'static Setting,
        value: impl Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::about(Subject::Setting(setting), value, expected)
    }

    /// Returns an error about an argument of a function.
    pub fn argument(name: &'static str, value: impl Display, expected: impl Into<String>) -> Self {
        Self::about(Subject::Argument(name), value, expected)
    }

    fn about(subject: Subject, value: impl Display, expected: impl Into<String>) -> Self {
        Self {
            subject,
            value: value.to_string(),
            expected: expected.into(),
        }
    }

    /// Returns an error about a setting unless it is valid.
    ///
    /// # Errors
    ///
    /// The error of [`setting`](Self::setting), if `is_valid` is false.
    pub(crate) fn check(
        is_valid: bool,
        setting: &'static Setting,
        value: impl Display,
        expected: impl Into<String>,
    ) -> Result<(), Self> {
        let wrong = || Self::setting(setting, value, expected);
        is_valid.then_some(()).ok_or_else(wrong)
    }

    /// Returns the error with advice after what is expected.
    #[must_use]
    pub fn and(mut self, advice: &str) -> Self {
        self.expected = format!("{}; {advice}", self.expected);
        self
    }

    /// Returns the message, with `subject` as the name of what the error is about.
    pub fn describe(&self, subject: impl Display) -> String {
        let (value, expected) = (&self.value, &self.expected);
        let space = if value.is_empty() { "" } else { " " };
        shortened(format!("{subject}{space}{value}: {expected}"))
    }
}

/// Checks that each setting of a section has one of the values that its declaration names.
///
/// # Errors
///
/// The first setting that has another value.
#[doc(hidden)]
pub fn check_bounds<S: Section + Serialize>(section: &S) -> Result<(), UsageError> {
    check_values(S::SETTINGS, &json(section))
}

/// Checks that each of some settings has one of the values that its declaration names. `values` has
/// them by their keys.
pub(crate) fn check_values(
    settings: &[&'static Setting],
    values: &Value,
) -> Result<(), UsageError> {
    settings.iter().try_for_each(|setting| {
        let value = &values[setting.key()];
        let read = match setting.kind {
            // An optional group that is not used is null.
            Kind::Group(..) if value.is_null() => return Ok(()),
            Kind::Group(settings, _) => return check_values(settings, value),
            _ => setting.read(value),
        };
        let shown = match value {
            Value::Null => "null".into(),
            value => shown(value),
        };
        let wrong = |expected| UsageError::setting(setting, shown, expected);
        read.map(drop).map_err(wrong)
    })
}

/// Shortens a message of more than 900 characters, such as one that quotes a damaged file.
///
/// The result has the first 700 and the last 200 characters, because paths and reasons are at the
/// beginning and at the end of a message.
#[doc(hidden)]
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
#[doc(hidden)]
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

/// Error of a run that cannot continue, because its loss, a gradient, a parameter or an output is
/// not finite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {advice}")]
#[doc(hidden)]
pub struct DivergedError {
    /// What happened, such as `the loss is not finite at step 12`.
    pub what: String,
    /// Advice to the user.
    pub advice: String,
}

/// Returns a user's text in quotation marks, with control characters escaped. Text of more than 60
/// characters is truncated to 60, and `...` follows its quotation marks.
#[doc(hidden)]
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
}
