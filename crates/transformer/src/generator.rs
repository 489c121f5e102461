//! The generator (paper, section 3.4): the last linear layer, from states to one logit a token.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

use crate::config::{TransformerConfig, WeightTying};
use crate::error::ConfigError;
use crate::init::Init;

/// `x W + b`, where `W` may be the decoder's embedding, transposed.
#[derive(Module, Debug)]
pub struct Generator {
    /// `[D, V]`; none where the embedding is shared.
    pub weight: Option<Param<Tensor<2>>>,
    /// `[V]`
    pub bias: Param<Tensor<1>>,
}

impl Generator {
    /// Builds a generator of `target_vocab_size` tokens; without a weight of its own if the
    /// configuration ties it.
    ///
    /// # Errors
    ///
    /// See [`TransformerConfig::validate`].
    pub fn init(config: &TransformerConfig, device: &Device) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::build(config, &mut Init::new(device)))
    }

    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        let (d_model, vocab_size) = (config.d_model, config.target_vocab_size);
        let own_weight = config.weight_tying == WeightTying::None;
        Self {
            weight: own_weight.then(|| init.xavier(d_model, vocab_size)),
            bias: init.bias(d_model, vocab_size),
        }
    }

    /// Logits by the generator's own weight.
    ///
    /// # Shapes
    ///
    /// - states: `[B, T, D]`
    /// - output: `[B, T, V]`
    ///
    /// # Panics
    ///
    /// If the weight is shared.
    pub fn forward(&self, states: Tensor<3>) -> Tensor<3> {
        let weight = self.weight.as_ref();
        let weight =
            weight.expect("this generator shares the embedding's table: give it the table");
        self.project(states, weight.val())
    }

    /// Logits by an embedding's table.
    ///
    /// # Shapes
    ///
    /// - states: `[B, T, D]`
    /// - table: `[V, D]`
    /// - output: `[B, T, V]`
    pub fn forward_with_table(&self, states: Tensor<3>, table: Tensor<2>) -> Tensor<3> {
        self.project(states, table.transpose())
    }

    fn project(&self, states: Tensor<3>, weight: Tensor<2>) -> Tensor<3> {
        let [batch, length, d_model] = states.dims();
        let [_, vocab_size] = weight.dims();
        let rows = states.reshape([batch * length, d_model]);
        fused::linear(rows, weight, Some(self.bias.val())).reshape([batch, length, vocab_size])
    }
}
