//! The decoder (paper, section 3.1): input layer, N decoder layers, final norm, generator.

use burn::module::Module;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor};

use crate::attention::{CrossAttention, SelfAttention};
use crate::config::TransformerConfig;
use crate::embedding::InputLayer;
use crate::error::ConfigError;
use crate::feed_forward::FeedForward;
use crate::generator::Generator;
use crate::init::Init;
use crate::mask::AttentionMask;
use crate::memory::{DecoderCache, DecoderPass, LayerCache, Memory};
use crate::norm::LayerNorm;
use crate::position::{self, AttentionPosition};
use crate::residual::{Residual, Stream};
use crate::trace::LayerTrace;

/// One decoder layer: self-attention, cross-attention and feed-forward network, each in a residual
/// block.
#[derive(Module, Debug)]
pub struct DecoderLayer {
    /// First sublayer.
    pub self_attention: SelfAttention,
    /// Residual block of the first sublayer.
    pub self_attention_residual: Residual,
    /// Second sublayer; `None` in a decoder without cross-attention.
    pub cross_attention: Option<CrossAttention>,
    /// Residual block of the second sublayer.
    pub cross_attention_residual: Option<Residual>,
    /// Last sublayer.
    pub feed_forward: FeedForward,
    /// Residual block of the last sublayer.
    pub feed_forward_residual: Residual,
}

impl DecoderLayer {
    /// Builds one layer with cross-attention.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`TransformerConfig::validate`].
    pub fn init(config: &TransformerConfig, device: &Device) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::build(config, true, &mut Init::new(device)))
    }

    fn build(config: &TransformerConfig, cross_attention: bool, init: &mut Init) -> Self {
        let self_attention = SelfAttention::build(config, init);
        let self_attention_residual = Residual::build(config, init);
        let (cross_attention, cross_attention_residual) = cross_attention
            .then(|| {
                (
                    CrossAttention::build(config, init),
                    Residual::build(config, init),
                )
            })
            .unzip();
        Self {
            self_attention,
            self_attention_residual,
            cross_attention,
            cross_attention_residual,
            feed_forward: FeedForward::build(config, init),
            feed_forward_residual: Residual::build(config, init),
        }
    }

    /// Runs the layer on whole targets, without positions in its attention.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - mask: `[B or 1, H or 1, T or 1, T or 1]`, `true` = blocked; usually
    ///   [`AttentionMask::causal`]
    /// - memory: states `[B, S, D]`; `None` for a layer without cross-attention
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// If a layer with cross-attention gets no memory, or a layer without it gets a memory.
    pub fn forward<'a>(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
        memory: impl Into<Option<&'a Memory>>,
    ) -> Tensor<3> {
        let step = DecoderPass::whole(mask, None);
        let mut cache = LayerCache::default();
        self.run(x.into(), &step, memory.into(), &mut cache, None)
            .sum()
    }

    fn run(
        &self,
        stream: Stream,
        step: &DecoderPass<'_>,
        memory: Option<&Memory>,
        cache: &mut LayerCache,
        trace: Option<&mut Vec<LayerTrace>>,
    ) -> Stream {
        let keep = trace.is_some();
        let (mut self_weights, mut cross_weights) = (None, None);
        let mut feed_forward_input = None;
        let mut stream = self.self_attention_residual.run(stream, |x| {
            let past = Some((&mut cache.self_attention, &step.index));
            let attention = &self.self_attention;
            let (y, weights) = attention.run(x, step.mask, step.position, past, keep);
            self_weights = weights;
            y
        });
        stream = match (
            &self.cross_attention,
            &self.cross_attention_residual,
            memory,
        ) {
            (Some(attention), Some(residual), Some(memory)) => residual.run(stream, |x| {
                let projected = cache.project(attention, memory, x.dims()[0], &step.index);
                let mask = memory.mask.as_ref();
                let sources = step.index.sources.as_ref();
                let (y, weights) = attention.run(x, projected, mask, sources, keep);
                cross_weights = weights;
                y
            }),
            (None, None, None) => stream,
            (_, _, None) => panic!("this decoder has cross-attention and needs a memory"),
            _ => panic!("this decoder has no cross-attention and takes no memory"),
        };
        let stream = self.feed_forward_residual.run(stream, |x| {
            feed_forward_input = keep.then(|| x.clone());
            self.feed_forward.forward(x)
        });
        if let Some(trace) = trace {
            trace.push(LayerTrace {
                self_attention: self_weights.expect("a traced pass keeps the weights"),
                cross_attention: cross_weights,
                feed_forward_input: feed_forward_input.expect("a traced pass keeps the input"),
            });
        }
        stream
    }
}

