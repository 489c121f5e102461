//! State of a training run, apart from its parameters and moments.

use serde::{Deserialize, Serialize};

use super::loss_scale::LossScale;
use super::metrics_log::MetricsPosition;
use super::status::EndReason;
use crate::config::BestBy;

/// Progress of a training run: `state.json` of a checkpoint.
///
/// Besides this state, a step depends only on the parameters, the moments, the configuration and
/// the data set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingState {
    /// Number of steps taken.
    pub step: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Learning rate of the last step.
    pub learning_rate: f64,
    /// Number of target tokens trained on, without padding.
    pub tokens: u64,
    /// Seconds of training, without evaluations.
    pub train_seconds: f64,
    /// Number of updates of the optimizer. It is smaller than `step` if updates were skipped
    /// because gradients overflowed in f16.
    pub updates: usize,
    /// Value of the setting `optimization.steps` when training ended; `None` if training has not
    /// ended.
    pub ended_of: Option<usize>,
    /// Why training ended; `None` if it has not ended.
    pub end_reason: Option<EndReason>,
    /// Length and checksum of `metrics.jsonl` at this step.
    pub metrics: MetricsPosition,
    /// The best evaluation so far; `None` before the first evaluation.
    pub best: Option<Best>,
    /// Number of evaluations after the best one.
    pub since_best: usize,
    /// Loss scale of training in f16; `None` in other precisions.
    pub loss_scale: Option<LossScale>,
    /// Number of threads of the CPU backend, which affects the last bits of sums.
    pub threads: usize,
    /// Number of processes that train together, which also affects the last bits of sums.
    pub processes: usize,
    /// Version of the program that wrote the checkpoint.
    pub version: String,
}

/// The best evaluation of a run so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Number of steps taken before the evaluation.
    pub step: usize,
    /// Value of the run's metric, [`BestBy`], in this evaluation.
    pub value: f64,
}

impl Best {
    /// Returns whether `value` is better than the best value so far, of which there is none before
    /// the first evaluation.
    pub(super) fn is_improved(best: Option<Self>, by: BestBy, value: f64) -> bool {
        best.map_or(!value.is_nan(), |best| by.is_better(value, best.value))
    }
}

impl TrainingState {
    /// Records an evaluation, in which the metric `by` has the value `value`. Returns whether it is
    /// the best so far.
    pub fn evaluated(&mut self, by: BestBy, value: f64) -> bool {
        let is_best = Best::is_improved(self.best, by, value);
        if is_best {
            let step = self.step;
            self.best = Some(Best { step, value });
            self.since_best = 0;
        } else {
            self.since_best += 1;
        }
        is_best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_evaluation_is_the_first_of_the_best_value() {
        let run = |by, values: &[f64]| {
            let mut state = TrainingState::default();
            for (i, &value) in values.iter().enumerate() {
                state.step = 10 * (i + 1);
                state.evaluated(by, value);
            }
            (state.best.map(|best| best.step), state.since_best)
        };
        assert_eq!(run(BestBy::Loss, &[3.0, 2.0, 2.0, 4.0]), (Some(20), 2));
        assert_eq!(run(BestBy::ExactMatch, &[0.1, 0.9, 0.9]), (Some(20), 1));
        assert_eq!(run(BestBy::Loss, &[f64::NAN, 5.0]), (Some(20), 0));
        assert_eq!(run(BestBy::Loss, &[]), (None, 0));
    }

    #[test]
    fn a_state_survives_a_round_trip_through_json() {
        let mut state = TrainingState::default();
        state.evaluated(BestBy::ExactMatch, 1.0 / 3.0);
        let json = serde_json::to_string(&state).unwrap();
        let mut read: TrainingState = serde_json::from_str(&json).unwrap();
        assert_eq!(read, state);
        assert!(!read.evaluated(BestBy::ExactMatch, 1.0 / 3.0));
    }
}
