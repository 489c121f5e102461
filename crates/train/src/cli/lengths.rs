//! Flags of an evaluation by length.

use clap::Args;
use transformer::generate::{GenerateConfig, Method};

use super::search::needs;
use super::{check_generation, whole_number};
use crate::config::RunConfig;
use crate::error::{UsageError, quote};
use crate::lengths::{LONGEST, LengthSettings, LengthsConfig, lengthened};
use crate::task::{Split, SyntheticTask, Task};

/// Sequences of each length, unless somebody says otherwise.
const SEQUENCES: usize = 250;

/// Lengths in increasing order, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths(pub Vec<usize>);

/// Flags of an evaluation by length.
#[derive(Clone, Debug, Default, Args)]
pub struct LengthArgs {
    /// Report exact match by length, such as 4,8,16 or 1..32 (both ends included), also of lengths
    /// past those of training; `add` counts the digits of the longer number
    #[arg(long, value_name = "LENGTHS", allow_negative_numbers = true, value_parser = lengths)]
    pub eval_lengths: Option<Lengths>,
    /// Different sequences of each length; needs --eval-lengths [default: 250]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub sequences: Option<usize>,
}

impl LengthArgs {
    /// The lengths that these flags ask for, if any.
    ///
    /// # Errors
    ///
    /// The first flag that no evaluation can be made with.
    pub fn config(&self) -> Result<Option<LengthsConfig>, UsageError> {
        let there = self.eval_lengths.is_some();
        needs("--sequences", self.sequences, "--eval-lengths", there)?;
        let Some(Lengths(lengths)) = &self.eval_lengths else {
            return Ok(None);
        };
        let config = LengthsConfig {
            lengths: lengths.clone(),
            sequences: self.sequences.unwrap_or(SEQUENCES),
        };
        config.check()?;
        Ok(Some(config))
    }
}

/// The error that somebody asks for texts of a length.
pub fn lengths_of_text() -> UsageError {
    let expected = "is for tasks whose sequences can be made of any length; text has its own";
    UsageError::new("--eval-lengths", "", expected)
}

/// The task as one with sequences of any length.
///
/// # Errors
///
/// If it has only those that stand in files.
pub fn of_any_length(task: &dyn Task) -> Result<&dyn SyntheticTask, UsageError> {
    task.synthetic().ok_or_else(lengths_of_text)
}

/// How the model of a run is evaluated by length.
///
/// # Errors
///
/// The first setting that no evaluation can be made with.
pub fn length_settings(
    asked: &LengthsConfig,
    run: &RunConfig,
    task: &dyn SyntheticTask,
    split: Split,
    method: Method,
    batch_size: Option<usize>,
) -> Result<LengthSettings, UsageError> {
    let model = lengthened(&run.model, task, &asked.lengths);
    let longest = GenerateConfig::new(task.bos_id(), model.max_len)
        .with_eos_id(task.eos_id())
        .with_method(method);
    let rows = batch_size.unwrap_or(1).min(asked.sequences);
    check_generation(&longest, &model, rows)?;
    Ok(LengthSettings {
        seed: run.seed,
        split,
        sequences: asked.sequences,
        method,
        batch_size,
    })
}

/// `4,8,16`, `1..32`, or both: `1..8,16`.
fn lengths(text: &str) -> Result<Lengths, String> {
    let number = |word: &str| -> Result<usize, String> {
        let number = word.trim().parse().map_err(|_| {
            format!(
                "{} is no length; name some, such as 4,8,16 or 1..32",
                quote(word)
            )
        })?;
        if !(1..=LONGEST).contains(&number) {
            return Err(format!("a length must be at least 1 and at most {LONGEST}"));
        }
        Ok(number)
    };
    let mut lengths = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!(
                "must begin with the shorter length: {last}..{first}"
            ));
        }
        lengths.extend(first..=last);
    }
    lengths.sort_unstable();
    lengths.dedup();
    Ok(Lengths(lengths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_lists_and_ranges() {
        let parse = |text| lengths(text).unwrap().0;
        assert_eq!(parse("7"), [7]);
        assert_eq!(parse("1..4"), [1, 2, 3, 4]);
        assert_eq!(parse("16, 4,8"), [4, 8, 16]);
        assert_eq!(parse("1..3,2..5,32"), [1, 2, 3, 4, 5, 32]);
        assert_eq!(parse("9..9"), [9]);
    }

    #[test]
    fn wrong_lengths_say_what_would_be_right() {
        for text in ["", "x", "1,,2", "4..", "1...4", "-1", "1-4", "1.5"] {
            let error = lengths(text).unwrap_err();
            assert!(
                error.ends_with("such as 4,8,16 or 1..32"),
                "{text}: {error}"
            );
        }
        for text in ["0", "0..4", "10001", "1..18446744073709551615"] {
            let error = lengths(text).unwrap_err();
            assert!(error.contains("at least 1 and at most 10000"), "{text}");
        }
        let error = lengths("8..4").unwrap_err();
        assert!(error.contains("the shorter length: 4..8"), "{error}");
    }
}
