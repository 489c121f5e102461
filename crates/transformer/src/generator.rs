//! The generator (paper, section 3.4): the linear layer from decoder states to logits.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, FloatDType, Tensor};

use crate::config::GeneratorConfig;
use crate::error::ConfigError;
use crate::init::Init;
use crate::linear::rows;

/// The linear layer `x W + b` from states to logits.
///
/// `W` is either a separate parameter or the transposed embedding table of the decoder.
#[derive(Module, Debug)]
pub struct Generator {
    /// Weight `[D, V]`; `None` if the generator uses the decoder's embedding table.
    pub weight: Option<Param<Tensor<2>>>,
    /// Bias `[V]`; `None` if the configuration has no bias for logits.
    pub bias: Option<Param<Tensor<1>>>,
    /// Factor by which states are multiplied; `None` if they are not scaled.
    scale: Option<f64>,
}

impl GeneratorConfig {
    /// Builds the generator; without a weight if it is tied.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init(&self, device: &Device) -> Result<Generator, ConfigError> {
        self.validate()?;
        Ok(Generator::build(self, &mut Init::new(device)))
    }
}

impl Generator {
    pub(crate) fn build(config: &GeneratorConfig, init: &mut Init) -> Self {
        let (d_model, vocab_size) = (config.d_model, config.vocab_size);
        Self {
            weight: (!config.is_tied).then(|| init.xavier(d_model, vocab_size)),
            bias: config.bias.then(|| init.bias(d_model, vocab_size)),
            scale: config.scale.then(|| 1.0 / (d_model as f64).sqrt()),
        }
    }

    /// Computes logits with the generator's own weight.
    ///
    /// # Shapes
    ///
    /// - states: `[B, T, D]`
    /// - output: `[B, T, V]`
    ///
    /// # Panics
    ///
    /// If the generator has no weight of its own.
    pub fn forward(&self, states: Tensor<3>) -> Tensor<3> {
        let weight = self.weight.as_ref();
        let weight =
            weight.expect("this generator has no weight, because it shares the embedding table: call `forward_with_table`");
        self.project(states, |x, bias| fused::linear(x, weight.val(), bias))
    }

    /// Computes logits with the transpose of an embedding table as the weight.
    ///
    /// # Shapes
    ///
    /// - states: `[B, T, D]`
    /// - table: `[V, D]`
    /// - output: `[B, T, V]`
    pub fn forward_with_table(&self, states: Tensor<3>, table: Tensor<2>) -> Tensor<3> {
        self.project(states, |x, bias| fused::linear_transposed(x, table, bias))
    }

    /// Returns the input of the matmul: `states / sqrt(D)` with `scale_logits`, else `states`.
    pub(crate) fn scaled(&self, states: Tensor<3>) -> Tensor<3> {
        match self.scale {
            Some(scale) => states * scale,
            None => states,
        }
    }

    /// Computes the logits of all states in one matmul. `linear(x, b)` returns `x W + b`, where `x`
    /// is `[B * T, D]`.
    fn project(
        &self,
        states: Tensor<3>,
        linear: impl FnOnce(Tensor<2>, Option<Tensor<1>>) -> Tensor<2>,
    ) -> Tensor<3> {
        let [batch, length, _] = states.dims();
        let logits = linear(
            rows(self.scaled(states)),
            self.bias.as_ref().map(Param::val),
        );
        let [_, vocab_size] = logits.dims();
        logits.reshape([batch, length, vocab_size])
    }
}

pub(crate) fn is_half(precision: DType) -> bool {
    matches!(precision, DType::F16 | DType::BF16)
}

/// Casts logits in half precision to f32, since softmax and sums need it.
pub(crate) fn full_precision<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if is_half(x.dtype()) {
        return x.cast(FloatDType::F32);
    }
    x
}
