//! The training loop.

mod average;
mod evaluation;
mod feed;
mod interrupt;
mod learner;
mod precision;
mod saving;
mod state;
mod step;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use transformer::Transformer;

pub use average::MovingAverage;
pub use learner::Learner;
pub use precision::{LossScale, Precision};
pub use state::{Best, BestBy, TrainingState};

use feed::Feed;

use crate::checkpoint::{Checkpoints, Files};
use crate::config::RunConfig;
use crate::evaluate::Decoded;
use crate::monitor::{Monitor, Nobody};
use crate::run_folder::{RunFolder, StepMetrics, Summary};
use crate::task::{Example, Split, Task};

/// How a run ended.
pub enum Ending {
    /// It came to its end; [`Outcome::close`] says so in its folder.
    Done(Box<Outcome>),
    /// Somebody stopped it; it can go on from a checkpoint.
    Interrupted {
        /// Steps taken.
        step: usize,
        /// The checkpoint.
        checkpoint: PathBuf,
    },
}

/// What a run ends with.
pub struct Outcome {
    /// The numbers of `summary.json`.
    pub summary: Summary,
    /// The test sequences, decoded.
    pub decoded: Vec<Decoded>,
    /// The trained model.
    pub model: Transformer,
    folder: RunFolder,
}

impl Outcome {
    /// Writes `summary.json`, which says that the run has come to its end. Until then, whoever is
    /// interrupted can resume it for what comes after training.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn close(self) -> Result<Summary> {
        self.folder.finish(&self.summary)?;
        Ok(self.summary)
    }
}

/// Steps between two evaluations where the configuration does not say.
const EVALUATE_EVERY: usize = 100;

/// The most steps between two evaluations where the configuration does not say.
const LONGEST_EPOCH: usize = 5000;

/// Steps between two readings of the loss: each makes the host wait for the device.
const READ_EVERY: usize = 10;

/// Trains a model and decodes the test sequences; writes everything to the run folder. Goes on
/// from a checkpoint where one is given. `watch` is asked for a monitor when all is ready.
///
/// Switches the fast paths on or off ([`fused::fast_paths`]), as the configuration says.
///
/// Parameters, batches and dropout are functions of (seed, step), so that on CPU backends the same
/// configuration gives the same losses, bit for bit, however often it is stopped and resumed.
///
/// # Errors
///
/// If the loss or the gradient is not finite, the checkpoint does not fit, or the folder cannot be
/// written.
pub fn fit(
    config: &RunConfig,
    task: &dyn Task,
    device: &Device,
    folder: RunFolder,
    from: Option<&Files>,
    watch: impl FnOnce() -> Box<dyn Monitor>,
) -> Result<Ending> {
    let _fast_paths = fused::fast_paths(config.fused);
    let mut device = device.clone().autodiff();
    if config.gradient_checkpointing {
        device = device.gradient_checkpointing();
    }
    let mut run = Run::new(config, task, device, folder)?;
    match from {
        Some(files) => run.resume(files)?,
        None => run.folder.rewind(0)?,
    }
    // Nothing in the folder has been changed before the checkpoint is known to fit.
    run.folder.begin_again(config)?;
    run.monitor = watch();
    interrupt::watch()?;
    run.seconds_before = run.state.train_seconds;
    let step = run.state.step;
    let stop = std::thread::scope(|scope| {
        // Dropped at the end of training, however it ends, which ends the thread.
        let (mut feed, sender) = Feed::new();
        scope.spawn(move || feed::make(config, task, step, &sender));
        let stop = run.train(&mut feed);
        run.waited = feed.waited();
        stop
    });
    match stop? {
        Stop::Interrupted(checkpoint) => Ok(Ending::Interrupted {
            step: run.state.step,
            checkpoint,
        }),
        Stop::Done => Ok(Ending::Done(Box::new(run.finish()?))),
    }
}

enum Stop {
    Done,
    Interrupted(PathBuf),
}

