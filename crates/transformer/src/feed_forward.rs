//! Position-wise feed-forward network (paper, section 3.3, equation 2):
//!
//! ```text
//! FFN(x) = dropout(act(x W_1 + b_1)) W_2 + b_2
//! ```

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear};
use burn::tensor::activation::{self, relu, sigmoid, silu};
use burn::tensor::{Device, Tensor};

use crate::config::{Activation, TransformerConfig};
use crate::dropout::{dropout, probability};
use crate::error::ConfigError;
use crate::init::Init;
use crate::linear::linear;

/// Two linear layers with a non-linearity between them, the same at every position.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// `[D, F]`; with a gated activation `[D, 2 F]`, the gate first.
    pub w_1: Linear,
    /// `[F, D]`.
    pub w_2: Linear,
    /// On the inner activation.
    pub dropout: Dropout,
    #[module(skip)]
    activation: Activation,
}

impl FeedForward {
    /// Builds the network.
    ///
    /// # Errors
    ///
    /// See [`TransformerConfig::validate`].
    pub fn init(config: &TransformerConfig, device: &Device) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::build(config, &mut Init::new(device)))
    }

    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        let parts = if config.activation.is_gated() { 2 } else { 1 };
        Self {
            w_1: init.packed_linear(config.d_model, config.d_ff, parts),
            w_2: init.linear(config.d_ff, config.d_model),
            dropout: DropoutConfig::new(config.dropout).init(),
            activation: config.activation,
        }
    }

    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - output: `[B, T, D]`
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let inner = linear(&self.w_1, x);
        let inner = match self.activation {
            Activation::Relu => fused::relu(inner, probability(&self.dropout)),
            other => dropout(&self.dropout, activate(other, inner)),
        };
        linear(&self.w_2, inner)
    }
}

/// `x Φ(x) = x / 2 (1 + erf(x / sqrt(2)))`.
fn gelu(x: Tensor<3>) -> Tensor<3> {
    if x.is_autodiff() {
        // The derivative of Burn's own is, on every backend but flex, the one of another function,
        // the tanh approximation: up to 1e-3 off.
        let erf = (x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf();
        x * (erf + 1.0) * 0.5
    } else {
        activation::gelu(x)
    }
}

/// The non-linearity on the last axis, which a gated one halves.
pub fn activate(activation: Activation, x: Tensor<3>) -> Tensor<3> {
    let gated = |act: fn(Tensor<3>) -> Tensor<3>| {
        let [.., width] = x.dims();
        let gate = x.clone().narrow(2, 0, width / 2);
        let value = x.clone().narrow(2, width / 2, width / 2);
        act(gate) * value
    };
    match activation {
        Activation::Relu => relu(x),
        Activation::Gelu => gelu(x),
        Activation::Swish => silu(x),
        Activation::Glu => gated(sigmoid),
        Activation::Geglu => gated(gelu),
        Activation::Swiglu => gated(silu),
    }
}
