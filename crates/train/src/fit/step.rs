//! One training step.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::Tensor;

use super::feed::Feed;
use super::{Pending, READ_EVERY, Run};
use crate::batch::Batch;
use crate::optimizer::gradient_norm;
use crate::run_folder::StepMetrics;

impl Run<'_> {
    /// Takes one step: one or several batches, whose gradients are added up as those of one large
    /// batch would be.
    pub(super) fn step(&mut self, feed: &mut Feed) -> Result<()> {
        let config = self.config;
        let begun = Instant::now();
        let step = self.state.step + 1;
        let examples = feed.next();
        let pad_id = self.task.pad_id();
        let batches: Vec<Batch> = examples
            .iter()
            .map(|examples| Batch::new(examples, pad_id, &self.device))
            .collect();
        let tokens: usize = batches.iter().map(|batch| batch.tokens).sum();
        let padding: usize = batches.iter().map(|batch| batch.padding).sum();
        let places: usize = batches
            .iter()
            .map(|b| b.source.shape().num_elements() + b.right.shape().num_elements())
            .sum();
        self.device.seed(seed_of_step(config.seed, step));
        let (loss, gradients) = self.gradients(batches, tokens);
        let learning_rate = config
            .schedule
            .learning_rate(step, config.steps, config.model.d_model);
        let loss_scale = self.loss_scale();
        let mut skipped = false;
        let mut norm = None;
        if let Some(scale) = &mut self.state.loss_scale {
            let found = gradient_norm(self.learner.model(), &gradients) / loss_scale;
            skipped = !scale.observe(found.clone().into_scalar::<f32>().is_finite());
            norm = Some(found);
        }
        let gradient_norm = match norm {
            Some(norm) if skipped => norm,
            known => {
                self.state.updates += 1;
                self.learner
                    .update(learning_rate, gradients, known, loss_scale)
            }
        };
        if let Some(average) = &mut self.average {
            average.update(step, self.learner.model());
        }
        self.pending.push(Pending {
            metrics: StepMetrics {
                step,
                loss: f32::NAN,
                learning_rate,
                gradient_norm: f32::NAN,
                tokens,
                padding: padding as f32 / places as f32,
                skipped,
            },
            loss,
            gradient_norm,
        });
        self.state.step = step;
        self.state.learning_rate = learning_rate;
        self.state.tokens += tokens as u64;
        if step.is_multiple_of(READ_EVERY) || step == config.steps {
            self.read_losses()?;
        }
        let elapsed: Duration = begun.elapsed();
        self.state.train_seconds += elapsed.as_secs_f64();
        self.monitor.step(step, tokens, elapsed);
        Ok(())
    }

    /// The mean loss a token over all batches, `[1]`, and its gradients.
    fn gradients(&self, batches: Vec<Batch>, tokens: usize) -> (Tensor<1>, GradientsParams) {
        let model = self.learner.model();
        let mut accumulator = GradientsAccumulator::new();
        let mut sum: Option<Tensor<1>> = None;
        for batch in batches {
            let loss = self.learner.loss(batch, tokens);
            let scaled = match self.state.loss_scale {
                Some(scale) => loss.clone() * scale.factor,
                None => loss.clone(),
            };
            accumulator.accumulate(model, self.learner.gradients(scaled));
            let loss = loss.inner();
            sum = Some(match sum {
                Some(sum) => sum + loss,
                None => loss,
            });
        }
        (sum.expect("there is a batch"), accumulator.grads())
    }

    fn loss_scale(&self) -> f64 {
        self.state.loss_scale.map_or(1.0, |scale| scale.factor)
    }

    /// Waits for the losses of the last steps and logs them.
    pub(super) fn read_losses(&mut self) -> Result<()> {
        for pending in std::mem::take(&mut self.pending) {
            let mut metrics = pending.metrics;
            metrics.loss = pending.loss.into_scalar::<f32>();
            metrics.gradient_norm = pending.gradient_norm.into_scalar::<f32>();
            self.folder.log(&metrics)?;
            self.monitor.metrics(&metrics);
            let is_finite = metrics.skipped || metrics.gradient_norm.is_finite();
            if !metrics.loss.is_finite() || !is_finite {
                self.folder.flush()?;
                self.monitor.finish();
                let last = self.last_checkpoint();
                bail!(
                    "the loss is {} at step {}, with learning rate {:.3e} and gradient norm {}: begin a new run with a lower --factor, a longer --warmup or --clip-norm; {last}",
                    metrics.loss,
                    metrics.step,
                    metrics.learning_rate,
                    metrics.gradient_norm,
                );
            }
        }
        self.folder.flush()
    }
}

/// Seed of a step's dropout (SplitMix64's mix of both numbers).
fn seed_of_step(seed: u64, step: usize) -> u64 {
    let mut x = seed ^ (step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_its_own_seed() {
        let seeds = |seed| (1..1000).map(move |step| seed_of_step(seed, step));
        let all: std::collections::HashSet<u64> = seeds(0).chain(seeds(1)).collect();
        assert_eq!(all.len(), 2 * 999);
    }
}
