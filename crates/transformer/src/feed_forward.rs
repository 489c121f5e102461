//! The position-wise feed-forward network (paper, section 3.3, equation 2):
//!
//! ```text
//! FFN(x) = dropout(act(x W_1 + b_1)) W_2 + b_2
//! ```

use burn::module::Module;
use burn::nn::{Dropout, Linear};
use burn::tensor::{Device, Tensor};

use crate::config::{Activation, FeedForwardConfig};
use crate::dropout::{layer, probability};
use crate::error::ConfigError;
use crate::init::Init;
use crate::linear::linear;

/// Two linear layers with an activation function between them, applied to every position.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// First layer, `[D, F]`. A gated [`Activation`] needs `[D, 2 F]`: weights of the gates before
    /// weights of the values.
    pub w_1: Linear,
    /// Second layer, `[F, D]`.
    pub w_2: Linear,
    /// Dropout of the inner activation.
    pub dropout: Dropout,
    #[module(skip)]
    activation: Activation,
}

impl FeedForwardConfig {
    /// Builds the network.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init(&self, device: &Device) -> Result<FeedForward, ConfigError> {
        self.validate()?;
        Ok(FeedForward::build(self, &mut Init::new(device)))
    }
}

impl FeedForward {
    pub(crate) fn build(config: &FeedForwardConfig, init: &mut Init) -> Self {
        let gate_and_value = [(config.d_ff, 1.0); 2];
        let parts = if config.activation.is_gated() { 2 } else { 1 };
        Self {
            w_1: init.packed_linear(config.d_model, &gate_and_value[..parts], config.biases),
            w_2: init.linear(config.d_ff, config.d_model, config.biases),
            dropout: layer(config.dropout, init.device()),
            activation: config.activation,
        }
    }

    /// Applies the network.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - output: `[B, T, D]`
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, _] = x.dims();
        let inner = linear(&self.w_1, x).flatten(0, 1);
        let dropout = probability(&self.dropout);
        let inner = fused::activate(inner, self.activation.operation(), dropout);
        let [_, d_ff] = inner.dims();
        linear(&self.w_2, inner.reshape([batch, length, d_ff]))
    }
}
