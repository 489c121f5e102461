//! One training step of a run. Its batches, random numbers and learning rate depend only on the
//! data set, the configuration, its seed, the step, the rank of the process and the size of its
//! group.

use anyhow::Result;
use burn::module::Module;
use burn::tensor::Device;
use transformer::Transformer;

use super::learner::{Learner, StepResult};
use super::seed::seed_of_step;
use crate::collective::Collective;
use crate::config::RunConfig;
use crate::data::prefetcher::StepExamples;
use crate::data::{Batch, Example, StepShare};
use crate::run::loss_scale::LossScale;

/// A training step that was taken.
#[derive(Clone, Debug)]
pub struct TakenStep {
    /// Learning rate.
    pub learning_rate: f64,
    /// Number of target tokens in the shares of all processes, without padding.
    pub tokens: usize,
    /// Fraction of padding among all positions of sources and labels.
    pub padding: f32,
    /// Loss and gradient norm, which are still on the device.
    pub result: StepResult,
}

/// Creates the untrained model of a run, on a device with autodiff.
///
/// # Errors
///
/// If a setting of the model is not valid.
pub fn new_model(config: &RunConfig, device: &Device) -> Result<Transformer> {
    let device = device_of(config, device);
    Ok(config.model.init_seeded(config.seed, &device)?)
}

/// Returns the device with autodiff on which a run trains.
pub fn device_of(config: &RunConfig, device: &Device) -> Device {
    let device = device.clone().autodiff();
    if config.execution.gradient_checkpointing {
        device.gradient_checkpointing()
    } else {
        device
    }
}

/// Takes step `step`, counted from 1, with the examples of this step. Each process of `group` takes
/// its share. `scale` is the loss scale of f16; `None` in other precisions.
pub fn take_step(
    learner: &mut Learner,
    config: &RunConfig,
    step: usize,
    examples: StepExamples,
    scale: Option<&mut LossScale>,
    group: &dyn Collective,
) -> TakenStep {
    let device = learner.model().devices().remove(0);
    let (rank, size) = (group.rank(), group.size());
    let StepShare { batches, counts } = StepShare::of(examples, rank, size);
    let batch = |examples: &Vec<Example>| Batch::new(examples, &device);
    let batches = batches.iter().filter(|examples| !examples.is_empty());
    let batches: Vec<Batch> = batches.map(batch).collect();
    let tokens = counts.tokens;
    device.seed(seed_of_step(config.seed, step, rank));
    let (schedule, steps) = (config.optimization.schedule, config.optimization.steps);
    let learning_rate = schedule.rate(step, steps, config.model.d_model);
    let result = learner.step(step, batches, tokens, learning_rate, scale, group);
    TakenStep {
        learning_rate,
        tokens,
        padding: counts.padding as f32 / counts.positions as f32,
        result,
    }
}
