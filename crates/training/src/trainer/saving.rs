//! Saves checkpoints of a run in training, resumes from them, and returns the model at the end.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use burn::module::Module;
use fused::FastPaths;
use transformer::{Transformer, weights};

use super::division::Division;
use super::finished::Finished;
use super::setup::Trainer;
use crate::error::UsageError;
use crate::notes;
use crate::number::counted;
use crate::run::checkpoint::{self, Content, LoadedCheckpoint};
use crate::run::{Earlier, EndReason, Event, Observer, TrainingState, unusable};
use crate::setting::{shown, value_at};

impl<'a> Trainer<'a> {
    /// Returns to the state of a checkpoint of this run.
    ///
    /// # Errors
    ///
    /// If the checkpoint is damaged, or does not fit the configuration or the model, or if the
    /// folder cannot be written. In the first two cases, the folder is unchanged.
    pub fn resume(&mut self, files: &LoadedCheckpoint) -> Result<()> {
        let mut state = checkpoint::read_state(files).map_err(UsageError::from)?;
        let changed = checkpoint::check_config(files, self.config)?.into_iter();
        // What changes before the first step was never used.
        for (path, value) in changed.filter(|_| state.step > 0) {
            let now = value_at(&self.config.to_json(), &path).map_or("-".into(), shown);
            let (then, until) = (shown(&value), state.step);
            notes::note(&format!(
                "{path} was {then} until step {until}, and is {now} now"
            ));
            state.earlier.push(Earlier { path, value, until });
        }
        let model = self.learner.model();
        self.learner.model = Some(checkpoint::restored(model, files, checkpoint::MODEL)?);
        let model = self.learner.model();
        let moments = checkpoint::read_parameters(files, checkpoint::OPTIMIZER)?;
        if state.updates > 0 {
            let (shapes, division) = (weights::shapes(model), Division::of(self.group, model));
            let device = model.devices().remove(0);
            let optimizer = &mut self.learner.optimizer;
            let loaded = optimizer.load_state(moments, state.updates, &shapes, &device, division);
            let path = files.path(checkpoint::OPTIMIZER);
            loaded.map_err(|error| unusable(&path, error.to_string()))?;
        }
        if let Some(average) = &mut self.learner.average {
            average.module = checkpoint::restored(&average.module, files, checkpoint::AVERAGE)?;
        }
        let (threads, processes) = (self.state.threads, self.state.processes);
        for (then, now, what, again) in [
            (state.threads, threads, "thread", "--threads "),
            (state.processes, processes, "process", "mpirun -np "),
        ] {
            if then != now {
                let had = counted(then, what);
                notes::warn(&format!(
                    "the run had {had} and has {now} now, so that losses may differ in their last digits; {again}{then} repeats it exactly"
                ));
            }
        }
        let best = state.best.filter(|best| best.step != state.step);
        if let Some(best) = best
            && let Err(error) = checkpoint::at_step(&self.checkpoints, best.step)
        {
            let what = "the best model is lost, and later evaluations choose another";
            notes::warn(&format!("{error}; {what}"));
            state.best = None;
        }
        self.saved = Some(state.step);
        self.learner.exchange_seconds = state.exchange_seconds;
        self.read_at = state.train_seconds;
        self.state = TrainingState {
            threads,
            processes,
            version: std::mem::take(&mut self.state.version),
            ..state
        };
        // Rank 0 must not change the checkpoints while another process reads them.
        self.group.barrier();
        if self.group.is_first() {
            self.folder.rewind(&self.state.metrics, self.state.step)?;
            self.checkpoints.remove_after(self.state.step)?;
            // The process that saved the checkpoint may have been killed before it removed older
            // ones.
            self.prune()?;
        }
        Ok(())
    }

