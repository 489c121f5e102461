//! A run whose training has ended, and its summary.

use std::path::PathBuf;

use fused::FastPaths;

use crate::config::RunConfig;
use crate::evaluation::TestResult;
use crate::memory::peak_rss_bytes;
use crate::model::SequenceModel;
use crate::run::environment::{self, Environment};
use crate::run::{RunFolder, Summary, TrainingState};

/// How a run ended.
pub enum Ending<M> {
    /// All steps were taken, or training ended early as the configuration asks.
    Done(Box<Finished<M>>),
    /// The observer stopped the run; it can be resumed from a checkpoint.
    Stopped {
        /// What the observer named, such as `SIGINT`.
        by: &'static str,
        /// Number of steps taken.
        step: usize,
        /// The checkpoint's folder.
        checkpoint: PathBuf,
    },
}

/// A run whose training has ended.
pub struct Finished<M> {
    /// The trained model, without gradients: the moving average where the run has one, the best
    /// model if training ended because no evaluation was better.
    pub model: M,
    /// Step of the model: that of the last step, or that of the best evaluation.
    pub model_step: usize,
    /// State of the run at its last step.
    pub state: TrainingState,
    /// Fraction of the training time that was spent waiting for data.
    pub data_wait: f64,
    /// The run's folder. The run counts as unfinished until [`RunFolder::finish`], so that it can
    /// be resumed if the process ends before.
    pub folder: RunFolder,
    /// Keeps the run's setting of the fast paths for the evaluation of the model on this thread.
    pub(super) _fast_paths: FastPaths,
}

impl<M: SequenceModel> Finished<M> {
    /// Returns the contents of `summary.json`.
    pub fn summary(&self, config: &RunConfig, test: &TestResult) -> Summary {
        let train_seconds = self.state.train_seconds;
        Summary {
            task: config.data.name().into(),
            backend: config.execution.backend.clone(),
            parameters: self.model.num_params(),
            steps: self.state.step,
            train_seconds,
            exact_match: test.exact_match,
            test_sequences: test.decoded.len(),
            token_accuracy: test.token_accuracy,
            valid_loss: test.valid_loss,
            bleu: test.texts.map(|scores| scores.bleu),
            chrf: test.texts.map(|scores| scores.chrf),
            data_wait: self.data_wait,
            tokens_per_second: self.state.tokens as f64 / train_seconds,
            peak_rss_bytes: peak_rss_bytes(),
            seed: config.seed,
            reason: self.state.end_reason.as_ref().map(ToString::to_string),
            date: environment::now(),
            environment: match self.folder.environment() {
                Some(environment) => environment.clone(),
                None => Environment::current(),
            },
        }
    }
}
