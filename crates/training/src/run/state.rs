//! State of a training run, apart from its parameters and moments.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::loss_scale::LossScale;
use super::status::EndReason;
use crate::config::{BestBy, Precision, RunConfig};
use crate::files::Checksum;

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
    /// Seconds of these in which training waited for data.
    pub wait_seconds: f64,
    /// Seconds of these in which rank 0 exchanged gradients and parameters with other processes, or
    /// waited for them.
    pub exchange_seconds: f64,
    /// Number of updates of the optimizer. It is smaller than `step` if updates were skipped
    /// because gradients overflowed in f16.
    pub updates: usize,
    /// Value of the setting `optimization.steps` when training ended; `None` if training has not
    /// ended.
    pub ended_of: Option<usize>,
    /// Why training ended; `None` if it has not ended.
    pub end_reason: Option<EndReason>,
    /// Length and checksum of `metrics.jsonl` at this step.
    pub metrics: Checksum,
    /// The best evaluation so far; `None` before the first evaluation.
    pub best: Option<Best>,
    /// Number of evaluations after the best one.
    pub since_best: usize,
    /// Settings that had other values before the run was resumed with others.
    pub earlier: Vec<Earlier>,
    /// Loss scale of training in f16; `None` in other precisions.
    pub loss_scale: Option<LossScale>,
    /// Number of threads of the CPU backend, which affects the last bits of sums.
    pub threads: usize,
    /// Number of processes that train together, which also affects the last bits of sums.
    pub processes: usize,
    /// Version of the program that wrote the checkpoint.
    pub version: String,
}

/// A value that a setting had in the steps before the run was resumed with another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Earlier {
    /// Path of the setting.
    pub path: String,
    /// The earlier value.
    pub value: Value,
    /// Number of steps taken before the value changed.
    pub until: usize,
}

/// The best evaluation of a run on the validation split so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Metric that decides which evaluation is the best.
    pub by: BestBy,
    /// Number of steps taken before the evaluation.
    pub step: usize,
    /// Value of the metric in this evaluation.
    pub value: f64,
    /// Loss of this evaluation.
    pub loss: f64,
}

impl Best {
    /// Returns the name of the metric's field in `metrics.jsonl`.
    pub fn field(&self) -> &'static str {
        self.by.field()
    }

    /// Returns the step of the checkpoint that is the run's model, which every command uses unless
    /// it is told otherwise. The best evaluation chooses it; without an evaluation, it is the `last`
    /// one.
    pub(super) fn model_step(best: Option<Self>, last: usize) -> usize {
        best.map_or(last, |best| best.step)
    }

    /// Returns whether this evaluation is better than the best one before it. Of two evaluations
    /// with the same value of the metric, the one with the smaller loss is better.
    pub(super) fn improves(&self, before: Option<Self>) -> bool {
        before.map_or(!self.value.is_nan(), |before| {
            let by_metric = self.by.compare(self.value, before.value);
            let by_loss = BestBy::Loss.compare(self.loss, before.loss);
            by_metric.then(by_loss).is_gt()
        })
    }
}

impl TrainingState {
    /// Returns the state of a run before its first step, in a single process.
    pub fn new(config: &RunConfig) -> Self {
        Self {
            seed: config.seed,
            threads: rayon::current_num_threads(),
            processes: 1,
            loss_scale: (config.execution.precision == Precision::F16).then(LossScale::default),
            version: env!("CARGO_PKG_VERSION").into(),
            ..Self::default()
        }
    }

    /// Returns the step of the checkpoint that is the run's model: that of the best evaluation, or
    /// the last one if there was none.
    pub fn model_step(&self) -> usize {
        Best::model_step(self.best, self.step)
    }

    /// Records an evaluation after the last step, in which the metric `by` has the value `value`.
    /// Returns whether it is the best so far.
    pub fn evaluated(&mut self, by: BestBy, value: f64, loss: f64) -> bool {
        let step = self.step;
        let evaluated = Best {
            by,
            step,
            value,
            loss,
        };
        let is_best = evaluated.improves(self.best);
        if is_best {
            self.best = Some(evaluated);
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
    fn the_model_is_that_of_the_best_evaluation_or_else_the_last() {
        let run = |by, values: &[f64], losses: [f64; 4]| {
            let mut state = TrainingState {
                step: 7,
                ..TrainingState::default()
            };
            for (i, &value) in values.iter().enumerate() {
                state.step = 10 * (i + 1);
                state.evaluated(by, value, losses[i]);
            }
            (state.model_step(), state.since_best)
        };
        let falls = [3.0, 2.0, 1.0, 0.5];
        let rises = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(run(BestBy::Loss, &[3.0, 2.0, 2.0, 4.0], [2.0; 4]), (20, 2));
        assert_eq!(run(BestBy::ExactMatch, &[0.1, 0.9, 0.9], rises), (20, 1));
        assert_eq!(run(BestBy::Bleu, &[0.0, 0.0, 0.0, 0.0], falls), (40, 0));
        assert_eq!(run(BestBy::Bleu, &[9.0, 8.0, 7.0, 9.0], rises), (10, 3));
        assert_eq!(run(BestBy::Loss, &[f64::NAN, 5.0], rises), (20, 0));
        assert_eq!(run(BestBy::Loss, &[], rises), (7, 0));
    }

    #[test]
    fn a_state_survives_a_round_trip_through_json() {
        let mut state = TrainingState::default();
        state.evaluated(BestBy::ExactMatch, 1.0 / 3.0, 2.0 / 3.0);
        let json = serde_json::to_string(&state).unwrap();
        let mut read: TrainingState = serde_json::from_str(&json).unwrap();
        assert_eq!(read, state);
        assert!(!read.evaluated(BestBy::ExactMatch, 1.0 / 3.0, 2.0 / 3.0));
    }
}
