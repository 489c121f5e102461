//! Everything that defines a run; `config.json` in its folder.

use std::path::Path;

use serde::{Deserialize, Serialize};
use transformer::{NormPlacement, TransformerConfig};

use crate::defaults::TextSize;
use crate::error::UsageError;
use crate::fit::{BestBy, Precision};
use crate::lengths::LengthsConfig;
use crate::optimizer::OptimizerConfig;
use crate::schedule::Schedule;
use crate::task::{SequenceConfig, Task};

pub use crate::task::TaskConfig;

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

fn three() -> usize {
    3
}

#[allow(clippy::unnecessary_wraps)] // the field is an option
fn ten_minutes() -> Option<f64> {
    Some(600.0)
}

/// A run, whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunConfig {
    /// What is learned.
    pub task: TaskConfig,
    /// By what.
    pub model: TransformerConfig,
    /// The backend's name, with the device's number if one was given.
    pub backend: String,
    /// Parameters, data and dropout are functions of it.
    pub seed: u64,
    /// Number of training steps.
    pub steps: usize,
    /// Times that every example is learned from, which then says the number of steps; for tasks
    /// that have an end of examples.
    #[serde(default)]
    pub epochs: Option<usize>,
    /// Sequences in a batch.
    pub batch_size: usize,
    /// Batches in a step, whose gradients are added up.
    #[serde(default = "one")]
    pub accumulate: usize,
    /// How gradients become updates.
    #[serde(default)]
    pub optimizer: OptimizerConfig,
    /// Learning rate.
    pub schedule: Schedule,
    /// Decay of a moving average of the parameters, which is then what is evaluated.
    #[serde(default)]
    pub ema: Option<f64>,
    /// What the model computes with; parameters and moments are f32.
    #[serde(default)]
    pub precision: Precision,
    /// Whether activations are computed again in the backward pass instead of being kept.
    #[serde(default)]
    pub gradient_checkpointing: bool,
    /// Whether operations have their fast paths where the backend has some.
    #[serde(default = "yes")]
    pub fused: bool,
    /// Tokens whose logits are there at once during training; none for all of a batch.
    #[serde(default)]
    pub loss_chunk: Option<usize>,
    /// `ε` of the loss.
    pub label_smoothing: f64,
    /// Steps between evaluations on the validation split; none for 100, or an epoch of texts.
    pub eval_every: Option<usize>,
    /// Sequences in an evaluation on the validation split.
    pub eval_size: usize,
    /// What makes an evaluation the best.
    #[serde(default)]
    pub best_by: BestBy,
    /// Exact match on the validation split at which training ends early.
    pub target: Option<f64>,
    /// Evaluations without a better one after which training ends.
    #[serde(default)]
    pub patience: Option<usize>,
    /// Steps between checkpoints.
    #[serde(default)]
    pub checkpoint_every: Option<usize>,
    /// Seconds between checkpoints.
    #[serde(default = "ten_minutes")]
    pub checkpoint_seconds: Option<f64>,
    /// Newest checkpoints that are kept, besides the best.
    #[serde(default = "three")]
    pub keep: usize,
    /// Sequences of the test split that are decoded at the end.
    pub test_size: usize,
    /// Lengths that are evaluated at the end, besides.
    #[serde(default)]
    pub eval_lengths: Option<LengthsConfig>,
}

impl RunConfig {
    /// The default settings of a task, by its name in `config.json`.
    pub fn of_task(name: &str) -> Option<Self> {
        match name {
            "copy" => Some(Self::copy()),
            "reverse" => Some(Self::reverse()),
            "sort" => Some(Self::sort()),
            "add" => Some(Self::add()),
            "annotated-copy" => Some(Self::annotated()),
            "text" => Some(Self::text(TextSize::Small)),
            _ => None,
        }
    }

