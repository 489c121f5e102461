//! Flags of `fit` about updates, evaluations and checkpoints.

use clap::Args;
use training::config::{BestBy, OptimizerKind, Precision, RunConfig};
use training::error::UsageError;

use super::check::{needs, set};
use super::parse::{listed, whole_number};
use super::values::{BEST_BY, OPTIMIZER, PRECISION};

/// Flags of `fit` about updates, evaluations and checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct TrainingArgs {
    /// Optimizer [default: adam]
    #[arg(long, value_parser = listed::<OptimizerKind>(OPTIMIZER))]
    pub optimizer: Option<OptimizerKind>,
    /// Weight decay of AdamW, times the learning rate; biases and norms have none [default: 0.01]
    #[arg(long, allow_negative_numbers = true)]
    pub weight_decay: Option<f32>,
    /// Clip the global gradient norm to this value [default: none; text: 1]
    #[arg(long, allow_negative_numbers = true)]
    pub clip_norm: Option<f32>,
    /// Number of batches in a step, whose gradients are added up [default: 1]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub accumulate: Option<usize>,
    /// Decay of a moving average of the parameters, which is evaluated and saved [default: none]
    #[arg(long, value_name = "DECAY", allow_negative_numbers = true)]
    pub ema: Option<f64>,
    /// Number format of the model's computations; parameters stay f32 [default: f32]
    #[arg(long, value_parser = listed::<Precision>(PRECISION))]
    pub precision: Option<Precision>,
    /// Recompute activations in the backward pass instead of keeping them
    #[arg(long)]
    pub gradient_checkpointing: bool,
    /// Switch off the fast paths, so that only the backend's own operations are used
    #[arg(long)]
    pub no_fused: bool,
    /// Hold the logits of this many tokens at a time, for large vocabularies [default: all]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub loss_chunk: Option<usize>,
    /// Measure that decides which evaluation is the best [default: loss]
    #[arg(long, value_parser = listed::<BestBy>(BEST_BY))]
    pub best_by: Option<BestBy>,
    /// Stop after N evaluations without improvement, and keep the best model [default: none]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub patience: Option<usize>,
    /// Steps between checkpoints [default: none]
    #[arg(long, value_name = "STEPS", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub checkpoint_every: Option<usize>,
    /// Seconds between checkpoints [default: 600]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub checkpoint_seconds: Option<f64>,
    /// Number of newest checkpoints to keep, besides the best [default: 3]
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub keep: Option<usize>,
}

impl TrainingArgs {
    /// Overrides settings by the given flags.
    ///
    /// # Errors
    ///
    /// A flag without effect.
    pub fn apply(&self, config: &mut RunConfig) -> Result<(), UsageError> {
        let optimization = &mut config.optimization;
        let optimizer = &mut optimization.optimizer;
        set(&mut optimizer.kind, self.optimizer);
        set(&mut optimizer.weight_decay, self.weight_decay);
        optimizer.clip_norm = self.clip_norm.or(optimizer.clip_norm);
        let is_adamw = optimizer.kind == OptimizerKind::AdamW;
        set(&mut optimization.accumulate, self.accumulate);
        optimization.ema = self.ema.or(optimization.ema);
        let execution = &mut config.execution;
        set(&mut execution.precision, self.precision);
        execution.gradient_checkpointing |= self.gradient_checkpointing;
        execution.fused &= !self.no_fused;
        execution.loss_chunk = self.loss_chunk.or(execution.loss_chunk);
        let evaluation = &mut config.evaluation;
        set(&mut evaluation.best_by, self.best_by);
        evaluation.patience = self.patience.or(evaluation.patience);
        let checkpointing = &mut config.checkpointing;
        checkpointing.every = self.checkpoint_every.or(checkpointing.every);
        checkpointing.seconds = self.checkpoint_seconds.or(checkpointing.seconds);
        set(&mut checkpointing.keep, self.keep);
        let adamw = "--optimizer adamw";
        needs("--weight-decay", self.weight_decay, adamw, is_adamw)
    }
}
