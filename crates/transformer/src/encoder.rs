//! The encoder (paper, section 3.1): input layer, N encoder layers, final norm.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::attention::SelfAttention;
use crate::config::{TransformerConfig, WeightTying};
use crate::embedding::InputLayer;
use crate::error::ConfigError;
use crate::feed_forward::FeedForward;
use crate::init::Init;
use crate::mask::AttentionMask;
use crate::norm::LayerNorm;
use crate::position::{self, AttentionPosition, PositionTerm};
use crate::residual::{Residual, Stream};
use crate::trace::LayerTrace;

/// One encoder layer: self-attention and feed-forward network, each in a residual block.
#[derive(Module, Debug)]
pub struct EncoderLayer {
    /// First sublayer.
    pub self_attention: SelfAttention,
    /// Residual block of the first sublayer.
    pub self_attention_residual: Residual,
    /// Second sublayer.
    pub feed_forward: FeedForward,
    /// Residual block of the second sublayer.
    pub feed_forward_residual: Residual,
}

impl EncoderLayer {
    /// Builds one layer.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`TransformerConfig::validate`].
    pub fn init(config: &TransformerConfig, device: &Device) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::build(config, &mut Init::new(device)))
    }

    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        Self {
            self_attention: SelfAttention::build(config, init),
            self_attention_residual: Residual::build(config, init),
            feed_forward: FeedForward::build(config, init),
            feed_forward_residual: Residual::build(config, init),
        }
    }

    /// Runs the layer.
    ///
    /// Rotary, relative and ALiBi positions are not applied.
    ///
    /// # Shapes
    ///
    /// - x: `[B, S, D]`
    /// - mask: `[B or 1, H or 1, S or 1, S or 1]`, `true` = blocked
    /// - output: `[B, S, D]`
    pub fn forward(&self, x: Tensor<3>, mask: Option<&AttentionMask>) -> Tensor<3> {
        self.run(x.into(), mask, None, None).sum()
    }

    fn run(
        &self,
        stream: Stream,
        mask: Option<&AttentionMask>,
        position: Option<&PositionTerm>,
        trace: Option<&mut Vec<LayerTrace>>,
    ) -> Stream {
        let keep = trace.is_some();
        let mut self_attention = None;
        let mut feed_forward_input = None;
        let stream = self.self_attention_residual.run(stream, |x| {
            let (y, weights) = self.self_attention.run(x, mask, position, None, keep);
            self_attention = weights;
            y
        });
        let stream = self.feed_forward_residual.run(stream, |x| {
            feed_forward_input = keep.then(|| x.clone());
            self.feed_forward.forward(x)
        });
        if let Some(trace) = trace {
            trace.push(LayerTrace {
                self_attention: self_attention.expect("a traced pass keeps the weights"),
                cross_attention: None,
                feed_forward_input: feed_forward_input.expect("a traced pass keeps the input"),
            });
        }
        stream
    }
}

impl TransformerConfig {
    /// Builds an encoder without a decoder.
    ///
    /// The configuration's weight tying is ignored.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_encoder(&self, device: &Device) -> Result<Encoder, ConfigError> {
        Encoder::init(self, device)
    }
}

/// A stack of encoder layers that computes the memory to which a decoder attends.
#[derive(Module, Debug)]
pub struct Encoder {
    /// Embedding and positional encoding.
    pub input: InputLayer,
    /// Encoder layers, from first to last.
    pub layers: Vec<EncoderLayer>,
    /// Layer norm of the last layer's output; `None` if the configuration has no final norm.
    pub final_norm: Option<LayerNorm>,
    /// Rotary, relative or ALiBi positions, which act in self-attention; `None` without them.
    pub attention_position: Option<AttentionPosition>,
}

impl Encoder {
    /// Builds an encoder without a decoder.
    ///
    /// The configuration's weight tying is ignored.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`TransformerConfig::validate`].
    pub fn init(config: &TransformerConfig, device: &Device) -> Result<Self, ConfigError> {
        // Without a decoder, no table can be shared.
        let config = config.clone().with_weight_tying(WeightTying::None);
        config.validate()?;
        Ok(Self::build(&config, &mut Init::new(device)))
    }

    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        let own_table = !config.weight_tying.shares_source();
        let vocab_size = own_table.then_some(config.source_vocab_size);
        Self {
            input: InputLayer::build(vocab_size, config, false, init),
            layers: (0..config.n_encoder_layers)
                .map(|_| EncoderLayer::build(config, init))
                .collect(),
            final_norm: config.final_norm.then(|| LayerNorm::build(config, init)),
            attention_position: AttentionPosition::build(config, false, init),
        }
    }

    /// Returns the maximum length of a source, in tokens; `None` if any length is possible.
    pub fn max_len(&self) -> Option<usize> {
        position::max_len(
            self.input.position.as_ref(),
            self.attention_position.as_ref(),
        )
    }

    /// Encodes a batch of token sequences.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, S]`
    /// - mask: `[B or 1, H or 1, S or 1, S or 1]`, `true` = blocked; usually
    ///   [`AttentionMask::padding`]
    /// - output: `[B, S, D]`
    ///
    /// # Panics
    ///
    /// If `S` exceeds `max_len`, or the encoder shares its decoder's embedding table.
    pub fn forward(&self, ids: Tensor<2, Int>, mask: Option<&AttentionMask>) -> Tensor<3> {
        self.forward_vectors(self.input.forward(ids, 0), mask)
    }

    /// Encodes vectors instead of tokens.
    ///
    /// The input layer is skipped: no positional encoding is added to the vectors.
    ///
    /// # Shapes
    ///
    /// - x: `[B, S, D]`
    /// - mask: `[B or 1, H or 1, S or 1, S or 1]`, `true` = blocked
    /// - output: `[B, S, D]`
    ///
    /// # Panics
    ///
    /// If the encoder has rotary positions and `S` exceeds `max_len`.
    pub fn forward_vectors(&self, x: Tensor<3>, mask: Option<&AttentionMask>) -> Tensor<3> {
        self.run(x, mask, None)
    }

    /// Encodes vectors, and also returns the intermediate values of every layer.
    ///
    /// # Shapes
    ///
    /// - x: `[B, S, D]`
    /// - mask: `[B or 1, H or 1, S or 1, S or 1]`, `true` = blocked
    /// - output: `[B, S, D]`, and one [`LayerTrace`] per layer
    ///
    /// # Panics
    ///
    /// If the encoder has rotary positions and `S` exceeds `max_len`.
    pub fn forward_traced(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
    ) -> (Tensor<3>, Vec<LayerTrace>) {
        let mut trace = Vec::with_capacity(self.layers.len());
        let x = self.run(x, mask, Some(&mut trace));
        (x, trace)
    }

    fn run(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
        mut trace: Option<&mut Vec<LayerTrace>>,
    ) -> Tensor<3> {
        let [_, length, _] = x.dims();
        let position = self.attention_position.as_ref();
        let position = position.map(|position| position.forward(0, length));
        let mut stream = Stream::from(x);
        for layer in &self.layers {
            stream = layer.run(stream, mask, position.as_ref(), trace.as_deref_mut());
        }
        match &self.final_norm {
            Some(norm) => stream.norm(norm),
            None => stream.sum(),
        }
    }
}
