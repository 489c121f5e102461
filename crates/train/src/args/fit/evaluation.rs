//! Flags of `fit` about evaluations and the end of training.

use clap::Args;
use training::config::{BestBy, EvaluationConfig};
use training::data::DataConfig;
use training::error::UsageError;

use crate::args::check::{reject, set};
use crate::args::lengths::LengthArgs;
use crate::args::parse::{listed, number, whole_number};
use crate::args::values::BEST_BY;

/// Flags of `fit` about evaluations and the end of training.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct EvaluationArgs {
    /// Steps between evaluations on the validation split [default: the preset's or 100; for text, an epoch or 5000 if that is less]
    #[arg(long, value_name = "STEPS", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub eval_every: Option<usize>,
    /// Measure that decides which evaluation is the best [default: loss]
    #[arg(long, value_name = "MEASURE", value_parser = listed::<BestBy>(BEST_BY))]
    pub best_by: Option<BestBy>,
    /// Stop once exact match on the validation split reaches this fraction (not for text)
    #[arg(long, value_name = "EXACT_MATCH", allow_negative_numbers = true, value_parser = number::<f64>("an exact match above 0 and at most 1, such as 0.99"))]
    pub target: Option<f64>,
    /// Stop after N evaluations without improvement, and keep the best model [default: none]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub patience: Option<usize>,
    /// Evaluation by length at the end.
    #[command(flatten)]
    pub lengths: LengthArgs,
}

impl EvaluationArgs {
    /// Overrides settings by the given flags.
    ///
    /// # Errors
    ///
    /// `--target` for texts, a number of sequences that is out of range, or `--sequences` without
    /// `--eval-lengths`.
    pub fn apply(
        &self,
        evaluation: &mut EvaluationConfig,
        data: &DataConfig,
    ) -> Result<(), UsageError> {
        if matches!(data, DataConfig::Text(_)) {
            let expected = "is not a flag of --task text, where many outputs are correct";
            reject("--target", self.target, expected)?;
        }
        evaluation.every = self.eval_every.or(evaluation.every);
        set(&mut evaluation.best_by, self.best_by);
        evaluation.target = self.target.or(evaluation.target);
        evaluation.patience = self.patience.or(evaluation.patience);
        if let Some(by_length) = self.lengths.config()? {
            evaluation.by_length = Some(by_length);
        }
        Ok(())
    }
}
