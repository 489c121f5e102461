//! What a checkpoint holds besides parameters and moments.

use serde::{Deserialize, Serialize};

use super::precision::LossScale;

/// How far a run has come: `state.json` of a checkpoint. Everything else that a step depends on is
/// a function of the configuration and the number of the step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainingState {
    /// Steps taken.
    pub step: usize,
    /// Seed of the run, from which come data and dropout.
    pub seed: u64,
    /// Learning rate of the last step.
    pub learning_rate: f64,
    /// Target tokens learned from.
    pub tokens: u64,
    /// Seconds of training, without evaluations.
    pub train_seconds: f64,
    /// Updates of the optimiser; fewer than steps where f16 has skipped some.
    pub updates: usize,
    /// Training has ended, of as many steps as were asked for then.
    pub ended_of: Option<usize>,
    /// Length of `metrics.jsonl` at this step.
    pub metrics_bytes: u64,
    /// The best evaluation so far.
    pub best: Option<Best>,
    /// Evaluations since the best one.
    pub since_best: usize,
    /// What the loss is multiplied by, in f16.
    #[serde(default)]
    pub loss_scale: Option<LossScale>,
    /// Threads of the CPU backend, on which the last bits of a sum depend.
    pub threads: usize,
    /// Version of the program.
    pub version: String,
}

/// An evaluation that no other has surpassed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// After this step.
    pub step: usize,
    /// Validation loss, exact match or BLEU, whichever the run goes by.
    pub value: f64,
}

/// What makes an evaluation the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum BestBy {
    /// The smallest validation loss
    #[default]
    Loss,
    /// The largest exact match on the validation split
    ExactMatch,
    /// The largest BLEU on the validation split; of --task text
    Bleu,
}

impl BestBy {
    /// Whether `value` surpasses the best so far.
    fn is_better(self, value: f64, best: f64) -> bool {
        match self {
            Self::Loss => value < best,
            Self::ExactMatch | Self::Bleu => value > best,
        }
    }
}

impl TrainingState {
    /// Counts an evaluation; true if it is the best so far.
    pub fn evaluated(&mut self, by: BestBy, value: f64) -> bool {
        // As many digits as JSON gives back exactly.
        let value = (value * 1e9).round() / 1e9;
        let is_best = match self.best {
            None => !value.is_nan(),
            Some(best) => by.is_better(value, best.value),
        };
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
    fn the_best_evaluation_is_the_first_that_no_other_surpasses() {
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
    fn a_state_goes_there_and_back() {
        let mut state = TrainingState::default();
        state.evaluated(BestBy::ExactMatch, 1.0 / 3.0);
        let json = serde_json::to_string(&state).unwrap();
        let mut read: TrainingState = serde_json::from_str(&json).unwrap();
        assert_eq!(read, state);
        assert!(!read.evaluated(BestBy::ExactMatch, 1.0 / 3.0));
    }
}