    /// The copy task that `train` solves by itself.
    pub fn copy() -> Self {
        Self {
            task: TaskConfig::Copy(SequenceConfig::default()),
            model: TransformerConfig::new(0, 0)
                .with_d_model(64)
                .with_n_heads(2)
                .with_n_encoder_layers(1)
                .with_n_decoder_layers(1)
                .with_d_ff(256)
                .with_dropout(0.0)
                .with_norm_placement(NormPlacement::Pre),
            backend: String::new(),
            seed: 0,
            steps: 1000,
            epochs: None,
            batch_size: 64,
            accumulate: 1,
            optimizer: OptimizerConfig::default(),
            schedule: Schedule::Linear {
                factor: 1.5,
                warmup: 100,
            },
            ema: None,
            precision: Precision::F32,
            gradient_checkpointing: false,
            fused: true,
            loss_chunk: None,
            label_smoothing: 0.0,
            eval_every: None,
            eval_size: 500,
            best_by: BestBy::Loss,
            target: None,
            patience: None,
            checkpoint_every: None,
            checkpoint_seconds: ten_minutes(),
            keep: three(),
            test_size: 1000,
            eval_lengths: None,
        }
    }

    /// The Annotated Transformer's copy task, as its edition of 2018 has it: 10 epochs of 20
    /// batches of 30, each followed by 5 batches of evaluation.
    pub fn annotated() -> Self {
        Self {
            task: TaskConfig::AnnotatedCopy,
            model: TransformerConfig::new(0, 0)
                .with_n_encoder_layers(2)
                .with_n_decoder_layers(2)
                .with_norm_placement(NormPlacement::Pre),
            steps: 200,
            batch_size: 30,
            schedule: Schedule::Noam {
                factor: 1.0,
                warmup: 400,
            },
            eval_every: Some(20),
            eval_size: 150,
            ..Self::copy()
        }
    }

    /// Makes the task, fits the model's vocabulary and length to it and checks all settings.
    ///
    /// # Errors
    ///
    /// The first setting that cannot be.
    pub fn resolve(&mut self) -> Result<Box<dyn Task>, UsageError> {
        self.resolve_in(None)
    }

    /// The same for a run that has a folder, with its tokenisers.
    ///
    /// # Errors
    ///
    /// The first setting that cannot be.
    pub fn resolve_in(&mut self, run: Option<&Path>) -> Result<Box<dyn Task>, UsageError> {
        let task = self.task.build(run)?;
        self.resolve_for(task.as_ref())?;
        Ok(task)
    }

    /// The same for a task that is not one of this library's.
    ///
    /// # Errors
    ///
    /// The first setting that cannot be.
    pub fn resolve_for(&mut self, task: &dyn Task) -> Result<(), UsageError> {
        if let Some(epochs) = self.epochs {
            if !(1..=1_000_000).contains(&epochs) {
                let expected = "must be at least 1 and at most 1000000";
                return Err(UsageError::new("--epochs", epochs, expected));
            }
            if let Some(batches) = task.batches_per_epoch() {
                self.steps = (epochs * batches).div_ceil(self.accumulate.max(1));
            } else if !task.is_text() {
                let expected = "is of --task text alone; the examples of others have no end";
                return Err(UsageError::new("--epochs", epochs, expected));
            }
        }
        for (flag, value) in [
            ("--steps", self.steps),
            ("--batch-size", self.batch_size),
            ("--accumulate", self.accumulate),
            ("--eval-every", self.eval_every.unwrap_or(1)),
            ("--patience", self.patience.unwrap_or(1)),
            ("--loss-chunk", self.loss_chunk.unwrap_or(1)),
            ("--checkpoint-every", self.checkpoint_every.unwrap_or(1)),
            ("--keep", self.keep),
            ("eval_size", self.eval_size),
            ("test_size", self.test_size),
        ] {
            if value == 0 {
                return Err(UsageError::new(flag, value, "must be at least 1"));
            }
            if value > 1_000_000_000 {
                let expected = "must be at most 1000000000";
                return Err(UsageError::new(flag, value, expected));
            }
        }
        for (flag, value, most) in [
            ("--accumulate", self.accumulate, 100_000),
            ("eval_size", self.eval_size, 1_000_000),
            ("test_size", self.test_size, 1_000_000),
        ] {
            if value > most {
                return Err(UsageError::new(
                    flag,
                    value,
                    format!("must be at most {most}"),
                ));
            }
        }
        let is_share = |x: f64| x > 0.0 && x < 1.0;
        let is_positive = |x: f64| x > 0.0 && x.is_finite();
        let (factor, warmup) = self.schedule.parts();
        let exact_match = "must be an exact match above 0 and at most 1";
        for (flag, value, is_right, expected) in [
            (
                "--target",
                self.target,
                (|x| x > 0.0 && x <= 1.0) as fn(f64) -> bool,
                exact_match,
            ),
            (
                "--factor",
                Some(factor),
                is_positive,
                "must be a positive number",
            ),
            (
                "--checkpoint-seconds",
                self.checkpoint_seconds,
                is_positive,
                "must be a positive number",
            ),
            (
                "--ema",
                self.ema,
                is_share,
                "must be above 0 and less than 1",
            ),
        ] {
            if let Some(value) = value
                && !is_right(value)
            {
                return Err(UsageError::new(flag, value, expected));
            }
        }
        if warmup == 0 {
            return Err(UsageError::new("--warmup", warmup, "must be at least 1"));
        }
        self.optimizer.check()?;
        if self.best_by == BestBy::Bleu && !task.is_text() {
            let expected = "is for --task text, whose targets are texts";
            return Err(UsageError::new("--best-by", "bleu", expected));
        }
        if let (Some(chunk), true) = (self.loss_chunk, self.precision != Precision::F32) {
            let expected = "needs --precision f32";
            return Err(UsageError::new("--loss-chunk", chunk, expected));
        }
        self.eval_lengths
            .as_ref()
            .map_or(Ok(()), LengthsConfig::check)?;
        self.model.source_vocab_size = task.source_vocab_size();
        self.model.target_vocab_size = task.target_vocab_size();
        self.model.pad_id = task.pad_id();
        self.model.max_len = task.max_len();
        self.model.validate()?;
        self.check_size()?;
        transformer::CrossEntropy::new(self.label_smoothing, self.model.pad_id)?;
        Ok(())
    }
}