/// A step whose loss has not been read yet.
struct Pending {
    metrics: StepMetrics,
    loss: Tensor<1>,
    gradient_norm: Tensor<1>,
}

/// A run under way.
struct Run<'a> {
    config: &'a RunConfig,
    task: &'a dyn Task,
    device: Device,
    folder: RunFolder,
    checkpoints: Checkpoints,
    monitor: Box<dyn Monitor>,
    /// Time that training has waited for data, and seconds of training before it began.
    waited: Duration,
    seconds_before: f64,
    learner: Learner,
    average: Option<MovingAverage>,
    state: TrainingState,
    pending: Vec<Pending>,
    validation: Vec<Example>,
    /// Step and time of the last checkpoint.
    saved: Option<usize>,
    saved_at: Instant,
}

impl<'a> Run<'a> {
    fn new(
        config: &'a RunConfig,
        task: &'a dyn Task,
        device: Device,
        folder: RunFolder,
    ) -> Result<Self> {
        let model = config.model.init_seeded(config.seed, &device)?;
        tracing::info!(parameters = model.num_params(), ?device, "made the model");
        tracing::debug!(?config);
        let learner = Learner::new(config, model)?;
        Ok(Self {
            average: config
                .ema
                .map(|decay| MovingAverage::new(decay, learner.model())),
            state: TrainingState {
                seed: config.seed,
                threads: threads(),
                loss_scale: config.precision.loss_scale(),
                version: env!("CARGO_PKG_VERSION").into(),
                ..TrainingState::default()
            },
            checkpoints: Checkpoints::of(folder.path()),
            validation: task.held_out(config.seed, Split::Validation, config.eval_size),
            config,
            task,
            device,
            folder,
            monitor: Box::new(Nobody),
            waited: Duration::ZERO,
            seconds_before: 0.0,
            learner,
            pending: Vec::new(),
            saved: None,
            saved_at: Instant::now(),
        })
    }

    fn train(&mut self, feed: &mut Feed) -> Result<Stop> {
        let config = self.config;
        let every = self.evaluate_every();
        let asks_for_last =
            config.target.is_some() || config.patience.is_some() || self.task.is_text();
        let _listening = interrupt::listen();
        while self.state.step < config.steps && self.state.ended_of != Some(config.steps) {
            self.step(feed)?;
            let step = self.state.step;
            let is_last = step == config.steps;
            let mut ends = false;
            let mut is_best = false;
            if step.is_multiple_of(every) || (is_last && asks_for_last) {
                (is_best, ends) = self.evaluate()?;
            }
            if is_last || ends {
                self.state.ended_of = Some(config.steps);
            }
            let is_interrupted = interrupt::is_requested() || self.monitor.wants_to_stop();
            let is_regular = config
                .checkpoint_every
                .is_some_and(|every| step.is_multiple_of(every));
            let is_late = config
                .checkpoint_seconds
                .is_some_and(|seconds| self.saved_at.elapsed().as_secs_f64() >= seconds);
            if is_last || ends || is_best || is_interrupted || is_regular || is_late {
                let path = self.save()?;
                if is_interrupted && !is_last && !ends {
                    self.monitor.finish();
                    return Ok(Stop::Interrupted(path));
                }
            }
            if ends {
                break;
            }
        }
        if self.saved.is_none() {
            self.save()?;
        }
        self.monitor.finish();
        Ok(Stop::Done)
    }
}

impl Run<'_> {
    /// Steps between two evaluations: an epoch, unless it is too long, where there are epochs.
    fn evaluate_every(&self) -> usize {
        let of_task = self.task.batches_per_epoch().map_or(EVALUATE_EVERY, |n| {
            n.div_ceil(self.config.accumulate).min(LONGEST_EPOCH)
        });
        self.config.eval_every.unwrap_or(of_task)
    }
}

/// Threads that flex's and ndarray's operations are shared among.
fn threads() -> usize {
    rayon::current_num_threads()
}
