//! Flags of `fit` about speed and memory.

use clap::Args;
use training::config::{ExecutionConfig, Precision};
use training::error::UsageError;

use crate::args::backend::BackendArgs;
use crate::args::check::set;
use crate::args::parse::{listed, whole_number};
use crate::args::values::PRECISION;

/// Flags of `fit` about speed and memory.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct ExecutionArgs {
    #[command(flatten)]
    pub backend: BackendArgs,
    /// Number format of the model's computations; parameters stay f32 [default: f32]
    #[arg(long, value_name = "FORMAT", value_parser = listed::<Precision>(PRECISION))]
    pub precision: Option<Precision>,
    /// Recompute activations in the backward pass instead of keeping them
    #[arg(long)]
    pub gradient_checkpointing: bool,
    /// Hold the logits of this many tokens at a time, for large vocabularies [default: all]
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub loss_chunk: Option<usize>,
    /// Switch off the fast paths, so that only the backend's own operations are used
    #[arg(long)]
    pub no_fused: bool,
}

impl ExecutionArgs {
    /// Overrides settings by the given flags.
    ///
    /// # Errors
    ///
    /// A backend that cannot be used.
    pub fn apply(&self, execution: &mut ExecutionConfig) -> Result<(), UsageError> {
        if self.backend.backend.is_some() || execution.backend.is_empty() {
            execution.backend = self.backend.choose()?.to_string();
        }
        set(&mut execution.precision, self.precision);
        execution.gradient_checkpointing |= self.gradient_checkpointing;
        execution.fused &= !self.no_fused;
        execution.loss_chunk = self.loss_chunk.or(execution.loss_chunk);
        Ok(())
    }
}
