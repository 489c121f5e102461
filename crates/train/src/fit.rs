//! The training loop.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Tensor};
use transformer::{CrossEntropy, Transformer};

use crate::batch::Batch;
use crate::config::RunConfig;
use crate::evaluate::{self, Decoded, TeacherForced};
use crate::progress::Progress;
use crate::run_folder::{RunFolder, StepMetrics, Summary, peak_rss_bytes};
use crate::task::{Example, Split, Task, distinct_examples};

/// What a run ends with.
pub struct Outcome {
    /// The numbers of `summary.json`.
    pub summary: Summary,
    /// The test sequences, decoded.
    pub decoded: Vec<Decoded>,
    /// The trained model.
    pub model: Transformer,
}

/// Steps between two evaluations where `--target` asks for them and `--eval-every` does not.
const TARGET_EVERY: usize = 100;

/// Steps between two readings of the loss: each makes the host wait for the device.
const READ_EVERY: usize = 10;

/// Trains a model and decodes the test sequences; writes everything to the run folder.
///
/// Parameters, batches and dropout are functions of (seed, step), so that on CPU backends the same
/// configuration gives the same losses, bit for bit.
///
/// # Errors
///
/// If the loss is not finite, or the folder cannot be written.
pub fn fit(
    config: &RunConfig,
    task: &dyn Task,
    device: &Device,
    folder: RunFolder,
) -> Result<Outcome> {
    let device = device.clone().autodiff();
    let model = config.model.init_seeded(config.seed, &device)?;
    tracing::info!(
        parameters = model.num_params(),
        ?device,
        seed = config.seed,
        "made the model"
    );
    tracing::debug!(?config);
    let mut run = Run {
        config,
        task,
        device,
        folder,
        pending: Vec::new(),
        last_loss: None,
        train_time: Duration::ZERO,
        tokens: 0,
    };
    let (model, steps) = run.train(model)?;
    run.finish(model, steps)
}

/// Adam as in the paper, section 5.3.
pub fn adam() -> ModuleOptimizer {
    AdamConfig::new()
        .with_beta_1(0.9)
        .with_beta_2(0.98)
        .with_epsilon(1e-9)
        .init()
}

/// A run under way.
struct Run<'a> {
    config: &'a RunConfig,
    task: &'a dyn Task,
    device: Device,
    folder: RunFolder,
    /// Steps whose loss has not been read yet.
    pending: Vec<(StepMetrics, Tensor<1>)>,
    last_loss: Option<f32>,
    train_time: Duration,
    tokens: usize,
}

