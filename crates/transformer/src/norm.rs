//! Layer normalisation (paper, section 3.1; Ba, Kiros and Hinton 2016) and RMS normalisation (Zhang
//! and Sennrich 2019):
//!
//! ```text
//! LayerNorm(x) = γ (x - mean) / sqrt(variance + ε) + β
//!   RMSNorm(x) = γ x / sqrt(mean(x²) + ε)
//! ```
//!
//! The variance is the sum of squared deviations divided by `D`, or by `D - 1` if the configuration
//! asks for the unbiased variance. The code always divides by `D`. For the unbiased variance, it
//! multiplies `γ` by `sqrt((D - 1) / D)`, which gives the same result except for the effect of `ε`.

use burn::module::{Module, Param};
use burn::tensor::{Device, FloatDType, Tensor};

use crate::config::{NormConfig, NormKind, NormVariance};
use crate::error::ConfigError;
use crate::linear::rows;

/// Layer normalisation or RMS normalisation of vectors.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// Scale `γ`, `[D]`.
    pub gamma: Param<Tensor<1>>,
    /// Shift `β`, `[D]`; `None` for RMS normalisation.
    pub beta: Option<Param<Tensor<1>>>,
    epsilon: f64,
    /// Factor by which `gamma` is multiplied for the unbiased variance; `None` for the biased
    /// variance.
    scale: Option<f64>,
}

impl NormConfig {
    /// Builds the norm, with scale 1 and shift 0.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init(&self, device: &Device) -> Result<LayerNorm, ConfigError> {
        self.validate()?;
        Ok(LayerNorm::build(self, device))
    }
}

impl LayerNorm {
    pub(crate) fn build(config: &NormConfig, device: &Device) -> Self {
        let d_model = config.d_model;
        let is_unbiased = config.variance == NormVariance::Unbiased;
        Self {
            gamma: Param::from_tensor(Tensor::ones([d_model], device)),
            beta: (config.kind == NormKind::Layer)
                .then(|| Param::from_tensor(Tensor::zeros([d_model], device))),
            epsilon: config.epsilon,
            scale: is_unbiased.then(|| ((d_model - 1) as f64 / d_model as f64).sqrt()),
        }
    }

    /// Returns `gamma`, multiplied by `scale` if the variance is unbiased.
    fn gamma(&self) -> Tensor<1> {
        let gamma = self.gamma.val();
        match self.scale {
            Some(scale) => gamma * scale,
            None => gamma,
        }
    }

    fn beta(&self) -> Option<Tensor<1>> {
        self.beta.as_ref().map(Param::val)
    }

    /// Normalises each vector of `x`.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// If `D` of `x` is not the size of `gamma`, or `x` has no vectors.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let shape = x.dims();
        self.normalize(rows(x)).reshape(shape)
    }

    /// Normalises each row of `x + dropout(y)`.
    ///
    /// # Shapes
    ///
    /// - x, y: `[N, D]`
    /// - output: `[N, D]`
    pub(crate) fn forward_residual(&self, x: Tensor<2>, y: Tensor<2>, dropout: f64) -> Tensor<2> {
        match x.dtype().into() {
            FloatDType::F16 | FloatDType::BF16 => self.normalize(fused::residual(x, y, dropout)),
            _ => {
                let (gamma, beta) = (self.gamma(), self.beta());
                fused::residual_norm(x, y, gamma, beta, dropout, self.epsilon)
            }
        }
    }

    /// Returns `x + dropout(y)`, and the same sum with each row normalised.
    ///
    /// # Shapes
    ///
    /// - x, y: `[N, D]`
    /// - outputs: `[N, D]` each
    pub(crate) fn forward_both(
        &self,
        x: Tensor<2>,
        y: Tensor<2>,
        dropout: f64,
    ) -> (Tensor<2>, Tensor<2>) {
        match x.dtype().into() {
            FloatDType::F16 | FloatDType::BF16 => {
                let sum = fused::residual(x, y, dropout);
                (sum.clone(), self.normalize(sum))
            }
            _ => {
                let (gamma, beta) = (self.gamma(), self.beta());
                fused::residual_and_norm(x, y, gamma, beta, dropout, self.epsilon)
            }
        }
    }

    /// Normalises each row of `rows`, `[N, D]`, and computes in f32 if they are in half precision.
    fn normalize(&self, rows: Tensor<2>) -> Tensor<2> {
        let (gamma, beta) = (self.gamma(), self.beta());
        let precision: FloatDType = rows.dtype().into();
        match precision {
            // Squared elements may overflow f16, and bf16 is not precise enough for them.
            FloatDType::F16 | FloatDType::BF16 => {
                let single = FloatDType::F32;
                let (gamma, beta) = (gamma.cast(single), beta.map(|beta| beta.cast(single)));
                fused::layer_norm(rows.cast(single), gamma, beta, self.epsilon).cast(precision)
            }
            _ => fused::layer_norm(rows, gamma, beta, self.epsilon),
        }
    }
}