    /// Lets a resumed run take more steps, although it has ended early. Its patience begins anew.
    pub fn go_on(&mut self) {
        let state = &mut self.state;
        if let (Some(_), Some(EndReason::OutOfPatience { .. })) =
            (state.ended_of.take(), &state.end_reason)
        {
            state.since_best = 0;
        }
    }

    /// Writes a checkpoint, unless this step has one already, and returns the checkpoint's folder.
    ///
    /// In a group, only rank 0 writes, but all processes must call this method after the same step,
    /// because each has moments that rank 0 needs.
    pub(super) fn save(&mut self, observer: &mut dyn Observer) -> Result<PathBuf> {
        let step = self.state.step;
        self.read_losses(observer)?;
        let path = self.checkpoints.path(step);
        if self.saved == Some(step) {
            return Ok(path);
        }
        let moments = self.learner.optimizer.state(self.group);
        if !self.group.is_first() {
            (self.saved, self.saved_at) = (Some(step), Instant::now());
            return Ok(path);
        }
        let parameters = weights::parameters(self.learner.model());
        if let Some(name) = checkpoint::first_infinite(&parameters) {
            return Err(self.diverged(format!(
                "after step {step}, with learning rate {:.3e}, parameter {name} has elements that are not finite",
                self.state.learning_rate,
            )));
        }
        self.state.metrics = self.folder.sync()?;
        let state = serde_json::to_vec_pretty(&self.state)?;
        let config = serde_json::to_vec_pretty(self.config)?;
        let average = self.learner.average.as_ref();
        let average = average.map(|average| weights::parameters(&average.module));
        let mut files = vec![
            (checkpoint::MODEL, Content::Parameters(&parameters)),
            (checkpoint::OPTIMIZER, Content::Parameters(&moments)),
            (checkpoint::STATE, Content::Bytes(&state)),
            (checkpoint::CONFIG, Content::Bytes(&config)),
        ];
        let average = average.as_ref().map(Content::Parameters);
        files.extend(average.map(|average| (checkpoint::AVERAGE, average)));
        self.checkpoints.save(step, &files)?;
        tracing::info!(path = %path.display(), "saved a checkpoint");
        self.prune()?;
        self.saved = Some(step);
        self.saved_at = Instant::now();
        self.folder.record_progress(step, None)?;
        observer.event(Event::Checkpoint { step })?;
        Ok(path)
    }

    /// Removes the checkpoints that the configuration does not keep.
    fn prune(&self) -> Result<()> {
        let best = self.state.best.map(|best| best.step);
        let keep = self.config.checkpointing.keep;
        self.checkpoints.prune(keep, best.as_slice())
    }

    /// Returns the finished run.
    pub(super) fn finish(self, fast_paths: FastPaths) -> Finished<'a> {
        let best = self.best_model();
        let has_failed = self.group.any(best.is_err());
        let best = best.unwrap_or_else(|error| {
            notes::warn(&format!("{error}; the last model is used"));
            None
        });
        // All processes must test the same model.
        let best = best.filter(|_| !has_failed);
        let last = || (self.state.step, self.learner.evaluated_model());
        let (model_step, model) = best.unwrap_or_else(last);
        Finished {
            model,
            model_step,
            state: self.state,
            folder: self.folder,
            config: self.config,
            dataset: self.dataset,
            group: self.group,
            _fast_paths: fast_paths,
        }
    }

    /// Returns the run's model and its step; `None` if it is the last one.
    fn best_model(&self) -> Result<Option<(usize, Transformer)>> {
        let last = self.state.step;
        if self.state.model_step() == last {
            return Ok(None);
        }
        let (step, files) = checkpoint::of_model(&self.checkpoints)?;
        if step == last {
            return Ok(None);
        }
        let name = match self.learner.average {
            Some(_) => checkpoint::AVERAGE,
            None => checkpoint::MODEL,
        };
        let model = checkpoint::restored(&self.learner.model().valid(), &files, name)?;
        Ok(Some((step, self.learner.computing(model))))
    }
}