impl Run<'_> {
    /// Returns the model and the number of steps taken.
    fn train(&mut self, mut model: Transformer) -> Result<(Transformer, usize)> {
        let config = self.config;
        let criterion = CrossEntropy::new(config.label_smoothing, self.task.pad_id())?;
        let mut optimizer = adam();
        let validation =
            distinct_examples(self.task, config.seed, Split::Validation, config.eval_size);
        let eval_every = config.eval_every.or(config.target.map(|_| TARGET_EVERY));
        let mut progress = Progress::new(config.steps);
        for step in 1..=config.steps {
            let begun = Instant::now();
            let batch = Batch::of_step(
                self.task,
                config.seed,
                step,
                config.batch_size,
                &self.device,
            );
            self.device.seed(seed_of_step(config.seed, step));
            let tokens = batch.tokens;
            let logits = model.forward(batch.source, batch.target);
            let loss = criterion.forward(logits, batch.right);
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            let learning_rate =
                config
                    .schedule
                    .learning_rate(step, config.steps, config.model.d_model);
            model = optimizer.step(learning_rate, model, gradients);
            self.tokens += tokens;
            let metrics = StepMetrics {
                step,
                loss: f32::NAN,
                learning_rate,
                tokens,
            };
            self.pending.push((metrics, loss.inner()));
            if step.is_multiple_of(READ_EVERY) || step == config.steps {
                self.read_losses()?;
            }
            self.train_time += begun.elapsed();
            progress.step(step, tokens, self.last_loss);

            let is_last_chance = config.target.is_some() && step == config.steps;
            if is_last_chance || eval_every.is_some_and(|every| step.is_multiple_of(every)) {
                let score = self.score(&model, &validation);
                let mut line = format!("step {step}: evaluation loss {:.4}", score.loss);
                let mut reached = false;
                if let Some(target) = config.target {
                    let decoded = evaluate::decode_greedily(&model, self.task, &validation);
                    let exact_match = evaluate::exact_match(&decoded);
                    line += &format!(", exact match {exact_match:.4}");
                    reached = exact_match >= target;
                }
                progress.result(&line)?;
                if reached {
                    self.read_losses()?;
                    progress.finish();
                    return Ok((model, step));
                }
            }
        }
        progress.finish();
        Ok((model, config.steps))
    }

    fn read_losses(&mut self) -> Result<()> {
        for (mut metrics, loss) in self.pending.drain(..) {
            metrics.loss = loss.into_scalar::<f32>();
            self.folder.log(&metrics)?;
            if !metrics.loss.is_finite() {
                bail!(
                    "the loss is {} at step {}, with learning rate {:.3e}: lower --factor or raise --warmup",
                    metrics.loss,
                    metrics.step,
                    metrics.learning_rate
                );
            }
            self.last_loss = Some(metrics.loss);
        }
        self.folder.flush()
    }

    fn score(&self, model: &Transformer, examples: &[Example]) -> TeacherForced {
        let batch_size = evaluate::default_batch_size(self.task);
        evaluate::teacher_forced(model, self.task, examples, batch_size, &self.device)
    }

    /// Evaluates, and closes the folder.
    fn finish(self, model: Transformer, steps: usize) -> Result<Outcome> {
        let config = self.config;
        let saved = self.folder.save_model(&model, steps)?;
        tracing::info!(path = %saved.display(), "saved the model");
        let examples = |split, n| distinct_examples(self.task, config.seed, split, n);
        let validation = examples(Split::Validation, config.eval_size);
        let test = examples(Split::Test, config.test_size);
        let decoded = evaluate::decode_greedily(&model, self.task, &test);
        let train_seconds = self.train_time.as_secs_f64();
        let summary = Summary {
            task: config.task.name().into(),
            backend: config.backend.clone(),
            parameters: model.num_params(),
            steps,
            train_seconds,
            exact_match: evaluate::exact_match(&decoded),
            test_sequences: decoded.len(),
            token_accuracy: self.score(&model, &test).token_accuracy,
            valid_loss: self.score(&model, &validation).loss,
            tokens_per_second: self.tokens as f64 / train_seconds,
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
    use burn::module::Param;

    use super::*;

    #[derive(Module, Debug)]
    struct Weight {
        weight: Param<Tensor<1>>,
    }

    #[test]
    fn two_steps_of_adam_by_hand() {
        let device = Device::flex().autodiff();
        let mut module = Weight {
            weight: Param::from_data([1.0], &device),
        };
        let mut optimizer = adam();
        let (mut w, mut m, mut v) = (1.0f64, 0.0, 0.0);
        for (t, gradient) in [(1, 0.5f64), (2, -2.0)] {
            let loss = (module.weight.val() * gradient).sum();
            let gradients = GradientsParams::from_grads(loss.backward(), &module);
            module = optimizer.step(0.1, module, gradients);
            m = 0.9 * m + 0.1 * gradient;
            v = 0.98 * v + 0.02 * gradient * gradient;
            let (m_hat, v_hat) = (m / (1.0 - 0.9f64.powi(t)), v / (1.0 - 0.98f64.powi(t)));
            w -= 0.1 * m_hat / (v_hat.sqrt() + 1e-9);
            let actual: f64 = module.weight.val().into_scalar::<f32>().into();
            assert!((actual - w).abs() < 1e-5, "step {t}: {actual}, by hand {w}");
        }
    }

    #[test]
    fn each_step_has_its_own_seed() {
        let seeds = |seed| (1..1000).map(move |step| seed_of_step(seed, step));
        let all: std::collections::HashSet<u64> = seeds(0).chain(seeds(1)).collect();
        assert_eq!(all.len(), 2 * 999);
    }
}
