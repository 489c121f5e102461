//! Settings that say where and how a run computes: the section `execution` of a run's
//! configuration.

use serde::{Deserialize, Serialize};

use crate::checks::{MANY, check_count};
use crate::error::UsageError;

/// Settings that say where and how a run computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutionConfig {
    /// Name of the backend, such as `flex`. If a device was chosen, its index follows after a
    /// colon, such as `cuda:1`.
    pub backend: String,
    /// Number format of the model's computations. Parameters and optimizer moments stay f32.
    pub precision: Precision,
    /// Whether the backward pass computes some activations again instead of keeping them in memory.
    pub gradient_checkpointing: bool,
    /// Whether operations use the fast paths of the crate `fused`, on backends that have them.
    pub fused: bool,
    /// Number of tokens whose logits are held in memory at a time during training; `None` for a
    /// whole batch. Has no effect unless `fused` is set.
    pub loss_chunk: Option<usize>,
}

impl Default for ExecutionConfig {
    /// Returns settings with fast paths and f32. `backend` is empty, so the caller must set it.
    fn default() -> Self {
        Self {
            backend: String::new(),
            precision: Precision::F32,
            gradient_checkpointing: false,
            fused: true,
            loss_chunk: None,
        }
    }
}

/// Number format of the model's computations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits, 5 of them for the exponent. The loss is multiplied by a factor, so that small
    /// gradients do not become 0.
    F16,
    /// 16 bits, 8 of them for the exponent.
    Bf16,
}

impl Precision {
    /// Returns the name of the format in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

impl ExecutionConfig {
    /// Switches the fast paths of the calling thread on or off, according to `fused`. The setting
    /// holds until the returned guard is dropped. Hold the guard while you compute with the run's
    /// model. [`Trainer::train`](crate::trainer::Trainer::train) and the
    /// [`Finished`](crate::trainer::Finished) run that it returns hold such a guard themselves.
    pub fn fast_paths(&self) -> fused::FastPaths {
        fused::fast_paths(self.fused)
    }

    /// Returns whether the model computes with tensors of 16 bits. In bf16 with fast paths on flex,
    /// all tensors stay f32, and only matmuls may use bf16.
    pub fn has_16_bit_tensors(&self) -> bool {
        match self.precision {
            Precision::F32 => false,
            Precision::F16 => true,
            Precision::Bf16 => {
                let is_flex = self.backend.split(':').next() == Some("flex");
                !(self.fused && is_flex)
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), UsageError> {
        let Some(chunk) = self.loss_chunk else {
            return Ok(());
        };
        let path = "execution.loss_chunk";
        check_count(path, chunk, MANY)?;
        let is_f32 = !self.has_16_bit_tensors();
        let checked = UsageError::check(is_f32, path, chunk, "needs {} f32, or bf16 on flex");
        checked.map_err(|error| error.naming(["execution.precision"]))
    }
}
