//! A run's checkpoints: written, and gone back to.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use transformer::weights;

use super::{Run, TrainingState};
use crate::checkpoint::{self, Files};
use crate::error::UsageError;
use crate::output;

impl Run<'_> {
    /// Goes back to a checkpoint.
    pub(super) fn resume(&mut self, files: &Files) -> Result<()> {
        let state = checkpoint::read_state(files)?;
        checkpoint::check_config(files, self.config)?;
        let read = |name: &str| checkpoint::read_parameters(files, name);
        let model = files.path(checkpoint::MODEL);
        let parameters = read(checkpoint::MODEL)?;
        let resumed = checkpoint::with_parameters(self.learner.model(), parameters, &model)?;
        self.learner.set_model(resumed);
        let shapes = weights::shapes(self.learner.model());
        let moments = read(checkpoint::OPTIMIZER)?;
        let unfit = |name: &str, error: weights::WeightsError| {
            UsageError::new("RUN", files.path(name).display(), error.to_string())
        };
        if state.updates > 0 {
            self.learner
                .optimizer_mut()
                .load_state(moments, state.updates, &shapes, &self.device)
                .map_err(|error| unfit(checkpoint::OPTIMIZER, error))?;
        }
        if let Some(average) = &mut self.average {
            average
                .load(read(checkpoint::AVERAGE)?, &self.device)
                .map_err(|error| unfit(checkpoint::AVERAGE, error))?;
        }
        if state.threads != self.state.threads {
            output::note(&format!(
                "warning: the run had {} threads and has {} now, so that losses may differ in their last digits; RAYON_NUM_THREADS={} repeats it exactly",
                state.threads, self.state.threads, state.threads
            ));
        }
        self.folder.rewind(state.metrics_bytes)?;
        self.checkpoints.remove_after(state.step)?;
        self.saved = Some(state.step);
        self.state = TrainingState {
            threads: self.state.threads,
            version: std::mem::take(&mut self.state.version),
            ..state
        };
        Ok(())
    }

    /// Writes a checkpoint, unless that of this step is there already.
    pub(super) fn save(&mut self) -> Result<PathBuf> {
        let step = self.state.step;
        self.read_losses()?;
        let path = self.checkpoints.path(step);
        if self.saved == Some(step) {
            return Ok(path);
        }
        let parameters = weights::parameters(self.learner.model());
        if let Some(name) = checkpoint::first_infinite(&parameters) {
            self.monitor.finish();
            bail!(
                "after step {step}, with learning rate {:.3e}, parameter {name} has numbers that are not finite: lower --factor, raise --warmup or set --clip-norm; {}",
                self.state.learning_rate,
                self.last_checkpoint()
            );
        }
        self.state.metrics_bytes = self.folder.sync()?;
        let mut files = vec![
            (checkpoint::MODEL, weights::to_bytes(&parameters)?),
            (
                checkpoint::OPTIMIZER,
                weights::to_bytes(&self.learner.optimizer().state())?,
            ),
            (checkpoint::STATE, serde_json::to_vec_pretty(&self.state)?),
            (checkpoint::CONFIG, serde_json::to_vec_pretty(self.config)?),
        ];
        if let Some(average) = &self.average {
            let parameters = weights::parameters(&average.module(self.learner.model()));
            files.push((checkpoint::AVERAGE, weights::to_bytes(&parameters)?));
        }
        self.checkpoints.save(step, &files)?;
        tracing::info!(path = %path.display(), "saved a checkpoint");
        let best = self.state.best.map(|best| best.step);
        self.checkpoints.prune(self.config.keep, best.as_slice())?;
        self.saved = Some(step);
        self.saved_at = Instant::now();
        Ok(path)
    }

    /// Where an error leaves the run.
    pub(super) fn last_checkpoint(&self) -> String {
        match self.saved {
            Some(step) => format!("the last checkpoint is of step {step}"),
            None => "there is no checkpoint".into(),
        }
    }
}
