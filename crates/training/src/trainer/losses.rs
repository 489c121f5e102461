//! Reads losses from the device, often some steps after they were computed, and ends runs that
//! diverge.

use std::time::Instant;

use anyhow::Result;

use super::setup::Trainer;
use crate::config::OptimizerConfig;
use crate::error::DivergedError;
use crate::run::{Event, Observer, StepMetrics};

impl Trainer<'_> {
    /// Waits for the losses of the pending steps, logs them, and passes them to the observer. The
    /// wait counts as training time.
    pub(super) fn read_losses(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let begun = Instant::now();
        let pending = std::mem::take(&mut self.pending).into_iter();
        let read = pending.map(|(taken, seconds)| StepMetrics {
            step: taken.step,
            loss: taken.loss.into_scalar(),
            learning_rate: taken.learning_rate,
            gradient_norm: taken.gradient_norm.into_scalar(),
            tokens: taken.tokens,
            padding: taken.padding,
            seconds,
            tokens_per_second: 0.0,
            skipped: taken.skipped,
        });
        let mut read: Vec<StepMetrics> = read.collect();
        let Some(last) = read.last_mut() else {
            return Ok(());
        };
        self.state.train_seconds += begun.elapsed().as_secs_f64();
        last.seconds = self.state.train_seconds;
        let tokens: usize = read.iter().map(|metrics| metrics.tokens).sum();
        let tokens_per_second = tokens as f64 / (self.state.train_seconds - self.read_at);
        self.read_at = self.state.train_seconds;
        for mut metrics in read {
            metrics.tokens_per_second = tokens_per_second;
            self.folder.event(Event::Metrics(&metrics))?;
            observer.event(Event::Metrics(&metrics))?;
            let is_finite = metrics.skipped || metrics.gradient_norm.is_finite();
            if !metrics.loss.is_finite() || !is_finite {
                self.folder.flush()?;
                let (loss, norm) = (metrics.loss, metrics.gradient_norm);
                let cause = ["loss", "gradient norm"][usize::from(loss.is_finite())];
                let what = format!(
                    "the {cause} is not finite at step {}, with learning rate {:.3e}, loss {loss:.3e} and gradient norm {norm:.3e}",
                    metrics.step, metrics.learning_rate
                );
                return Err(self.diverged(what));
            }
            // The loss of a step is computed with the parameters before the step. The first loss
            // after a checkpoint is therefore the loss of the checkpoint's parameters, and shows
            // that they give a finite loss.
            if self.saved.is_some_and(|saved| saved < metrics.step) {
                self.proven = self.saved;
            }
        }
        self.folder.flush()
    }

    /// Returns the error of a run that cannot continue because `what` happened. The error names the
    /// newest checkpoint whose parameters gave a finite loss, if one is known and was not removed.
    pub(super) fn diverged(&self, what: String) -> anyhow::Error {
        let kept = self.checkpoints.steps();
        let proven = self.proven.filter(|step| kept.contains(step));
        let last = match (self.saved, proven) {
            (None, _) => "there is no checkpoint".into(),
            (Some(_), Some(step)) => {
                format!("the last checkpoint with a finite loss is of step {step}")
            }
            (Some(_), None) => "no checkpoint is known to have a finite loss".into(),
        };
        let clip_norm = OptimizerConfig::clip_norm.name();
        let error = DivergedError {
            what,
            advice: format!(
                "begin a new run with a lower learning rate, a longer warm-up or {clip_norm}; {last}"
            ),
        };
        error.into()
    }
}
