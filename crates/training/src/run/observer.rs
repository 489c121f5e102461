//! Events of a training run, and the trait of observers that receive them.

use anyhow::Result;

use super::records::{Evaluation, StepMetrics};
use super::state::Best;
use super::status::EndReason;

/// Something that happened in a training run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Training begins, after `first` of `steps` steps.
    Begin {
        /// Number of steps that were taken before.
        first: usize,
        /// Total number of steps.
        steps: usize,
        /// Number of steps between two evaluations.
        evaluate_every: usize,
        /// Number of steps in an epoch; `None` if the data set has no epochs.
        epoch: Option<usize>,
    },
    /// A step was taken.
    Step {
        /// Number of the step, counted from 1.
        step: usize,
    },
    /// The metrics of a step are known. This event can come some steps after the step, because
    /// losses are read from the device for several steps at a time.
    Metrics(&'a StepMetrics),
    /// The model was evaluated on the validation split.
    Evaluation(&'a Evaluation),
    /// There is a new best evaluation. The event follows each evaluation that is better than all
    /// before. At the beginning of a resumed run, the event reports the best evaluation so far, if
    /// there was one.
    Best(Best),
    /// A checkpoint was written.
    Checkpoint {
        /// Number of steps taken.
        step: usize,
    },
    /// Training has ended by itself, and the model is trained. A run that is stopped or fails does
    /// not have this event.
    Trained {
        /// Number of steps taken.
        step: usize,
        /// Why training ended.
        reason: &'a EndReason,
    },
    /// Training has ended, was stopped or has failed. This is the last event. A run that fails
    /// before it begins to take steps does not have this event.
    End,
}

/// Observer of a training run, such as a dashboard, a log file or a progress line.
pub trait Observer {
    /// Receives an event.
    ///
    /// # Errors
    ///
    /// If the run cannot continue without the observer, for example because standard output cannot
    /// be written. The error ends the run. If the event was an [`Event::Evaluation`], the run saves
    /// a checkpoint before it ends.
    fn event(&mut self, event: Event<'_>) -> Result<()>;

    /// Returns the cause for which the run should stop, such as `SIGINT`; `None` if the run should
    /// continue. The run calls this method after each step, and saves a checkpoint before it stops.
    fn wants_to_stop(&self) -> Option<&'static str> {
        None
    }
}

/// Passes each event to all observers in order, up to the first error.
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
