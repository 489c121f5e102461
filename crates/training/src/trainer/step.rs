//! One training step of a run. Its batches, random numbers and learning rate depend only on the
//! data set, the configuration, its seed, the step, the rank of the process and the size of its
//! group.

use anyhow::Result;
use burn::module::Module;
use burn::optim::GradientsAccumulator;
use burn::tensor::{Device, Tensor};
use transformer::Transformer;

use super::learner::Learner;
use super::prefetcher::StepExamples;
use super::sums::sum;
use crate::collective::Collective;
use crate::config::RunConfig;
use crate::data::{Batch, StepShare};
use crate::run::loss_scale::LossScale;

/// A training step that was taken. Its tensors are still on the device.
#[derive(Clone, Debug)]
pub struct TakenStep {
    /// Number of the step, counted from 1.
    pub step: usize,
    /// Learning rate.
    pub learning_rate: f64,
    /// Number of target tokens in the shares of all processes, without padding.
    pub tokens: usize,
    /// Fraction of padding among all positions of sources and labels.
    pub padding: f32,
    /// Mean loss per token, without label smoothing, `[1]`.
    pub loss: Tensor<1>,
    /// Global gradient norm before clipping, `[1]`.
    pub gradient_norm: Tensor<1>,
    /// Whether the update was skipped because gradients overflowed in f16.
    pub skipped: bool,
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

impl Learner {
    /// Takes step `step`, counted from 1, with the examples of this step, together with the other
    /// processes of a group.
    ///
    /// Each process takes its share. The gradients of all batches of all processes are summed, which
    /// gives the gradients of one large batch, so that all have the same model after the step.
    /// `scale` is the loss scale of f16; `None` in other precisions.
    pub fn take_step(
        &mut self,
        config: &RunConfig,
        step: usize,
        examples: StepExamples,
        scale: Option<&mut LossScale>,
        group: &dyn Collective,
    ) -> TakenStep {
        let device = self.model().devices().remove(0);
        let rank = group.rank();
        let StepShare { batches, counts } = StepShare::of(examples, rank, group.size());
        device.seed(seed_of_step(config.seed, step, rank));
        let factor = scale.as_ref().map(|scale| scale.factor);
        let mut accumulator = GradientsAccumulator::new();
        let mut losses = Vec::new();
        for examples in batches.iter().filter(|examples| !examples.is_empty()) {
            let (loss, unsmoothed) = self.loss(Batch::new(examples, &device), counts.tokens);
            losses.push(unsmoothed.inner());
            let scaled = match factor {
                Some(factor) => loss * factor,
                None => loss,
            };
            accumulator.accumulate(self.model(), self.gradients(scaled));
        }
        let (mut gradients, loss) = self.exchange(accumulator.grads(), sum(losses), group);
        let factor = factor.unwrap_or(1.0);
        let (mut skipped, mut norm) = (false, None);
        if let Some(scale) = scale {
            let computed = self.gradient_norm(&mut gradients, group) / factor;
            skipped = !scale.observe(computed.clone().into_scalar::<f32>().is_finite());
            norm = Some(computed);
        }
        let (schedule, steps) = (config.optimization.schedule, config.optimization.steps);
        let learning_rate = schedule.rate(step, steps, config.model.d_model);
        let gradient_norm = match norm {
            Some(norm) if skipped => norm,
            known => self.update(learning_rate, gradients, known, factor, group),
        };
        let average = self.average.take();
        self.average = average.map(|average| average.update(step, self.model()));
        TakenStep {
            step,
            learning_rate,
            tokens: counts.tokens,
            padding: counts.padding as f32 / counts.positions as f32,
            loss,
            gradient_norm,
            skipped,
        }
    }
}

/// Returns the seed for the dropout of a step in the process `rank`: `seed`, `step` and `rank`,
/// mixed as in SplitMix64.
fn seed_of_step(seed: u64, step: usize, rank: usize) -> u64 {
    let mut x = seed ^ (step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = x.wrapping_add((rank as u64).wrapping_mul(0xd1b5_4a32_d192_ed03));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_each_process_has_its_own_seed() {
        let seeds = |seed| {
            let ranks = move |step| (0..4).map(move |rank| seed_of_step(seed, step, rank));
            (1..1000).flat_map(ranks)
        };
        let all: std::collections::HashSet<u64> = seeds(0).chain(seeds(1)).collect();
        assert_eq!(all.len(), 2 * 4 * 999);
    }
}
