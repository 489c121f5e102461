//! Settings of the parameter updates: the section `optimization` of a run's configuration.

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use crate::checks::{FLOAT32, FRACTION, POSITIVE, check_count, check_positive};
use crate::error::UsageError;
use crate::schedule::Schedule;

/// Settings of the parameter updates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizationConfig {
    /// Number of training steps. If `epochs` is set, the number of steps follows from it.
    pub steps: usize,
    /// Number of passes over the training data; `None` if `steps` limits training. Synthetic tasks
    /// must have `None`, because they have no epochs.
    pub epochs: Option<usize>,
    /// Number of sequences in a batch; ignored by data sets that limit a batch by its tokens.
    pub batch_size: usize,
    /// Number of batches in a step. Their gradients are added up.
    pub accumulate: usize,
    /// Optimizer and its settings.
    pub optimizer: OptimizerConfig,
    /// Schedule of the learning rate.
    pub schedule: Schedule,
    /// Label smoothing `ε` of the loss (Vaswani et al. 2017, section 5.4).
    pub label_smoothing: f64,
    /// Decay of an exponential moving average of the parameters; `None` for no average. Evaluations
    /// and trained models use the average.
    pub ema: Option<f64>,
    /// Settings of LoRA, which trains low-rank matrices instead of all parameters; `None` to train
    /// all parameters.
    #[serde(default)]
    pub lora: Option<LoraConfig>,
}

/// Settings of LoRA (Hu et al. 2022): a matrix `W` of a linear layer becomes
/// `W + alpha / rank * A B`, and only `A` and `B` are trained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraConfig {
    /// Number of columns of `A` and of rows of `B`.
    pub rank: usize,
    /// Scale of the product `A B`, which is multiplied by `alpha / rank`.
    pub alpha: f64,
}

/// Algorithm that updates the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizerKind {
    /// Adam, as in Vaswani et al. 2017, section 5.3.
    Adam,
    /// Adam with decoupled weight decay.
    AdamW,
}

/// Optimizer and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerConfig {
    /// Algorithm that updates the parameters.
    pub kind: OptimizerKind,
    /// Decay of the first moment.
    #[serde(deserialize_with = "float32")]
    pub beta_1: f32,
    /// Decay of the second moment.
    #[serde(deserialize_with = "float32")]
    pub beta_2: f32,
    /// Small number that is added to the square root of the second moment, by which the update is
    /// divided.
    #[serde(deserialize_with = "float32")]
    pub epsilon: f32,
    /// Decoupled weight decay of AdamW, which is multiplied by the learning rate. Vectors, such as
    /// biases and the parameters of norms, are not decayed. Adam ignores this setting.
    #[serde(deserialize_with = "float32")]
    pub weight_decay: f32,
    /// Maximum global gradient norm, to which larger gradients are scaled; `None` for no maximum.
    #[serde(deserialize_with = "optional_float32")]
    pub clip_norm: Option<f32>,
}

/// Reads a number. Rejects one that `f32` rounds to 0 or to infinity.
fn float32<'de, D: Deserializer<'de>>(reader: D) -> Result<f32, D::Error> {
    let exact = f64::deserialize(reader)?;
    let rounded = exact as f32;
    if rounded.is_finite() && (rounded != 0.0 || exact == 0.0) {
        return Ok(rounded);
    }
    let found = Unexpected::Float(exact);
    Err(D::Error::invalid_value(found, &FLOAT32))
}

fn optional_float32<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<f32>, D::Error> {
    #[derive(Deserialize)]
    struct Float32(#[serde(deserialize_with = "float32")] f32);
    let read = Option::<Float32>::deserialize(reader)?;
    Ok(read.map(|Float32(number)| number))
}

impl Default for OptimizerConfig {
    /// Returns settings of Adam with the betas and the epsilon of Vaswani et al. 2017, section 5.3.
    fn default() -> Self {
        Self {
            kind: OptimizerKind::Adam,
            beta_1: 0.9,
            beta_2: 0.98,
            epsilon: 1e-9,
            weight_decay: 0.01,
            clip_norm: None,
        }
    }
}

impl OptimizationConfig {
    pub(super) fn check(&self) -> Result<(), UsageError> {
        for (path, value, most) in [
            ("optimization.steps", self.steps, 1_000_000_000),
            ("optimization.epochs", self.epochs.unwrap_or(1), 1_000_000),
            ("optimization.batch_size", self.batch_size, 1_000_000_000),
            ("optimization.accumulate", self.accumulate, 100_000),
        ] {
            check_count(path, value, most)?;
        }
        let ema = self.ema.unwrap_or(0.5);
        let is_decay = ema > 0.0 && ema < 1.0;
        UsageError::check(
            is_decay,
            "optimization.ema",
            ema,
            "must be above 0 and less than 1",
        )?;
        let (smoothing, path) = (self.label_smoothing, "optimization.label_smoothing");
        UsageError::check((0.0..1.0).contains(&smoothing), path, smoothing, FRACTION)?;
        if let Some(LoraConfig { rank, alpha }) = self.lora {
            check_count("optimization.lora.rank", rank, 65_536)?;
            check_positive("optimization.lora.alpha", alpha)?;
        }
        self.schedule.check()?;
        self.optimizer.check()
    }
}

impl OptimizerConfig {
    fn check(&self) -> Result<(), UsageError> {
        let is_fraction = |x: f32| (0.0..1.0).contains(&x);
        let is_positive = |x: f32| x > 0.0 && x.is_finite();
        let (decay, clip_norm) = (self.weight_decay, self.clip_norm.unwrap_or(1.0));
        let is_decay = decay == 0.0 || is_positive(decay);
        for (field, value, is_valid, expected) in [
            ("beta_1", self.beta_1, is_fraction(self.beta_1), FRACTION),
            ("beta_2", self.beta_2, is_fraction(self.beta_2), FRACTION),
            ("epsilon", self.epsilon, is_positive(self.epsilon), POSITIVE),
            (
                "weight_decay",
                decay,
                is_decay,
                "must be 0 or a positive number",
            ),
            ("clip_norm", clip_norm, is_positive(clip_norm), POSITIVE),
        ] {
            let path = format!("optimization.optimizer.{field}");
            UsageError::check(is_valid, path, value, expected)?;
        }
        Ok(())
    }
}
