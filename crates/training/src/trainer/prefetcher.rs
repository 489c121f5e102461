//! A background thread that prepares the examples of the next training steps.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, Scope};

use anyhow::Result;

use crate::config::RunConfig;
use crate::data::{Dataset, Example};

/// Maximum number of prepared steps that wait in the channel.
const AHEAD: usize = 4;

/// Examples of one training step: a `Vec` of examples for each batch of the step.
pub type StepExamples = Vec<Vec<Example>>;

/// Returns the indices of the batches of step `step`, counted from 0. A step has `accumulate`
/// batches, but the last step of an epoch has those that are left, so that no step is a part of two
/// epochs.
fn step_batches(dataset: &dyn Dataset, step: usize, accumulate: usize) -> Range<usize> {
    let batches = dataset.batches_per_epoch().unwrap_or(usize::MAX);
    let steps = batches.div_ceil(accumulate);
    let before = step / steps * batches;
    let first = step % steps * accumulate;
    let end = batches.min(first + accumulate);
    before + first + 1..before + end + 1
}

/// Makes the examples of step `step`, counted from 0. It has `accumulate` batches or, at the end of
/// an epoch, those that are left.
pub fn step_examples(dataset: &dyn Dataset, config: &RunConfig, step: usize) -> StepExamples {
    let optimization = &config.optimization;
    let batches = step_batches(dataset, step, optimization.accumulate);
    let batches = batches.map(|index| dataset.batch(config.seed, index, optimization.batch_size));
    batches.collect()
}

/// Prepares the examples of training steps in a background thread, while earlier steps run.
///
/// ```
/// use training::config::RunConfig;
/// use training::trainer::Prefetcher;
///
/// let mut config = RunConfig::copy();
/// config.optimization.accumulate = 2;
/// config.optimization.batch_size = 32;
/// let task = config.check()?.expect("copy needs no files");
/// let first_examples = std::thread::scope(|scope| {
///     let prefetcher = Prefetcher::start(scope, task.as_ref(), &config, 0..10);
///     prefetcher.next_step()
/// })?;
/// assert_eq!(first_examples.len(), 2);
/// assert_eq!(first_examples[1].len(), 32);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Prefetcher {
    steps: Receiver<thread::Result<StepExamples>>,
}

impl Prefetcher {
    /// Starts the thread. It ends after the last step of `steps`, or when the prefetcher is
    /// dropped.
    ///
    /// For each step, the thread calls [`step_examples`].
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        dataset: &'scope dyn Dataset,
        config: &'scope RunConfig,
        steps: Range<usize>,
    ) -> Self {
        let (sender, receiver) = sync_channel(AHEAD);
        scope.spawn(move || {
            for step in steps {
                let make = || step_examples(dataset, config, step);
                let made = catch_unwind(AssertUnwindSafe(make));
                let has_failed = made.is_err();
                if sender.send(made).is_err() || has_failed {
                    return;
                }
            }
        });
        Self { steps: receiver }
    }

    /// Returns the examples of the next step. Waits until they are ready.
    ///
    /// # Errors
    ///
    /// The error with which the data set has unwound, such as that of a truncated token cache.
    ///
    /// # Panics
    ///
    /// If all steps have been returned already, or the data set panicked.
    pub fn next_step(&self) -> Result<StepExamples> {
        let examples = self.steps.recv().expect("the data set makes examples");
        examples.map_err(|panic| match panic.downcast() {
            Ok(error) => *error,
            Err(panic) => resume_unwind(panic),
        })
    }
}
