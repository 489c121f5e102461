//! The encoder (paper, section 3.1): input layer, N encoder layers, final norm.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::attention::SelfAttention;
use crate::config::{EncoderConfig, LayerConfig};
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

impl LayerConfig {
    /// Builds one encoder layer.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_encoder_layer(&self, device: &Device) -> Result<EncoderLayer, ConfigError> {
        self.validate()?;
        Ok(EncoderLayer::build(self, &mut Init::new(device)))
    }
}

impl EncoderLayer {
    pub(crate) fn build(config: &LayerConfig, init: &mut Init) -> Self {
        Self {
            self_attention: SelfAttention::build(&config.attention, init),
            self_attention_residual: Residual::build(config, init.device()),
            feed_forward: FeedForward::build(&config.feed_forward, init),
            feed_forward_residual: Residual::build(config, init.device()),
        }
    }

    /// Runs the layer.
    ///
    /// # Shapes
    ///
    /// - x: `[B, S, D]`
    /// - mask: `[B or 1, H or 1, S or 1, S]`, `true` = blocked
    /// - position: that of `S` tokens after 0 earlier ones, from
    ///   [`AttentionPosition::forward`]; `None` without positions in attention
    /// - output: `[B, S, D]`
    pub fn forward(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
        position: Option<&PositionTerm>,
    ) -> Tensor<3> {
        self.run(x.into(), mask, position, None).sum()
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

impl EncoderConfig {
    /// Builds an encoder with random parameters, seeded from the device's random generator.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init(&self, device: &Device) -> Result<Encoder, ConfigError> {
        self.validate()?;
        Ok(Encoder::build(self, &mut Init::new(device)))
    }

    /// Builds an encoder whose parameters depend only on the configuration and `seed`.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_seeded(&self, seed: u64, device: &Device) -> Result<Encoder, ConfigError> {
        self.validate()?;
        Ok(Encoder::build(self, &mut Init::seeded(seed, device)))
    }

    /// Builds an encoder whose matrices and biases are zeros, which will be replaced.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_zeros(&self, device: &Device) -> Result<Encoder, ConfigError> {
        self.validate()?;
        Ok(Encoder::build(self, &mut Init::zeros(device)))
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
    #[module(skip)]
    config: EncoderConfig,
}

impl Encoder {
    pub(crate) fn build(config: &EncoderConfig, init: &mut Init) -> Self {
        let (positions, attention) = (&config.input.positions, &config.layer.attention);
        Self {
            input: InputLayer::build(&config.input, false, false, init),
            layers: (0..config.n_layers)
                .map(|_| EncoderLayer::build(&config.layer, init))
                .collect(),
            final_norm: config
                .final_norm
                .as_ref()
                .map(|norm| LayerNorm::build(norm, init.device())),
            attention_position: AttentionPosition::build(positions, attention, false, init),
            config: config.clone(),
        }
    }

    /// Returns the configuration with which the encoder was built.
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Returns the encoder with positions for sources of up to `max_len` tokens or vectors, as
    /// [`Transformer::with_max_len`](crate::Transformer::with_max_len) does for both stacks.
    ///
    /// # Panics
    ///
    /// If `max_len` is 0.
    pub fn with_max_len(self, max_len: usize) -> Self {
        let device = self.devices().into_iter().next().unwrap_or_default();
        self.lengthened(max_len, &mut Init::zeros(&device))
    }

    /// Recomputes positions for sequences of up to `max_len`, unless they are parameters.
    pub(crate) fn lengthened(mut self, max_len: usize, init: &mut Init) -> Self {
        assert!(max_len > 0, "max_len is 0, but must be at least 1");
        let (added, in_attention) = (self.input.position, self.attention_position);
        self.input.position = added.map(|position| position.lengthened(max_len, init));
        self.attention_position = in_attention.map(|position| position.lengthened(max_len));
        if self.config.input.positions.is_computed() {
            self.config.input.positions.max_len = max_len;
        }
        self
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
    /// - mask: `[B or 1, H or 1, S or 1, S]`, `true` = blocked; usually
    ///   [`AttentionMask::of_lengths`]
    /// - output: `[B, S, D]`
    ///
    /// # Panics
    ///
    /// If `S` exceeds `max_len`, or the encoder shares its decoder's embedding table.
    pub fn forward(&self, ids: Tensor<2, Int>, mask: Option<&AttentionMask>) -> Tensor<3> {
        self.forward_layers(self.input.forward(ids, 0), mask)
    }

    /// Encodes vectors instead of tokens: adds positions, and runs the layers. The vectors are not
    /// multiplied by `sqrt(D)`, as embeddings are. Those of padding must be finite, too: zero times
    /// infinity or NaN is NaN.
    ///
    /// # Shapes
    ///
    /// - x: `[B, S, D]`
    /// - mask: `[B or 1, H or 1, S or 1, S]`, `true` = blocked
    /// - output: `[B, S, D]`
    ///
    /// # Panics
    ///
    /// If `S` exceeds `max_len`.
    pub fn forward_vectors(&self, x: Tensor<3>, mask: Option<&AttentionMask>) -> Tensor<3> {
        self.forward_layers(self.input.forward_vectors(x, 0), mask)
    }

    /// Runs the layers and the final norm alone, on the output of an input layer.
    ///
    /// # Shapes
    ///
    /// - x: `[B, S, D]`
    /// - mask: `[B or 1, H or 1, S or 1, S]`, `true` = blocked
    /// - output: `[B, S, D]`
    ///
    /// # Panics
    ///
    /// If the encoder has rotary positions and `S` exceeds `max_len`.
    pub fn forward_layers(&self, x: Tensor<3>, mask: Option<&AttentionMask>) -> Tensor<3> {
        self.run(x, mask, None)
    }

    /// Runs the layers as [`forward_layers`](Self::forward_layers), and also returns the
    /// intermediate values of every layer. Positions that are added to the input are those of
    /// [`input`](Self::input): `input.forward(ids, 0)` or `input.forward_vectors(x, 0)`.
    ///
    /// # Shapes
    ///
    /// - x: `[B, S, D]`
    /// - mask: `[B or 1, H or 1, S or 1, S]`, `true` = blocked
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
