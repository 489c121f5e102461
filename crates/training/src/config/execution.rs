//! Settings that say where and how a run computes: the section `execution` of a run's
//! configuration.

use serde::{Deserialize, Serialize};

use crate::error::UsageError;
use crate::setting::{MANY, choice, choices, settings, switch, text, whole};

settings! {
    /// Settings that say where and how a run computes.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct ExecutionConfig in "execution." {
        /// Backend and device, `NAME` or `NAME:INDEX`; without it, the default of `train backends`.
        backend: String = String::new(), text().flag("--backend", "NAME").local().may_change();
        /// Number format of the model's computations; parameters stay f32.
        precision: Precision = Precision::F32, choice(Precision::choices).flag("--precision", "FORMAT");
        /// Recompute activations in the backward pass instead of keeping them.
        gradient_checkpointing: bool = false, switch().flag("--gradient-checkpointing", "").may_change();
        /// Whether operations use the fast paths of the crate `fused`, on backends that have them.
        fused: bool = true, switch();
        /// Tokens whose logits are held at a time, for large vocabularies; without it, all.
        ///
        /// Has no effect unless `fused` is set.
        loss_chunk: Option<usize> = None, whole(1, MANY);
    }
}

choices! {
    /// Number format of the model's computations.
    pub enum Precision {
        /// 32 bits.
        F32 = "f32",
        /// 16 bits, 5 of them for the exponent; the loss is scaled.
        F16 = "f16",
        /// 16 bits, 8 of them for the exponent.
        Bf16 = "bf16",
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
    pub(crate) fn has_16_bit_tensors(&self) -> bool {
        let keeps_f32 = self.precision == Precision::Bf16 && self.fused && self.is_flex();
        self.precision != Precision::F32 && !keeps_f32
    }

    /// Returns whether the backend is Flex.
    pub(crate) fn is_flex(&self) -> bool {
        self.backend.split(':').next() == Some("flex")
    }

    /// Checks the relations between the settings.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        let chunk = self.loss_chunk.filter(|_| self.has_16_bit_tensors());
        chunk.map_or(Ok(()), |chunk| {
            let expected = format!("needs {} f32, or bf16 on flex", Self::precision);
            Err(UsageError::setting(Self::loss_chunk, chunk, expected))
        })
    }
}