impl RunConfig {
    /// Refuses what no machine could hold, before it runs out of memory.
    fn check_size(&self) -> Result<(), UsageError> {
        let model = &self.model;
        let [d, f, v] = [model.d_model, model.d_ff, model.target_vocab_size].map(|x| x as f64);
        let layers = (model.n_encoder_layers + model.n_decoder_layers) as f64;
        let parameters = layers * (6.0 * d * d + 3.0 * d * f) + 3.0 * v * d;
        if parameters > 4e9 {
            return Err(UsageError::new(
                "--d-model",
                model.d_model,
                format!(
                    "with --layers {}, --d-ff {} and {} symbols makes about {parameters:.0e} parameters, must be at most 4e9",
                    model.n_encoder_layers, model.d_ff, model.target_vocab_size
                ),
            ));
        }
        if let TaskConfig::Text(text) = &self.task {
            let cells = text.batch_tokens.max(model.max_len) as f64 * d.max(f).max(v);
            if cells > 4e9 {
                let expected =
                    format!("makes activations of {cells:.0e} numbers, must be at most 4e9");
                return Err(UsageError::new(
                    "--batch-tokens",
                    text.batch_tokens,
                    expected,
                ));
            }
            return Ok(());
        }
        let cells = (self.batch_size * model.max_len) as f64 * d.max(f).max(v);
        if cells > 4e9 {
            return Err(UsageError::new(
                "--batch-size",
                self.batch_size,
                format!(
                    "with sequences of {} tokens makes activations of {cells:.0e} numbers, must be at most 4e9",
                    model.max_len
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_goes_there_and_back() {
        for mut config in [RunConfig::copy(), RunConfig::annotated()] {
            config.resolve().unwrap();
            let json = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<RunConfig>(&json).unwrap(), config);
        }
    }

    #[test]
    fn the_model_is_fitted_to_the_task() {
        let mut config = RunConfig::copy();
        config.resolve().unwrap();
        assert_eq!(config.model.source_vocab_size, 36);
        assert_eq!(config.model.max_len, 18);
        let mut config = RunConfig::annotated();
        config.resolve().unwrap();
        assert_eq!(config.model.target_vocab_size, 11);
        assert_eq!((config.model.d_model, config.model.d_ff), (512, 2048));
        assert_eq!(config.model.dropout, 0.1);
    }
}
