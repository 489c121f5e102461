//! Events of a training run, and the trait of their observers.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::records::{Evaluation, StepMetrics};
use super::status::EndReason;

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
    /// Training has ended by itself: the model is trained. A run that is stopped or fails has no such
    /// event.
    Trained {
        /// Number of steps taken.
        step: usize,
        /// Why it ended.
        reason: &'a EndReason,
    },
    /// Training has ended, was stopped or has failed. This is the last event.
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

    /// Returns what asks the run to save a checkpoint and stop after the current step, such as
    /// `SIGINT`; `None` to go on.
    fn wants_to_stop(&self) -> Option<&'static str> {
        None
    }
}

/// Passes each event to all observers in their order, up to the first error.
impl Observer for Vec<&mut dyn Observer> {
    fn event(&mut self, event: Event<'_>) -> Result<()> {
        self.iter_mut()
            .try_for_each(|observer| observer.event(event))
    }

    fn wants_to_stop(&self) -> Option<&'static str> {
        self.iter().find_map(|observer| observer.wants_to_stop())
    }
}

/// Ignores all events.
impl Observer for () {
    fn event(&mut self, _: Event<'_>) -> Result<()> {
        Ok(())
    }
}
