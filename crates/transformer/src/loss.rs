//! Cross-entropy with label smoothing (paper, section 5.4).
//!
//! The target distribution is `1 - ε` on the right token plus `ε / V` on each of the `V` tokens:
//!
//! ```text
//! loss = mean over real tokens of  -(1 - ε) log p(right) - ε / V  Σ_v log p(v)
//! ```
//!
//! which is `torch.nn.functional.cross_entropy(label_smoothing = ε, ignore_index = pad)`.

use burn::tensor::{Int, Tensor};

use crate::decoder::Decoder;
use crate::error::ConfigError;

/// Label-smoothed cross-entropy that does not count padding.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy {
    smoothing: f64,
    pad_id: u32,
}

/// A loss that has not been divided yet, so that several batches can be put together.
#[derive(Clone, Debug)]
pub struct LossSum {
    /// Sum over the real tokens, `[1]`.
    pub sum: Tensor<1>,
    /// Number of real tokens, `[1]`, without gradient.
    pub tokens: Tensor<1>,
}

impl LossSum {
    /// Mean over the real tokens, `[1]`; 0 if there are none.
    pub fn mean(self) -> Tensor<1> {
        self.sum / self.tokens.clamp_min(1.0)
    }
}

impl CrossEntropy {
    /// `smoothing` is `ε`; 0 is plain cross-entropy.
    ///
    /// # Errors
    ///
    /// If `smoothing` is not in `[0, 1)`.
    pub fn new(smoothing: f64, pad_id: u32) -> Result<Self, ConfigError> {
        if !(0.0..1.0).contains(&smoothing) {
            return Err(ConfigError::new(
                "label_smoothing",
                smoothing,
                "at least 0 and less than 1",
            ));
        }
        Ok(Self { smoothing, pad_id })
    }

    /// Mean loss over the real tokens, `[1]`; 0 for a batch of nothing but padding.
    ///
    /// # Shapes
    ///
    /// - logits: `[B, T, V]`
    /// - target: `[B, T]`, the token after each position
    ///
    /// # Panics
    ///
    /// If `B` or `T` differ.
    pub fn forward(&self, logits: Tensor<3>, target: Tensor<2, Int>) -> Tensor<1> {
        self.sum(logits, target).mean()
    }

    /// Sum of the loss, and the number of tokens to divide it by.
    ///
    /// # Shapes
    ///
    /// As [`forward`](Self::forward).
    ///
    /// # Panics
    ///
    /// If `B` or `T` differ.
    pub fn sum(&self, logits: Tensor<3>, target: Tensor<2, Int>) -> LossSum {
        let [batch, length, vocab_size] = logits.dims();
        assert_eq!(
            [batch, length],
            target.dims(),
            "logits are [{batch}, {length}, {vocab_size}], but the target is {:?}",
            target.dims()
        );
        let rows = batch * length;
        let target = target.reshape([rows]);
        let tokens = target.clone().not_equal_elem(self.pad_id).float();
        let logits = logits.reshape([rows, vocab_size]);
        let loss = fused::cross_entropy(logits, target, self.pad_id, self.smoothing);
        LossSum {
            sum: loss.sum(),
            tokens: tokens.sum().detach(),
        }
    }

    /// The same from states, by the decoder's generator, with the logits of `rows_at_a_time` tokens
    /// at a time: `B T V` numbers less to hold, one more product to compute. Without gradients, and
    /// on a backend that is no feature of this crate, all logits may be there at once.
    ///
    /// # Shapes
    ///
    /// - states: `[B, T, D]`, of [`Decoder::forward_vectors`]
    /// - target: `[B, T]`, the token after each position
    ///
    /// # Panics
    ///
    /// If `B` or `T` differ, or `rows_at_a_time` is 0.
    pub fn sum_in_chunks(
        &self,
        decoder: &Decoder,
        states: Tensor<3>,
        target: Tensor<2, Int>,
        rows_at_a_time: usize,
    ) -> LossSum {
        let [batch, length, d_model] = states.dims();
        assert_eq!(
            [batch, length],
            target.dims(),
            "states are [{batch}, {length}, {d_model}], but the target is {:?}",
            target.dims()
        );
        let rows = batch * length;
        let target = target.reshape([rows]);
        let tokens = target.clone().not_equal_elem(self.pad_id).float();
        let loss = fused::linear_cross_entropy(
            states.reshape([rows, d_model]),
            decoder.generator_weight(),
            decoder.generator.bias.val(),
            target,
            self.pad_id,
            self.smoothing,
            rows_at_a_time,
        );
        LossSum {
            sum: loss.sum(),
            tokens: tokens.sum().detach(),
        }
    }
}