impl TransformerConfig {
    /// Builds a decoder without an encoder, with cross-attention to a memory.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_decoder(&self, device: &Device) -> Result<Decoder, ConfigError> {
        Decoder::init(self, device)
    }

    /// Builds a decoder without cross-attention: a language model.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_decoder_only(&self, device: &Device) -> Result<Decoder, ConfigError> {
        Decoder::init_without_memory(self, device)
    }
}

/// A stack of decoder layers that predicts the next target token from the previous target tokens
/// and the memory.
#[derive(Module, Debug)]
pub struct Decoder {
    /// Embedding and positional encoding.
    pub input: InputLayer,
    /// Decoder layers, from first to last.
    pub layers: Vec<DecoderLayer>,
    /// Layer norm of the last layer's output; `None` if the configuration has no final norm.
    pub final_norm: Option<LayerNorm>,
    /// Linear layer from states to logits.
    pub generator: Generator,
    /// Positional encoding that acts in self-attention; `None` if there is none.
    pub attention_position: Option<AttentionPosition>,
}

impl Decoder {
    /// Builds a decoder with cross-attention to a memory.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`TransformerConfig::validate`].
    pub fn init(config: &TransformerConfig, device: &Device) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::build(config, true, &mut Init::new(device)))
    }

    /// Builds a decoder without cross-attention: a language model.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`TransformerConfig::validate`].
    pub fn init_without_memory(
        config: &TransformerConfig,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::build(config, false, &mut Init::new(device)))
    }

    pub(crate) fn build(
        config: &TransformerConfig,
        cross_attention: bool,
        init: &mut Init,
    ) -> Self {
        Self {
            input: InputLayer::build(Some(config.target_vocab_size), config, init),
            layers: (0..config.n_decoder_layers)
                .map(|_| DecoderLayer::build(config, cross_attention, init))
                .collect(),
            final_norm: config.final_norm.then(|| LayerNorm::build(config, init)),
            generator: Generator::build(config, init),
            attention_position: AttentionPosition::build(config, true, init),
        }
    }

    /// Returns an empty cache that grows as needed.
    pub fn new_cache(&self) -> DecoderCache {
        DecoderCache::new(self.layers.len(), 0, 0)
    }

    /// Returns an empty cache that allocates its buffers once, for `max_rows` targets of
    /// `max_length` tokens each.
    pub fn new_cache_with_capacity(&self, max_rows: usize, max_length: usize) -> DecoderCache {
        DecoderCache::new(self.layers.len(), max_rows, max_length)
    }

    /// Returns the maximum length of a target, in tokens; `None` if any length is possible.
    pub fn max_len(&self) -> Option<usize> {
        position::max_len(
            self.input.position.as_ref(),
            self.attention_position.as_ref(),
        )
    }

    /// Returns the size `V` of the target vocabulary, in tokens.
    pub fn vocab_size(&self) -> usize {
        match &self.generator.weight {
            Some(weight) => weight.dims()[1],
            None => self.input.table().dims()[0],
        }
    }

    /// Returns the logits of the token that follows each token of `ids`.
    ///
    /// The tokens of `ids` follow the tokens in the cache and are added to the cache. Shorter
    /// sequences are padded at the end. The causal mask then hides the padding from all real
    /// tokens, so no other mask is needed.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, T]`
    /// - memory: states `[B, S, D]`; `None` for a decoder without cross-attention
    /// - output: `[B, T, V]`
    ///
    /// # Panics
    ///
    /// If the number of tokens in the cache plus `T` exceeds `max_len`, or the cache belongs to a
    /// decoder with another number of layers. If a decoder with cross-attention gets no memory, or
    /// a decoder without it gets a memory.
    pub fn forward<'a>(
        &self,
        ids: Tensor<2, Int>,
        memory: impl Into<Option<&'a Memory>>,
        cache: &mut DecoderCache,
    ) -> Tensor<3> {
        self.logits(self.forward_states(ids, memory, cache))
    }

    /// Returns the decoder's states after the final norm, before the generator.
    ///
    /// [`logits`](Self::logits) turns these states into the logits that [`forward`](Self::forward)
    /// returns.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, T]`
    /// - memory: states `[B, S, D]`; `None` for a decoder without cross-attention
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// In the same cases as [`forward`](Self::forward).
    pub fn forward_states<'a>(
        &self,
        ids: Tensor<2, Int>,
        memory: impl Into<Option<&'a Memory>>,
        cache: &mut DecoderCache,
    ) -> Tensor<3> {
        let x = self.input.forward(ids, cache.length);
        self.forward_vectors(x, memory, cache)
    }

    /// Returns the decoder's states for input vectors, without the input layer and the generator.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - memory: states `[B, S, D]`; `None` for a decoder without cross-attention
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// In the same cases as [`forward`](Self::forward), but `max_len` is checked only for rotary
    /// positions.
    pub fn forward_vectors<'a>(
        &self,
        x: Tensor<3>,
        memory: impl Into<Option<&'a Memory>>,
        cache: &mut DecoderCache,
    ) -> Tensor<3> {
        self.run(x, memory.into(), cache, None)
    }

    /// Returns the decoder's states for the vectors of whole targets, and the intermediate values
    /// of every layer.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - memory: states `[B, S, D]`; `None` for a decoder without cross-attention
    /// - output: `[B, T, D]`, and one [`LayerTrace`] per layer
    ///
    /// # Panics
    ///
    /// In the same cases as [`forward_vectors`](Self::forward_vectors).
    pub fn forward_traced<'a>(
        &self,
        x: Tensor<3>,
        memory: impl Into<Option<&'a Memory>>,
    ) -> (Tensor<3>, Vec<LayerTrace>) {
        let mut trace = Vec::with_capacity(self.layers.len());
        let x = self.run(x, memory.into(), &mut self.new_cache(), Some(&mut trace));
        (x, trace)
    }

    fn run(
        &self,
        x: Tensor<3>,
        memory: Option<&Memory>,
        cache: &mut DecoderCache,
        mut trace: Option<&mut Vec<LayerTrace>>,
    ) -> Tensor<3> {
        let [of_cache, layers] = [cache.layers.len(), self.layers.len()];
        assert_eq!(
            of_cache, layers,
            "the cache belongs to a decoder with {of_cache} layers, but this decoder has {layers}"
        );
        let [batch, length, _] = x.dims();
        let past = cache.length;
        // A single token needs no mask: it attends to itself and to all tokens before it.
        let mask = (length > 1).then(|| AttentionMask::causal_after(past, length, &x.device()));
        let position = self.attention_position.as_ref();
        let position = position.map(|position| position.forward(past, length));
        let step = DecoderPass {
            mask: mask.as_ref(),
            position: position.as_ref(),
            index: cache.extend(batch, length, memory),
        };
        let mut stream = Stream::from(x);
        for (layer, cache) in self.layers.iter().zip(&mut cache.layers) {
            stream = layer.run(stream, &step, memory, cache, trace.as_deref_mut());
        }
        match &self.final_norm {
            Some(norm) => stream.norm(norm),
            None => stream.sum(),
        }
    }

    /// Returns the logits that the generator computes from decoder states.
    ///
    /// # Shapes
    ///
    /// - states: `[B, T, D]`
    /// - output: `[B, T, V]`
    pub fn logits(&self, states: Tensor<3>) -> Tensor<3> {
        match self.generator.weight {
            Some(_) => self.generator.forward(states),
            None => self
                .generator
                .forward_with_table(states, self.input.table()),
        }
    }

    /// Returns the generator's weight `[D, V]`, or the transposed embedding table if it is shared.
    pub(crate) fn generator_weight(&self) -> Tensor<2> {
        match &self.generator.weight {
            Some(weight) => weight.val(),
            None => self.input.table().transpose(),
        }
    }

    /// Returns the log-probabilities of all tokens, `log_softmax(logits(states))`, in nats.
    ///
    /// # Shapes
    ///
    /// - states: `[B, T, D]`
    /// - output: `[B, T, V]`
    pub fn log_probabilities(&self, states: Tensor<3>) -> Tensor<3> {
        log_softmax(self.logits(states), 2)
    }
}
