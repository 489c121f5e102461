//! Metrics by which runs are compared.

use serde::{Serialize, Serializer};
use training::run::Overview;

/// Names and values of the metrics that a run has, in the order in which they are shown.
#[derive(Clone, Debug)]
pub(super) struct Metrics(Vec<(&'static str, f64)>);

impl Metrics {
    /// Names of all metrics, in the order in which they are shown.
    pub(super) const NAMES: [&'static str; 18] = [
        "steps",
        "seconds",
        "parameters",
        "tokens_per_second",
        "train_loss",
        "valid_loss",
        "valid_token_accuracy",
        "valid_exact_match",
        "valid_bleu",
        "valid_chrf",
        "best_valid_loss",
        "best_exact_match",
        "best_bleu",
        "best_step",
        "test_token_accuracy",
        "test_exact_match",
        "test_bleu",
        "test_chrf",
    ];

    /// Returns the metrics of a run.
    ///
    /// Scores of the trained model come from `summary.json`, which says on which split the model
    /// was scored. Other metrics, and some that this file lacks, come from the last step, or from
    /// the last or best evaluation.
    pub(super) fn of(run: &Overview) -> Self {
        let best = run.best.as_ref();
        let best_by = |field| {
            best.filter(|best| best.field() == field)
                .map(|best| best.value)
        };
        let scored =
            |split: &str, field: &str| run.result(field).filter(|_| run.scored_split() == split);
        let value = |name: &str| match name {
            "steps" => Some(run.step as f64),
            "seconds" => run.seconds,
            "parameters" => run.result(name),
            "tokens_per_second" => run.result(name).or(run.last(name)),
            "train_loss" => run.last("loss"),
            "valid_loss" => run.result(name).or(run.last(name)),
            "best_valid_loss" => best_by("valid_loss"),
            "best_exact_match" => best_by("exact_match"),
            "best_bleu" => best_by("bleu"),
            "best_step" => best.map(|best| best.step as f64),
            _ => match name.split_once('_') {
                Some(("valid", field)) => scored("validation", field).or(run.last(field)),
                Some(("test", field)) => scored("test", field),
                _ => unreachable!("{name} is no metric"),
            },
        };
        let has = |name: &'static str| value(name).map(|value| (name, value));
        Self(Self::NAMES.into_iter().filter_map(has).collect())
    }

    /// Returns the value of a metric; `None` if the run does not have it.
    pub(super) fn get(&self, name: &str) -> Option<f64> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}
