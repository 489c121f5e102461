//! Settings of evaluations: the section `evaluation` of a run's configuration.

use serde::{Deserialize, Serialize};

use crate::checks::{MANY, check_count};
use crate::error::UsageError;

/// Settings of evaluations, and of early stopping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationConfig {
    /// Number of steps between evaluations on the validation split. `None` stands for the length of
    /// an epoch, but at most 5,000 steps; for data sets without epochs, it stands for 100 steps.
    pub every: Option<usize>,
    /// Maximum number of validation sequences in an evaluation.
    pub validation_size: usize,
    /// Maximum number of test sequences that are decoded after training.
    pub test_size: usize,
    /// Metric that decides which evaluation is the best.
    pub best_by: BestBy,
    /// Fraction of the validation sequences, above 0 and at most 1. Training ends when at least
    /// this fraction is decoded correctly; `None` for no such target.
    pub target: Option<f64>,
    /// Number of successive evaluations without improvement after which training ends; `None` for
    /// no limit.
    pub patience: Option<usize>,
    /// Evaluation by length after training; `None` for no such evaluation.
    pub by_length: Option<LengthsConfig>,
}

/// Metric that decides which evaluation is the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BestBy {
    /// Smallest validation loss.
    #[default]
    Loss,
    /// Largest fraction of validation sequences that are decoded correctly.
    ExactMatch,
    /// Largest BLEU on the validation split, for data sets of texts.
    Bleu,
}

impl BestBy {
    /// Returns whether `value` is better than `best`.
    pub(crate) fn is_better(self, value: f64, best: f64) -> bool {
        // Differences beyond nine decimal places do not count.
        let [value, best] = [value, best].map(|x| (x * 1e9).round());
        match self {
            Self::Loss => value < best,
            Self::ExactMatch | Self::Bleu => value > best,
        }
    }
}

/// Settings of an evaluation by length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthsConfig {
    /// Lengths to evaluate, in the unit of the task, such as symbols or digits.
    pub lengths: Vec<usize>,
    /// Maximum number of different sequences of each length.
    pub sequences: usize,
}

/// Maximum length in an evaluation by length. For a sequence of 10,000 tokens, the attention
/// weights of a single head take 400 MB in f32.
pub const MAX_LENGTH: usize = 10_000;

impl LengthsConfig {
    /// Checks the lengths and the number of sequences.
    ///
    /// # Errors
    ///
    /// If there is no length, or if a number is out of its bounds. The error names the first wrong
    /// setting.
    pub fn check(&self) -> Result<(), UsageError> {
        check_count("evaluation.by_length.sequences", self.sequences, 1_000_000)?;
        let path = "evaluation.by_length.lengths";
        UsageError::check(!self.lengths.is_empty(), path, "", "must name a length")?;
        let expected = format!("must be at least 1 and at most {MAX_LENGTH}");
        self.lengths.iter().try_for_each(|length| {
            UsageError::check((1..=MAX_LENGTH).contains(length), path, length, &expected)
        })
    }
}

impl EvaluationConfig {
    pub(super) fn check(&self) -> Result<(), UsageError> {
        check_count("evaluation.every", self.every.unwrap_or(1), MANY)?;
        check_count(
            "evaluation.validation_size",
            self.validation_size,
            1_000_000,
        )?;
        check_count("evaluation.test_size", self.test_size, 1_000_000)?;
        check_count("evaluation.patience", self.patience.unwrap_or(1), MANY)?;
        let target = self.target.unwrap_or(1.0);
        let expected = "must be an exact match above 0 and at most 1";
        UsageError::check(
            target > 0.0 && target <= 1.0,
            "evaluation.target",
            target,
            expected,
        )?;
        self.by_length.as_ref().map_or(Ok(()), LengthsConfig::check)
    }
}
