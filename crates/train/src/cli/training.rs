//! Flags of the optimiser, of checkpoints and of a run that goes on.

use std::path::PathBuf;

use clap::Args;

use super::search::needs;
use super::{set, whole_number};
use crate::config::RunConfig;
use crate::error::UsageError;
use crate::fit::{BestBy, Precision};
use crate::optimizer::OptimizerKind;

/// Flags of `fit` about the training itself.
#[derive(Clone, Debug, Default, Args)]
pub struct TrainingArgs {
    /// The optimiser [default: adam]
    #[arg(long)]
    pub optimizer: Option<OptimizerKind>,
    /// AdamW's decay, times the learning rate; biases and norms have none [default: 0.01]
    #[arg(long, allow_negative_numbers = true)]
    pub weight_decay: Option<f32>,
    /// Longest gradient, over all parameters together; a longer one is scaled down to it [default:
    /// none; text: 1]
    #[arg(long, allow_negative_numbers = true)]
    pub clip_norm: Option<f32>,
    /// Batches in a step, whose gradients are added up [default: 1]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub accumulate: Option<usize>,
    /// Decay of a moving average of the parameters, which is then what is evaluated [default: none]
    #[arg(long, value_name = "DECAY", allow_negative_numbers = true)]
    pub ema: Option<f64>,
    /// What the model computes with; parameters stay f32 [default: f32]
    #[arg(long)]
    pub precision: Option<Precision>,
    /// Compute activations again in the backward pass instead of keeping them
    #[arg(long)]
    pub gradient_checkpointing: bool,
    /// No fast paths: every operation as the backend has it
    #[arg(long)]
    pub no_fused: bool,
    /// Hold the logits of so many tokens at a time, for large vocabularies [default: all]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true, value_parser = whole_number)]
    pub loss_chunk: Option<usize>,
    /// What makes an evaluation the best [default: loss]
    #[arg(long)]
    pub best_by: Option<BestBy>,
    /// Stop after so many evaluations without a better one, and take the best [default: none]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub patience: Option<usize>,
    /// Steps between checkpoints [default: none]
    #[arg(long, value_name = "STEPS", allow_negative_numbers = true, value_parser = whole_number)]
    pub checkpoint_every: Option<usize>,
    /// Seconds between checkpoints [default: 600]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub checkpoint_seconds: Option<f64>,
    /// Newest checkpoints to keep, besides the best [default: 3]
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = whole_number)]
    pub keep: Option<usize>,
}

impl TrainingArgs {
    /// Puts what was given into the configuration.
    ///
    /// # Errors
    ///
    /// A flag that would change nothing.
    pub(super) fn apply(&self, config: &mut RunConfig) -> Result<(), UsageError> {
        let optimizer = &mut config.optimizer;
        set(&mut optimizer.kind, self.optimizer);
        set(&mut optimizer.weight_decay, self.weight_decay);
        optimizer.clip_norm = self.clip_norm.or(optimizer.clip_norm);
        set(&mut config.accumulate, self.accumulate);
        config.ema = self.ema.or(config.ema);
        set(&mut config.precision, self.precision);
        config.gradient_checkpointing |= self.gradient_checkpointing;
        config.fused &= !self.no_fused;
        config.loss_chunk = self.loss_chunk.or(config.loss_chunk);
        set(&mut config.best_by, self.best_by);
        config.patience = self.patience.or(config.patience);
        config.checkpoint_every = self.checkpoint_every.or(config.checkpoint_every);
        config.checkpoint_seconds = self.checkpoint_seconds.or(config.checkpoint_seconds);
        set(&mut config.keep, self.keep);
        let is_adamw = config.optimizer.kind == OptimizerKind::AdamW;
        needs(
            "--weight-decay",
            self.weight_decay,
            "--optimizer adamw",
            is_adamw,
        )
    }
}

/// Flags of `resume`.
#[derive(Clone, Debug, Args)]
pub struct ResumeArgs {
    /// Folder of the run; its newest whole checkpoint is taken
    pub run: PathBuf,
    /// Training steps in all [default: as the run was begun with]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub steps: Option<usize>,
    /// Backend and device, `NAME` or `NAME:INDEX` [default: the run's]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// No dashboard: a progress bar, or lines
    #[arg(long)]
    pub plain: bool,
}
