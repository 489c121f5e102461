//! The decoder (paper, section 3.1): input layer, N decoder layers, final norm, generator.

mod layer;

use burn::module::Module;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Device, Int, Tensor};

pub use self::layer::DecoderLayer;
use crate::config::DecoderConfig;
use crate::embedding::InputLayer;
use crate::error::ConfigError;
use crate::generator::{Generator, full_precision};
use crate::init::Init;
use crate::mask::AttentionMask;
use crate::memory::{DecoderCache, DecoderPass, Memory};
use crate::norm::LayerNorm;
use crate::position::{self, AttentionPosition};
use crate::residual::Stream;
use crate::trace::LayerTrace;

impl DecoderConfig {
    /// Builds a decoder with random parameters, seeded from the device's random generator.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init(&self, device: &Device) -> Result<Decoder, ConfigError> {
        self.validate()?;
        Ok(Decoder::build(self, &mut Init::new(device)))
    }

    /// Builds a decoder whose parameters depend only on the configuration and `seed`.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_seeded(&self, seed: u64, device: &Device) -> Result<Decoder, ConfigError> {
        self.validate()?;
        Ok(Decoder::build(self, &mut Init::seeded(seed, device)))
    }

    /// Builds a decoder whose matrices and biases are zeros, which will be replaced.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_zeros(&self, device: &Device) -> Result<Decoder, ConfigError> {
        self.validate()?;
        Ok(Decoder::build(self, &mut Init::zeros(device)))
    }
}

/// A stack of decoder layers that predicts the next target token from the previous target tokens
/// and, with cross-attention, the memory.
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
    /// Rotary, relative or ALiBi positions, which act in self-attention; `None` without them.
    pub attention_position: Option<AttentionPosition>,
    #[module(skip)]
    config: DecoderConfig,
}

impl Decoder {
    pub(crate) fn build(config: &DecoderConfig, init: &mut Init) -> Self {
        let (positions, attention) = (&config.input.positions, &config.layer.attention);
        // With embeddings of variance 1, the logits of a generator that shares them would be too
        // large.
        let small = config.generator.is_tied && !config.generator.scale;
        Self {
            input: InputLayer::build(&config.input, true, small, init),
            layers: (0..config.n_layers)
                .map(|_| DecoderLayer::build(&config.layer, config.cross_attention, init))
                .collect(),
            final_norm: config
                .final_norm
                .as_ref()
                .map(|norm| LayerNorm::build(norm, init.device())),
            generator: Generator::build(&config.generator, init),
            attention_position: AttentionPosition::build(positions, attention, true, init),
            config: config.clone(),
        }
    }

    /// Returns the configuration with which the decoder was built.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// Returns the decoder with positions for targets of up to `max_len` tokens, as
    /// [`Transformer::with_max_len`](crate::Transformer::with_max_len) does for both stacks.
    ///
    /// # Panics
    ///
    /// If `max_len` is 0.
    pub fn with_max_len(self, max_len: usize) -> Self {
        let device = self.input.table().device();
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

    /// Returns an empty cache that grows as needed.
    pub fn new_cache(&self) -> DecoderCache {
        DecoderCache::new(self.layers.len(), 0, 0)
    }

    /// Returns an empty cache for up to `max_rows` targets of up to `max_length` tokens. Its buffers
    /// have all rows from the start, and grow with the length of the targets, beyond `max_length` too.
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
    /// sequences are padded at the end. The causal mask hides the padding from the real tokens of
    /// this call, so no other mask is needed. Later calls would attend to padding in the cache;
    /// [`complete`](Self::complete) continues prompts of different lengths.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, T]`
    /// - memory: states `[B, S, D]`, or `[N, S, D]` for `N` sources after [`DecoderCache::branch`];
    ///   `None` for a decoder without cross-attention
    /// - output: `[B, T, V]`
    ///
    /// # Panics
    ///
    /// - If the number of tokens in the cache plus `T` exceeds `max_len`.
    /// - If the cache has the tokens of another decoder. One that was made of this one, such as a
    ///   quantised one or a mean, counts as the same, but should have a cache of its own.
    /// - If a decoder with cross-attention gets no memory, or a decoder without it gets a memory.
    /// - If the memory is not that of earlier calls with the cache, or a clone of it.
    /// - If `B` is not the number of targets in the last call of [`DecoderCache::branch`] or,
    ///   without such a call, that of earlier calls and the number of sources in the memory.
    pub fn forward<'a>(
        &self,
        ids: Tensor<2, Int>,
        memory: impl Into<Option<&'a Memory>>,
        cache: &mut DecoderCache,
    ) -> Tensor<3> {
        self.logits(self.forward_states(ids, memory, cache))
    }

    /// Returns the decoder's states, which are the input of the generator.
    ///
    /// [`logits`](Self::logits) turns these states into the logits that [`forward`](Self::forward)
    /// returns.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, T]`
    /// - memory: states `[B, S, D]`, or `[N, S, D]` for `N` sources after [`DecoderCache::branch`];
    ///   `None` for a decoder without cross-attention
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
        self.forward_layers(x, memory, cache)
    }

    /// Runs the layers and the final norm alone, without the input layer and the generator.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - memory: states `[B, S, D]`, or `[N, S, D]` for `N` sources after [`DecoderCache::branch`];
    ///   `None` for a decoder without cross-attention
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// In the same cases as [`forward`](Self::forward), but `max_len` is checked only for rotary
    /// positions.
    pub fn forward_layers<'a>(
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
    /// In the same cases as [`forward_layers`](Self::forward_layers).
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

    /// Returns the generator's weight `[D, V]`, or the transposed embedding table if the generator
    /// has no weight.
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
        log_softmax(full_precision(self.logits(states)), 2)
    }
}
