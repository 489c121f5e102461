//! Training in memory, one step per call: without a run folder, a prefetcher or a clock.

use anyhow::{Context, Result};
use burn::tensor::Device;
use transformer::Transformer;

use super::learner::Learner;
use super::prefetcher::step_examples;
use super::step::{TakenStep, new_model};
use crate::collective::Alone;
use crate::config::{Precision, RunConfig};
use crate::data::{Dataset, Decoded, Example, Split};
use crate::evaluation::Scores;
use crate::run::loss_scale::LossScale;

/// Trains the model of a synthetic task, one step per call.
///
/// A stepper takes the same steps as a [`Trainer`](super::Trainer) with the same configuration. It
/// writes no files, starts no threads of its own and reads no clock, so it also works in a browser.
///
/// ```
/// use burn::tensor::Device;
/// use training::config::RunConfig;
/// use training::trainer::Stepper;
///
/// let mut stepper = Stepper::new(RunConfig::copy(), &Device::flex())?;
/// let first: f32 = stepper.step().loss.into_scalar();
/// let later: Vec<f32> = (0..40).map(|_| stepper.step().loss.into_scalar()).collect();
/// assert!(later[39] < first);
/// let (scores, _) = stepper.evaluate()?;
/// assert!(scores.loss < first.into());
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Stepper {
    config: RunConfig,
    dataset: Box<dyn Dataset>,
    learner: Learner,
    loss_scale: Option<LossScale>,
    validation: Vec<Example>,
    steps: usize,
}

impl Stepper {
    /// Creates the model of a configuration, and its optimizer.
    ///
    /// # Errors
    ///
    /// If a setting is wrong, or if the data set is read from files or belongs to another program.
    pub fn new(mut config: RunConfig, device: &Device) -> Result<Self> {
        let dataset = config.check()?;
        let dataset = dataset.context("only synthetic tasks need no files")?;
        let _fast_paths = config.execution.fast_paths();
        let size = config.evaluation.validation_size;
        Ok(Self {
            learner: Learner::new(&config, new_model(&config, device)?)?,
            loss_scale: (config.execution.precision == Precision::F16).then(LossScale::default),
            validation: dataset.held_out(config.seed, Split::Validation, size),
            dataset,
            config,
            steps: 0,
        })
    }

    /// Takes the next step.
    pub fn step(&mut self) -> TakenStep {
        let _fast_paths = self.config.execution.fast_paths();
        let examples = step_examples(self.dataset.as_ref(), &self.config, self.steps);
        self.steps += 1;
        let scale = self.loss_scale.as_mut();
        let (config, step) = (&self.config, self.steps);
        self.learner
            .take_step(config, step, examples, scale, &Alone)
    }

    /// Returns the scores of the model on the validation split, and its greedily decoded outputs.
    ///
    /// # Errors
    ///
    /// If the logits are not finite.
    pub fn evaluate(&self) -> Result<(Scores, Vec<Decoded>)> {
        let _fast_paths = self.config.execution.fast_paths();
        let (model, dataset) = (self.model(), self.dataset.as_ref());
        Ok(Scores::of(&model, dataset, &self.validation, &Alone)?)
    }

    /// Returns the model to evaluate, without autodiff and dropout. Its parameters are the moving
    /// averages if the run has them.
    pub fn model(&self) -> Transformer {
        self.learner.evaluated_model()
    }

    /// Returns the configuration, with the settings that follow from the data set.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// Returns the data set.
    pub fn dataset(&self) -> &dyn Dataset {
        self.dataset.as_ref()
    }

    /// Returns the number of steps taken.
    pub fn steps(&self) -> usize {
        self.steps
    }
}
