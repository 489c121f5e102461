//! The training loop.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use super::finished::Ending;
use super::prefetcher::Prefetcher;
use super::setup::Trainer;
use crate::run::{EndReason, Event, Observer};

/// Default number of steps between two evaluations, for data sets without epochs.
const EVALUATE_EVERY: usize = 100;

/// Maximum default number of steps between two evaluations, for data sets with epochs.
const LONGEST_EPOCH: usize = 5000;

/// Maximum number of steps between two readings of losses. Each reading makes the host wait for the
/// device.
const READ_EVERY: usize = 10;

/// Seconds of training after which losses are read even before `READ_EVERY` steps.
const READ_AFTER: f64 = 1.0;

/// What stopped a run, such as `SIGINT`, and the folder of the checkpoint to resume from.
type Stop = (String, PathBuf);

impl<'a> Trainer<'a> {
    /// Trains until all steps are taken, training ends early as configured, or the observer stops
    /// the run.
    ///
    /// # Errors
    ///
    /// If the loss, the gradient, a parameter or an output is not finite
    /// ([`DivergedError`](crate::error::DivergedError)), if a validation example does not fit the
    /// model, if the processes of a group differ in their settings, parameters or steps, if the
    /// folder cannot be written, or if the observer returns an error.
    pub fn train(mut self, observer: &mut dyn Observer) -> Result<Ending<'a>> {
        let fast_paths = self.config.execution.fast_paths();
        let trained = self.train_steps(observer);
        let stop = trained.map_err(|error| self.folder.record_failure(error))?;
        let Some((by, checkpoint)) = stop else {
            let finished = self.finish(fast_paths);
            return Ok(Ending::Done(Box::new(finished)));
        };
        self.folder.record_stop(&by)?;
        let step = self.state.step;
        Ok(Ending::Stopped {
            by,
            step,
            checkpoint,
        })
    }

    /// Takes the remaining steps, while the prefetcher makes batches in its own thread. Returns
    /// what stopped the run, or `None` if training has ended.
    fn train_steps(&mut self, observer: &mut dyn Observer) -> Result<Option<Stop>> {
        // Without a checkpoint, training starts at step 0, and `metrics.jsonl` is emptied.
        if self.saved.is_none() {
            self.folder.rewind(&self.state.metrics, 0)?;
        }
        let (config, dataset) = (self.config, self.dataset);
        let (first, steps) = (self.state.step, config.optimization.steps);
        // The check waits for the other processes, which may still be reading a checkpoint that
        // training will remove.
        self.check_replicas()?;
        // `config.json` is replaced only now, after `resume` has checked that the checkpoint fits.
        self.folder.begin_again(config, first)?;
        observer.event(Event::Begin {
            first,
            steps,
            evaluate_every: self.evaluate_every(),
            epoch: self.epoch(),
        })?;
        self.tell_best(observer)?;
        // A model that is trained already competes with those of later evaluations.
        let is_trained = self.saves_first || self.saved.is_some();
        if first == 0 && is_trained {
            if self.state.best.is_none() {
                self.evaluate(observer)?;
                self.save(observer)?;
            }
            self.folder.record_origin(None)?;
        }
        let stop = std::thread::scope(|scope| {
            // Dropping the prefetcher ends its thread, whether training succeeds or fails.
            let prefetcher = Prefetcher::start(scope, dataset, config, first..steps);
            self.take_steps(&prefetcher, observer)
        });
        let ended = observer.event(Event::End);
        let stop = stop?;
        if stop.is_none() {
            ended?;
        }
        Ok(stop)
    }

    /// Takes the remaining steps. If the observer stopped the run, even after the last step, returns
    /// the cause and the checkpoint; otherwise `None`.
    fn take_steps(
        &mut self,
        prefetcher: &Prefetcher,
        observer: &mut dyn Observer,
    ) -> Result<Option<Stop>> {
        let config = self.config;
        let steps = config.optimization.steps;
        let every = self.evaluate_every();
        while self.state.step < steps && self.state.ended_of != Some(steps) {
            self.step(prefetcher, observer)?;
            let step = self.state.step;
            let is_last = step == steps;
            let (mut is_best, mut end) = (false, None);
            // The last step is always evaluated, because evaluations choose the run's model.
            if step.is_multiple_of(every) || is_last {
                (is_best, end) = self.evaluate(observer)?;
            }
            if is_last && end.is_none() {
                end = Some(EndReason::AllSteps { steps });
            }
            let has_ended = end.is_some();
            self.state.ended_of = has_ended.then_some(steps);
            self.state.end_reason = end;
            let (every, seconds) = (config.checkpointing.every, config.checkpointing.seconds);
            let is_regular = every.is_some_and(|every| step.is_multiple_of(every));
            let unsaved = self.saved_at.elapsed().as_secs_f64();
            let is_late = seconds.is_some_and(|seconds| unsaved >= seconds);
            let (stopped_by, is_late) = self.agreed(observer.wants_to_stop(), is_late);
            if has_ended || is_best || stopped_by.is_some() || is_regular || is_late {
                let path = self.save(observer)?;
                if let (Some(by), false) = (stopped_by, has_ended) {
                    return Ok(Some((by, path)));
                }
            }
        }
        self.save(observer)?;
        // After the barrier, the best checkpoint is complete, and every process may read it.
        self.group.barrier();
        let step = self.state.step;
        self.folder
            .record_progress(step, self.state.end_reason.as_ref())?;
        if let Some(reason) = &self.state.end_reason {
            observer.event(Event::Trained { step, reason })?;
        }
        // The test of the model can take long. A resumed run makes up for it.
        let (stopped_by, _) = self.agreed(observer.wants_to_stop(), false);
        Ok(stopped_by.map(|by| (by, self.checkpoints.path(step))))
    }

    /// Returns what stops the run, or `None` if it continues, and whether a checkpoint is overdue.
    ///
    /// `asked` is what stops this process; `None` if it should continue. `is_late` says whether a
    /// checkpoint is overdue by the clock of this process. A group stops if any of its processes
    /// should stop. Rank 0 decides whether a checkpoint is overdue, because the clocks of the
    /// processes differ, and all must save after the same step.
    fn agreed(&self, asked: Option<&'static str>, is_late: bool) -> (Option<String>, bool) {
        let own = (asked.map(String::from), is_late);
        let all = self.group.gather_values(&own);
        let (_, is_late) = all[0];
        (all.into_iter().find_map(|(asked, _)| asked), is_late)
    }

    /// Returns the number of steps in an epoch; `None` if the data set has no epochs.
    fn epoch(&self) -> Option<usize> {
        let batches = self.dataset.batches_per_epoch()?;
        Some(batches.div_ceil(self.config.optimization.accumulate))
    }

    /// Returns the number of steps between two evaluations. The default is the length of an epoch,
    /// but at most `LONGEST_EPOCH` steps; for data sets without epochs, it is `EVALUATE_EVERY`
    /// steps.
    fn evaluate_every(&self) -> usize {
        let epoch = self.epoch().map(|steps| steps.min(LONGEST_EPOCH));
        let default = epoch.unwrap_or(EVALUATE_EVERY);
        self.config.evaluation.every.unwrap_or(default)
    }

    fn step(&mut self, prefetcher: &Prefetcher, observer: &mut dyn Observer) -> Result<()> {
        let config = self.config;
        let steps = config.optimization.steps;
        let begun = Instant::now();
        let step = self.state.step + 1;
        let examples = prefetcher.next_step()?;
        self.state.wait_seconds += begun.elapsed().as_secs_f64();
        let scale = self.state.loss_scale.as_mut();
        let learner = &mut self.learner;
        let taken = learner.take_step(config, step, examples, scale, self.group);
        self.state.step = step;
        self.state.updates += usize::from(!taken.skipped);
        self.state.learning_rate = taken.learning_rate;
        self.state.tokens += taken.tokens as u64;
        self.state.exchange_seconds = self.learner.exchange_seconds;
        self.state.train_seconds += begun.elapsed().as_secs_f64();
        let seconds = self.state.train_seconds;
        self.pending.push((taken, seconds));
        let is_late = seconds - self.read_at >= READ_AFTER;
        // In a group, the host waits for the device at each step anyway, to exchange gradients. All
        // processes must read losses after the same step, because a loss that is not finite ends
        // every process.
        if step.is_multiple_of(READ_EVERY) || is_late || step == steps || self.group.size() > 1 {
            self.read_losses(observer)?;
        }
        observer.event(Event::Step { step })
    }
}
