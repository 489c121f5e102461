//! Events of a training run, and the trait of their observers.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::records::{Evaluation, StepMetrics};

/// Something that happened in a training run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Training begins, after `first` of `steps` steps.
    Begin {
        /// Number of steps taken before.
        first: usize,
        /// Total number of steps.
        steps: usize,
    },
    /// A step was taken.
    Step {
        /// Number of the step, counted from 1.
        step: usize,
        /// Target tokens of the step, without padding.
        tokens: usize,
        /// Time that it took.
        elapsed: Duration,
    },
    /// The loss of a step is known. It is read from the device some steps later.
    Metrics(&'a StepMetrics),
    /// The model was evaluated on the validation split.
    Evaluation(&'a Evaluation),
    /// A checkpoint was written.
    Checkpoint {
        /// Number of steps taken.
        step: usize,
        /// Folder of the checkpoint.
        path: &'a Path,
    },
    /// Training ends early: no evaluation was better since the one at `best`.
    OutOfPatience {
        /// Step of the best evaluation.
        best: usize,
    },
    /// Training has ended, for any reason. This is the last event.
    End,
}

/// Watches a training run: a dashboard, a log file, a progress line.
pub trait Observer {
    /// Receives an event.
    ///
    /// # Errors
    ///
    /// If the run cannot go on without it, as when standard output cannot be written. The run then
    /// ends; after [`Event::Evaluation`], it saves a checkpoint first.
    fn event(&mut self, event: Event<'_>) -> Result<()>;

    /// Whether the run should save a checkpoint and stop after the current step.
    fn wants_to_stop(&self) -> bool {
        false
    }
}

/// Ignores all events.
impl Observer for () {
    fn event(&mut self, _: Event<'_>) -> Result<()> {
        Ok(())
    }
}
