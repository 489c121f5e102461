//! Flags of an evaluation by length.

use clap::Args;
use training::config::{LengthsConfig, RunConfig};
use training::data::{Dataset, Split};
use training::error::{UsageError, check_bounds};
use training::evaluation::{ByLength, LengthSettings, lengthened};
use transformer::generate::{GenerateConfig, Method};

use super::check::needs;
use super::parse::whole_number;
use super::search::check_generation;

/// Flags of an evaluation by length.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct LengthArgs {
    /// Report exact match by length, such as 4,8,16 or 1..32 (both ends included), also for lengths
    /// beyond those of training; `add` counts the digits of the longer number
    #[arg(long, value_name = "LENGTHS", allow_negative_numbers = true, value_parser = lengths)]
    pub eval_lengths: Option<Box<[usize]>>,
    /// Maximum number of different sequences of each length; needs --eval-lengths [default: the
    /// run's own number, else 250]
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
            sequences: self.sequences.unwrap_or(LengthsConfig::DEFAULT.sequences),
        };
        check_bounds(&config)?;
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
fn lengths(text: &str) -> Result<Box<[usize]>, String> {
    let lengths = LengthsConfig::lengths.read_text(text)?;
    Ok(serde_json::from_value(lengths).expect("they are numbers"))
}
