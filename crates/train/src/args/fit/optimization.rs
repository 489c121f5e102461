//! Flags of `fit` about batches and updates.

use clap::Args;
use training::config::{LoraConfig, OptimizationConfig, OptimizerKind, ScheduleKind};
use training::data::DataConfig;
use training::error::UsageError;

use crate::args::check::{needs, reject, set};
use crate::args::parse::{DECAY, FRACTION, NOT_NEGATIVE, POSITIVE, listed, number, whole_number};
use crate::args::values::{OPTIMIZER, SCHEDULE};

/// Flags of `fit` about batches and updates.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct OptimizationArgs {
    /// Training steps
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub steps: Option<usize>,
    /// Passes over the training data (text only), instead of --steps [default: 10; with --from: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>, conflicts_with = "steps")]
    pub epochs: Option<usize>,
    /// Sequences in a batch (not for text)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub batch_size: Option<usize>,
    /// Maximum tokens of each side of a batch of several pairs, padding included (text only)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub batch_tokens: Option<usize>,
    /// Number of batches in a step, whose gradients are added up [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub accumulate: Option<usize>,
    /// Optimizer [default: adam]
    #[arg(long, value_name = "RULE", value_parser = listed::<OptimizerKind>(OPTIMIZER))]
    pub optimizer: Option<OptimizerKind>,
    /// How the learning rate falls after its warm-up
    #[arg(long, value_name = "SHAPE", value_parser = listed::<ScheduleKind>(SCHEDULE))]
    pub schedule: Option<ScheduleKind>,
    /// Learning rate at the end of the warm-up, its peak
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, conflicts_with = "factor", value_parser = number::<f64>("a number above 0, such as 0.001 or 5e-4"))]
    pub learning_rate: Option<f64>,
    /// Another way to give the peak learning rate: FACTOR / sqrt(d_model * warmup), as in the paper
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true, value_parser = number::<f64>(POSITIVE))]
    pub factor: Option<f64>,
    /// Number of steps in which the learning rate rises
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub warmup: Option<usize>,
    /// Weight decay of AdamW, which multiplies it by the learning rate; biases and norms have none
    /// [default: 0.01]
    #[arg(long, value_name = "DECAY", allow_negative_numbers = true, value_parser = number::<f32>(NOT_NEGATIVE))]
    pub weight_decay: Option<f32>,
    /// Clip the global gradient norm to this value
    #[arg(long, value_name = "NORM", allow_negative_numbers = true, value_parser = number::<f32>(POSITIVE))]
    pub clip_norm: Option<f32>,
    /// Share of the target distribution that is spread over all tokens
    #[arg(long, value_name = "P", allow_negative_numbers = true, value_parser = number::<f64>(FRACTION))]
    pub label_smoothing: Option<f64>,
    /// Decay of a moving average of the parameters, which is evaluated and saved [default: none]
    #[arg(long, value_name = "DECAY", allow_negative_numbers = true, value_parser = number::<f64>(DECAY))]
    pub ema: Option<f64>,
    /// Train only low-rank matrices, of rank N, beside the weights of the linear layers (LoRA); the
    /// trained model has their products added to the weights
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub lora_rank: Option<usize>,
    /// Alpha of LoRA: products of low-rank matrices are multiplied by ALPHA / rank [default: twice
    /// the rank]
    #[arg(long, value_name = "ALPHA", allow_negative_numbers = true, value_parser = number::<f64>(POSITIVE))]
    pub lora_alpha: Option<f64>,
}

impl OptimizationArgs {
    /// Overrides settings by the given flags.
    ///
    /// # Errors
    ///
    /// A flag that has no effect with the other settings, or that the task does not have.
    pub fn apply(
        &self,
        optimization: &mut OptimizationConfig,
        data: &mut DataConfig,
    ) -> Result<(), UsageError> {
        if let DataConfig::Text(text) = data {
            let expected = "is not a flag of --task text; use --batch-tokens";
            reject("--batch-size", self.batch_size, expected)?;
            set(&mut text.batch_tokens, self.batch_tokens);
            if let Some(epochs) = self.epochs {
                optimization.epochs = Some(epochs);
            } else if self.steps.is_some() {
                optimization.epochs = None;
            }
        } else {
            let expected = "belongs to --task text only; use --batch-size";
            reject("--batch-tokens", self.batch_tokens, expected)?;
            let expected = "belongs to --task text only; use --steps";
            reject("--epochs", self.epochs, expected)?;
        }
        set(&mut optimization.steps, self.steps);
        set(&mut optimization.batch_size, self.batch_size);
        set(&mut optimization.accumulate, self.accumulate);
        set(&mut optimization.label_smoothing, self.label_smoothing);
        optimization.ema = self.ema.or(optimization.ema);
        if let Some(rank) = self.lora_rank {
            let alpha = 2.0 * rank as f64;
            optimization.lora = Some(LoraConfig { rank, alpha });
        }
        match (&mut optimization.lora, self.lora_alpha) {
            (Some(lora), Some(alpha)) => lora.alpha = alpha,
            (lora, alpha) => needs("--lora-alpha", alpha, "--lora-rank", lora.is_some())?,
        }
        let schedule = &mut optimization.schedule;
        set(&mut schedule.kind, self.schedule);
        if let Some(factor) = self.factor {
            (schedule.factor, schedule.learning_rate) = (factor, None);
        }
        schedule.learning_rate = self.learning_rate.or(schedule.learning_rate);
        set(&mut schedule.warmup, self.warmup);
        let optimizer = &mut optimization.optimizer;
        set(&mut optimizer.kind, self.optimizer);
        set(&mut optimizer.weight_decay, self.weight_decay);
        optimizer.clip_norm = self.clip_norm.or(optimizer.clip_norm);
        let is_adamw = optimizer.kind == OptimizerKind::AdamW;
        let adamw = "--optimizer adamw";
        needs("--weight-decay", self.weight_decay, adamw, is_adamw)
    }
}
