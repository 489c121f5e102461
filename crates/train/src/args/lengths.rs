//! Flags of an evaluation by length.

use clap::Args;
use training::config::{LengthsConfig, MAX_LENGTH, RunConfig};
use training::data::{Dataset, Split};
use training::error::{UsageError, quote};
use training::evaluation::{ByLength, LengthSettings, lengthened};
use transformer::generate::{GenerateConfig, Method};

use super::check::needs;
use super::parse::whole_number;
use super::search::check_generation;

/// Default of `--sequences`. `eval` prefers the number of the run, if it has one.
const SEQUENCES: usize = 250;

/// Flags of an evaluation by length.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct LengthArgs {
    /// Report exact match by length, such as 4,8,16 or 1..32 (both ends included), also for lengths
    /// beyond those of training; `add` counts the digits of the longer number
    #[arg(long, value_name = "LENGTHS", allow_negative_numbers = true, value_parser = lengths)]
    pub eval_lengths: Option<Box<[usize]>>,
    /// Maximum number of different sequences of each length; needs --eval-lengths [default: 250;
    /// eval: the run's own number, if it has one]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub sequences: Option<usize>,
}

impl LengthArgs {
    /// Returns the settings of the evaluation by length; `None` without `--eval-lengths`.
    ///
    /// # Errors
    ///
    /// A number of sequences that is out of range, or `--sequences` without `--eval-lengths`.
    pub fn config(&self) -> Result<Option<LengthsConfig>, UsageError> {
        let is_given = self.eval_lengths.is_some();
        needs("--sequences", self.sequences, "--eval-lengths", is_given)?;
        let Some(lengths) = &self.eval_lengths else {
            return Ok(None);
        };
        let config = LengthsConfig {
            lengths: lengths.to_vec(),
            sequences: self.sequences.unwrap_or(SEQUENCES),
        };
        config.check()?;
        Ok(Some(config))
    }
}

/// Returns the settings of an evaluation by length on `split`. Checks that the decoder cache fits
/// into memory.
///
/// # Errors
///
/// A data set that is not a synthetic task, a search that is not valid, or one that needs too much
/// memory.
pub fn length_settings(
    asked: &LengthsConfig,
    run: &RunConfig,
    dataset: &dyn Dataset,
    split: Split,
    method: Method,
    batch_size: Option<usize>,
) -> Result<LengthSettings, UsageError> {
    let task = ByLength::task_of(dataset)?;
    let model = lengthened(&run.model, task, &asked.lengths);
    let vocabularies = dataset.codec().vocabularies();
    let longest = GenerateConfig::new(vocabularies.bos_id, model.max_len)
        .with_eos_id(vocabularies.eos_id)
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

/// Parses lengths: a list `4,8,16`, a range `1..32` that includes both ends, or a mix `1..8,16`.
/// Returns the lengths in increasing order and without repetitions.
fn lengths(text: &str) -> Result<Box<[usize]>, String> {
    let number = |word: &str| -> Result<usize, String> {
        let number = word.trim().parse().map_err(|_| {
            let hint = "name some lengths, such as 4,8,16 or 1..32";
            format!("{} is not a length; {hint}", quote(word))
        })?;
        if (1..=MAX_LENGTH).contains(&number) {
            Ok(number)
        } else {
            Err(format!(
                "a length must be at least 1 and at most {MAX_LENGTH}"
            ))
        }
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
    Ok(lengths.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_lists_and_ranges() {
        let parse = |text| lengths(text).unwrap();
        assert_eq!(*parse("7"), [7]);
        assert_eq!(*parse("1..4"), [1, 2, 3, 4]);
        assert_eq!(*parse("16, 4,8"), [4, 8, 16]);
        assert_eq!(*parse("1..3,2..5,32"), [1, 2, 3, 4, 5, 32]);
        assert_eq!(*parse("9..9"), [9]);
    }

    #[test]
    fn wrong_lengths_are_explained() {
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
