//! A run whose training has ended, and the summary of its results.

use std::path::PathBuf;

use burn::module::Module;
use fused::FastPaths;
use transformer::Transformer;

use crate::config::RunConfig;
use crate::evaluation::TestResult;
use crate::memory::peak_rss_bytes;
use crate::run::environment::{self, Environment};
use crate::run::{RunFolder, Summary, TrainingState};

/// How the training of a run ended.
pub enum Ending {
    /// All steps were taken, or training ended early as the configuration asks.
    Done(Box<Finished>),
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
pub struct Finished {
    /// The run's model, without gradients: that of the best evaluation. If its checkpoint cannot be
    /// read, the last model takes its place. The parameters are the moving averages if the run has
    /// them.
    pub model: Transformer,
    /// Step after which the model was taken.
    pub model_step: usize,
    /// State of the run at its last step.
    pub state: TrainingState,
    /// Fraction of this process's training time that was spent waiting for data.
    pub data_wait: f64,
    /// Fraction of this process's training time in which it exchanged gradients and parameters with
    /// others, or waited for them.
    pub communication: f64,
    /// Folder of the run. Until [`RunFolder::finish`] is called, the run counts as unfinished and
    /// can be resumed.
    pub folder: RunFolder,
    /// Guard that keeps the run's setting of the fast paths (the kernels of `fused`) on this thread
    /// while the model is evaluated.
    pub(super) _fast_paths: FastPaths,
}

impl Finished {
    /// Returns the contents of `summary.json`.
    pub fn summary(&self, config: &RunConfig, test: &TestResult) -> Summary {
        let train_seconds = self.state.train_seconds;
        Summary {
            task: config.data.name().into(),
            backend: config.execution.backend.clone(),
            parameters: self.model.num_params(),
            steps: self.state.step,
            model_step: self.model_step,
            train_seconds,
            split: test.split,
            sequences: test.decoded.len(),
            exact_match: test.exact_match,
            token_accuracy: test.token_accuracy,
            valid_loss: test.valid_loss,
            texts: test.texts,
            data_wait: self.data_wait,
            processes: self.state.processes,
            communication: (self.state.processes > 1).then_some(self.communication),
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
