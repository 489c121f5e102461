//! The next batches, made by a thread of their own while a step runs.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::config::RunConfig;
use crate::task::{Example, Task};

/// Steps that are ready at most.
const AHEAD: usize = 4;

/// The examples of a step's batches.
pub(super) type Step = Vec<Vec<Example>>;

/// The steps to come, in their order.
pub(super) struct Feed {
    steps: Receiver<Step>,
    waited: Duration,
}

impl Feed {
    /// A feed, and where its steps are to be put.
    pub(super) fn new() -> (Self, SyncSender<Step>) {
        let (sender, steps) = sync_channel(AHEAD);
        let feed = Self {
            steps,
            waited: Duration::ZERO,
        };
        (feed, sender)
    }

    /// The next step's examples.
    ///
    /// # Panics
    ///
    /// If the thread that makes them has panicked.
    pub(super) fn next(&mut self) -> Step {
        let begun = Instant::now();
        let step = self.steps.recv().expect("the task makes examples");
        self.waited += begun.elapsed();
        step
    }

    /// Time that was lost by waiting.
    pub(super) fn waited(&self) -> Duration {
        self.waited
    }
}

/// Makes the steps after `step`, until nobody wants more.
pub(super) fn make(config: &RunConfig, task: &dyn Task, step: usize, sender: &SyncSender<Step>) {
    for step in step..config.steps {
        let batches = (1..=config.accumulate).map(|part| {
            let index = step * config.accumulate + part;
            task.batch(config.seed, index, config.batch_size)
        });
        if sender.send(batches.collect()).is_err() {
            return;
        }
    }
}
