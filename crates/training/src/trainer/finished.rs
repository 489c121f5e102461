//! A run whose training has ended, and the summary of its results.

use std::path::PathBuf;

use burn::module::Module;
use fused::FastPaths;
use transformer::Transformer;
use transformer::generate::GenerateError;

use crate::collective::Collective;
use crate::config::RunConfig;
use crate::data::Dataset;
use crate::evaluation::{self, TestResult};
use crate::memory::peak_rss_bytes;
use crate::run::environment::{self, Environment};
use crate::run::{RunFolder, Summary, TrainingState};

/// How the training of a run ended.
pub enum Ending<'a> {
    /// All steps were taken, or training ended early as the configuration asks.
    Done(Box<Finished<'a>>),
    /// The observer stopped the run, which can be resumed from `checkpoint`.
    Stopped {
        /// Cause that the observer returned, such as `SIGINT`. In a group, the observer of another
        /// process may have returned it.
        by: String,
        /// Number of steps taken.
        step: usize,
        /// Folder of the checkpoint.
        checkpoint: PathBuf,
    },
}

/// A run whose training has ended.
pub struct Finished<'a> {
    /// The run's model, without gradients: that of the best evaluation. If its checkpoint cannot be
    /// read, the last model takes its place. The parameters are the moving averages if the run has
    /// them.
    pub model: Transformer,
    /// Step after which the model was taken.
    pub model_step: usize,
    /// State of the run at its last step.
    pub state: TrainingState,
    /// Folder of the run. Until [`RunFolder::finish`] is called, the run counts as unfinished and
    /// can be resumed.
    pub folder: RunFolder,
    /// Settings of the run.
    pub config: &'a RunConfig,
    /// Data set of the run.
    pub dataset: &'a dyn Dataset,
    /// Processes that trained the run.
    pub group: &'a dyn Collective,
    /// Guard that keeps the run's setting of the fast paths (the kernels of `fused`) on this thread
    /// while the model is evaluated.
    pub(super) _fast_paths: FastPaths,
}

impl Finished<'_> {
    /// Evaluates the model on the test split of its run, and measures its loss on the validation split.
    /// A data set without a test split is evaluated on its validation split.
    ///
    /// Each process of a group decodes a part of the examples, and gets the result for all of them.
    ///
    /// # Errors
    ///
    /// The model cannot process an example, or its logits are not finite.
    pub fn test(&self) -> Result<TestResult, GenerateError> {
        evaluation::test(&self.model, self.dataset, self.config, self.group)
    }

    /// Returns the contents of `summary.json`.
    pub fn summary(&self, test: &TestResult) -> Summary {
        let config = self.config;
        let train_seconds = self.state.train_seconds;
        let share = |seconds: f64| {
            if seconds > 0.0 {
                seconds / train_seconds
            } else {
                0.0
            }
        };
        let environment = self.folder.environment().cloned();
        Summary {
            task: config.data.name().into(),
            backend: config.execution.backend.clone(),
            parameters: self.model.num_params(),
            steps: self.state.step,
            model_step: self.model_step,
            train_seconds,
            split: test.split,
            sequences: test.decoded.len(),
            exact_match: test.scores.exact_match,
            token_accuracy: test.scores.token_accuracy,
            valid_loss: test.valid_loss,
            texts: test.scores.texts,
            data_wait: share(self.state.wait_seconds),
            processes: self.state.processes,
            communication: (self.state.processes > 1).then(|| share(self.state.exchange_seconds)),
            tokens_per_second: self.state.tokens as f64 / train_seconds,
            peak_rss_bytes: peak_rss_bytes(),
            seed: config.seed,
            reason: self.state.end_reason.as_ref().map(ToString::to_string),
            date: environment::now(),
            environment: environment.unwrap_or_else(Environment::current),
        }
    }
}
