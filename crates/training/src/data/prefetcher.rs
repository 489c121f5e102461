//! Prepares the examples of the next steps in a thread of its own.

use std::ops::Range;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use super::{Dataset, Example};

/// Maximum number of steps that are prepared ahead.
const AHEAD: usize = 4;

/// The examples of one step, a `Vec` for each of its batches.
pub type StepExamples = Vec<Vec<Example>>;

/// Gives the examples of one step after the other, which a thread prepares while earlier steps run.
///
/// ```
/// use training::data::prefetcher::Prefetcher;
/// use training::data::synthetic::{Rule, SequenceConfig, SequenceTask};
///
/// let task = SequenceTask::new(Rule::Copy, &SequenceConfig::default())?;
/// let first_examples = std::thread::scope(|scope| {
///     let mut prefetcher = Prefetcher::start(scope, &task, 7, 0..10, 2, 32);
///     prefetcher.next_step()
/// });
/// assert_eq!(first_examples.len(), 2);
/// assert_eq!(first_examples[1].len(), 32);
/// # Ok::<(), training::error::UsageError>(())
/// ```
pub struct Prefetcher {
    steps: Receiver<StepExamples>,
    waited: Duration,
}

impl Prefetcher {
    /// Starts the thread, which ends after the last of `steps` or when the prefetcher is dropped.
    ///
    /// Step `n`, counted from 0, consists of the `accumulate` batches from number
    /// `n * accumulate + 1` on; `seed` and `batch_size` are passed to [`Dataset::batch`].
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        dataset: &'scope dyn Dataset,
        seed: u64,
        steps: Range<usize>,
        accumulate: usize,
        batch_size: usize,
    ) -> Self {
        let (sender, receiver) = sync_channel(AHEAD);
        scope.spawn(move || {
            for step in steps {
                let first = step * accumulate + 1;
                let batches = first..first + accumulate;
                let batches = batches.map(|index| dataset.batch(seed, index, batch_size));
                if sender.send(batches.collect()).is_err() {
                    return;
                }
            }
        });
        Self {
            steps: receiver,
            waited: Duration::ZERO,
        }
    }

    /// Returns the examples of the next step; waits for them where they are not ready yet.
    ///
    /// # Panics
    ///
    /// After the last step, or if the data set panicked.
    pub fn next_step(&mut self) -> StepExamples {
        let start = Instant::now();
        let examples = self.steps.recv().expect("the data set makes examples");
        self.waited += start.elapsed();
        examples
    }

    /// Returns the total time that [`next_step`](Self::next_step) has waited.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}
