//! The training loop.

mod average;
mod interrupt;
mod precision;
mod state;
mod step;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use transformer::{CrossEntropy, Transformer, weights};

pub use average::MovingAverage;
pub use precision::{LossScale, Precision};
pub use state::{Best, BestBy, TrainingState};

use crate::checkpoint::{self, Checkpoints, Files};
use crate::config::RunConfig;
use crate::error::UsageError;
use crate::evaluate::{self, Decoded, TeacherForced};
use crate::monitor::{Monitor, Nobody};
use crate::optimizer::Optimizer;
use crate::output;
use crate::run_folder::{Evaluation, RunFolder, StepMetrics, Summary, peak_rss_bytes};
use crate::task::{Example, Split, Task, distinct_examples};

/// How a run ended.
pub enum Ending {
    /// It came to its end.
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
}

/// Steps between two evaluations where `--target` or `--patience` asks for them and
/// `--eval-every` does not.
const EVALUATE_EVERY: usize = 100;

/// Steps between two readings of the loss: each makes the host wait for the device.
const READ_EVERY: usize = 10;

/// Trains a model and decodes the test sequences; writes everything to the run folder. Goes on
/// from a checkpoint where one is given. `watch` is asked for a monitor when all is ready.
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
    match run.train()? {
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
    criterion: CrossEntropy,
    model: Transformer,
    optimizer: Optimizer,
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
        let model = config.precision.master(model);
        tracing::info!(parameters = model.num_params(), ?device, "made the model");
        tracing::debug!(?config);
        Ok(Self {
            criterion: CrossEntropy::new(config.label_smoothing, task.pad_id())?,
            optimizer: Optimizer::new(&config.optimizer),
            average: config.ema.map(|decay| MovingAverage::new(decay, &model)),
            state: TrainingState {
                seed: config.seed,
                threads: threads(),
                loss_scale: config.precision.loss_scale(),
                version: env!("CARGO_PKG_VERSION").into(),
                ..TrainingState::default()
            },
            checkpoints: Checkpoints::of(folder.path()),
            validation: distinct_examples(task, config.seed, Split::Validation, config.eval_size),
            config,
            task,
            device,
            folder,
            monitor: Box::new(Nobody),
            model,
            pending: Vec::new(),
            saved: None,
            saved_at: Instant::now(),
        })
    }

    /// Goes back to a checkpoint.
    fn resume(&mut self, files: &Files) -> Result<()> {
        let state = checkpoint::read_state(files)?;
        checkpoint::check_config(files, self.config)?;
        let read = |name: &str| checkpoint::read_parameters(files, name);
        let model = files.path(checkpoint::MODEL);
        self.model = checkpoint::with_parameters(&self.model, read(checkpoint::MODEL)?, &model)?;
        let sizes = weights::parameters(&self.model).into_iter();
        let sizes = sizes
            .map(|(name, data)| (name, data.num_elements()))
            .collect();
        let moments = read(checkpoint::OPTIMIZER)?;
        let unfit = |name: &str, error: weights::WeightsError| {
            UsageError::new("RUN", files.path(name).display(), error.to_string())
        };
        if state.updates > 0 {
            self.optimizer
                .load_state(moments, state.updates, &sizes, &self.device)
                .map_err(|error| unfit(checkpoint::OPTIMIZER, error))?;
        }
        if let Some(average) = &mut self.average {
            average
                .load(read(checkpoint::AVERAGE)?, &self.device)
                .map_err(|error| unfit(checkpoint::AVERAGE, error))?;
        }
        if state.threads != self.state.threads {
            output::note(&format!(
                "warning: the run had {} threads and has {} now, so that losses may differ in their last digits; RAYON_NUM_THREADS={} repeats it exactly",
                state.threads, self.state.threads, state.threads
            ));
        }
        self.folder.rewind(state.metrics_bytes)?;
        self.checkpoints.remove_after(state.step)?;
        self.saved = Some(state.step);
        self.state = TrainingState {
            threads: self.state.threads,
            version: std::mem::take(&mut self.state.version),
            ..state
        };
        Ok(())
    }

    fn train(&mut self) -> Result<Stop> {
        let config = self.config;
        let wants_evaluations = config.target.is_some() || config.patience.is_some();
        let every = config
            .eval_every
            .or(wants_evaluations.then_some(EVALUATE_EVERY));
        let _listening = interrupt::listen();
        while self.state.step < config.steps && self.state.ended_of != Some(config.steps) {
            self.step()?;
            let step = self.state.step;
            let is_last = step == config.steps;
            let is_due = every.is_some_and(|every| step.is_multiple_of(every));
            let mut ends = false;
            let mut is_best = false;
            if is_due || (is_last && wants_evaluations) {
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

    /// Whether this evaluation is the best so far, and whether training has come to its end.
    fn evaluate(&mut self) -> Result<(bool, bool)> {
        self.read_losses()?;
        let config = self.config;
        let model = self.evaluated_model();
        let score = self.score(&model, &self.validation);
        let wants_exact_match = config.target.is_some() || config.best_by == BestBy::ExactMatch;
        let exact_match = wants_exact_match.then(|| {
            let decoded = evaluate::decode_greedily(&model, self.task, &self.validation);
            evaluate::exact_match(&decoded)
        });
        let evaluation = Evaluation {
            step: self.state.step,
            valid_loss: score.loss,
            token_accuracy: score.token_accuracy,
            exact_match,
        };
        self.folder.log(&evaluation)?;
        if let Err(error) = self.monitor.evaluation(&evaluation) {
            self.save()?;
            return Err(error);
        }
        let value = match config.best_by {
            BestBy::Loss => score.loss,
            BestBy::ExactMatch => exact_match.expect("it was asked for"),
        };
        let is_best = self.state.evaluated(config.best_by, value);
        let is_reached = matches!((config.target, exact_match), (Some(t), Some(x)) if x >= t);
        let is_stuck = config
            .patience
            .is_some_and(|patience| self.state.since_best >= patience);
        if is_stuck {
            let best = self.state.best.map_or(0, |best| best.step);
            self.monitor.note(&format!(
                "no better evaluation since step {best}: training ends"
            ));
        }
        Ok((is_best, is_reached || is_stuck))
    }

    /// The moving average where there is one.
    fn evaluated_model(&self) -> Transformer {
        let model = match &self.average {
            Some(average) => average.module(&self.model),
            None => self.model.valid(),
        };
        self.config.precision.computing(&model)
    }

    fn score(&self, model: &Transformer, examples: &[Example]) -> TeacherForced {
        let batch_size = evaluate::default_batch_size(self.task);
        evaluate::teacher_forced(model, self.task, examples, batch_size, &self.device)
    }

    /// Writes a checkpoint, unless that of this step is there already.
    fn save(&mut self) -> Result<PathBuf> {
        let step = self.state.step;
        self.read_losses()?;
        let path = self.checkpoints.path(step);
        if self.saved == Some(step) {
            return Ok(path);
        }
        let parameters = weights::parameters(&self.model);
        if let Some(name) = checkpoint::first_infinite(&parameters) {
            self.monitor.finish();
            bail!(
                "after step {step}, with learning rate {:.3e}, parameter {name} has numbers that are not finite: lower --factor, raise --warmup or set --clip-norm; {}",
                self.state.learning_rate,
                self.last_checkpoint()
            );
        }
        self.state.metrics_bytes = self.folder.sync()?;
        let mut files = vec![
            (checkpoint::MODEL, weights::to_bytes(&parameters)?),
            (
                checkpoint::OPTIMIZER,
                weights::to_bytes(&self.optimizer.state())?,
            ),
            (checkpoint::STATE, serde_json::to_vec_pretty(&self.state)?),
            (checkpoint::CONFIG, serde_json::to_vec_pretty(self.config)?),
        ];
        if let Some(average) = &self.average {
            let parameters = weights::parameters(&average.module(&self.model));
            files.push((checkpoint::AVERAGE, weights::to_bytes(&parameters)?));
        }
        self.checkpoints.save(step, &files)?;
        tracing::info!(path = %path.display(), "saved a checkpoint");
        let best = self.state.best.map(|best| best.step);
        self.checkpoints.prune(self.config.keep, best.as_slice())?;
        self.saved = Some(step);
        self.saved_at = Instant::now();
        Ok(path)
    }

    /// Where an error leaves the run.
    fn last_checkpoint(&self) -> String {
        match self.saved {
            Some(step) => format!("the last checkpoint is of step {step}"),
            None => "there is no checkpoint".into(),
        }
    }

    /// Evaluates, and closes the folder.
    fn finish(self) -> Result<Outcome> {
        let config = self.config;
        let test = distinct_examples(self.task, config.seed, Split::Test, config.test_size);
        let model = match self.best_model()? {
            Some(best) => best,
            None => self.evaluated_model(),
        };
        let decoded = evaluate::decode_greedily(&model, self.task, &test);
        let train_seconds = self.state.train_seconds;
        let summary = Summary {
            task: config.task.name().into(),
            backend: config.backend.clone(),
            parameters: model.num_params(),
            steps: self.state.step,
            train_seconds,
            exact_match: evaluate::exact_match(&decoded),
            test_sequences: decoded.len(),
            token_accuracy: self.score(&model, &test).token_accuracy,
            valid_loss: self.score(&model, &self.validation).loss,
            tokens_per_second: self.state.tokens as f64 / train_seconds,
            peak_rss_bytes: peak_rss_bytes(),
            seed: config.seed,
            version: env!("CARGO_PKG_VERSION"),
        };
        self.folder.finish(&summary)?;
        Ok(Outcome {
            summary,
            decoded,
            model,
        })
    }

    /// The best model, if training ended because nothing better came.
    fn best_model(&self) -> Result<Option<Transformer>> {
        let Some(best) = self.state.best else {
            return Ok(None);
        };
        let is_stuck = self
            .config
            .patience
            .is_some_and(|patience| self.state.since_best >= patience);
        if !is_stuck {
            return Ok(None);
        }
        let files = self.checkpoints.read(best.step)?;
        let name = match self.average {
            Some(_) => checkpoint::AVERAGE,
            None => checkpoint::MODEL,
        };
        let parameters = checkpoint::read_parameters(&files, name)?;
        let model = self.model.valid();
        let model = checkpoint::with_parameters(&model, parameters, &files.path(name))?;
        Ok(Some(self.config.precision.computing(&model)))
    }
}

/// Threads that flex's and ndarray's operations are shared among.
fn threads() -> usize {
    rayon::current_num_threads()
}
