//! The whole model: encoder and decoder (paper, figure 1).

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};

use crate::config::TransformerConfig;
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::error::ConfigError;
use crate::init::Init;
use crate::mask::AttentionMask;
use crate::memory::{DecoderCache, Memory};

impl TransformerConfig {
    /// Builds a model with random parameters, seeded from the device's random generator.
    ///
    /// `device.seed(..)` makes the parameters reproducible.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init(&self, device: &Device) -> Result<Transformer, ConfigError> {
        self.validate()?;
        Ok(Transformer::build(self, &mut Init::new(device)))
    }

    /// Builds a model whose parameters depend only on the configuration and `seed`.
    ///
    /// In f32, the parameters have the same bits on every backend.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_seeded(&self, seed: u64, device: &Device) -> Result<Transformer, ConfigError> {
        self.validate()?;
        Ok(Transformer::build(self, &mut Init::seeded(seed, device)))
    }

    /// Builds a model whose matrices and biases are zeros.
    ///
    /// Use it for a model whose parameters will be replaced by
    /// [`with_parameters`](crate::weights::with_parameters()), because zeros take less time and, on
    /// most backends, less memory than random parameters.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_zeros(&self, device: &Device) -> Result<Transformer, ConfigError> {
        self.validate()?;
        Ok(Transformer::build(self, &mut Init::zeros(device)))
    }
}

/// The encoder-decoder Transformer.
#[derive(Module, Debug)]
pub struct Transformer {
    /// Stack that computes the memory of the sources.
    pub encoder: Encoder,
    /// Stack that computes logits from the memory and the previous target tokens.
    pub decoder: Decoder,
}

impl Transformer {
    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        Self {
            encoder: Encoder::build(&config.encoder_of_model(), init),
            decoder: Decoder::build(&config.decoder(), init),
        }
    }

    /// Creates a model from an encoder and a decoder, which may differ in everything but
    /// `d_model`.
    ///
    /// If the encoder has no embedding table, sources are embedded by the decoder's. Parts that are
    /// built with one seed (`init_seeded`) have equal parameters where their shapes are equal: seed
    /// them differently.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::{DecoderConfig, EncoderConfig, Transformer};
    ///
    /// // A deep encoder for long sources, and a shallow decoder for short targets.
    /// let device = Device::flex();
    /// let encoder = EncoderConfig::new(32, 128, 4, 6).with_vocab_size(100).with_max_len(1000);
    /// let decoder = DecoderConfig::new(90, 32, 64, 2, 1).with_max_len(50);
    /// let model = Transformer::from_parts(encoder.init(&device)?, decoder.init(&device)?);
    /// assert_eq!([model.encoder.max_len(), model.decoder.max_len()], [Some(1000), Some(50)]);
    /// # Ok::<(), transformer::ConfigError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the encoder's `d_model` differs from the decoder's, or the decoder has no
    /// cross-attention.
    pub fn from_parts(encoder: Encoder, decoder: Decoder) -> Self {
        let [of_encoder, of_decoder] = [encoder.config().d_model(), decoder.config().d_model()];
        assert_eq!(
            of_encoder, of_decoder,
            "the encoder's d_model is {of_encoder}, but the decoder's is {of_decoder}"
        );
        assert!(
            decoder.config().cross_attention,
            "the decoder has no cross-attention, which reads the encoder's output"
        );
        Self { encoder, decoder }
    }

    /// Returns the configuration of the model; `None` if its stacks differ in more than their
    /// depth.
    pub fn config(&self) -> Option<TransformerConfig> {
        TransformerConfig::of_stacks(self.encoder.config(), self.decoder.config())
    }

    /// Returns the logits of the token that follows each target token, as in training.
    ///
    /// # Shapes
    ///
    /// - source: `[B, S]`
    /// - source_mask: `[B or 1, 1, 1, S]`, `true` = blocked, see [`encode`](Self::encode)
    /// - target: `[B, T]`, padded at the end
    /// - output: `[B, T, V]`
    ///
    /// # Panics
    ///
    /// If `S` or `T` exceeds `max_len`, `source` and `target` differ in `B`, or the mask is not one of
    /// keys alone.
    pub fn forward(
        &self,
        source: Tensor<2, Int>,
        source_mask: Option<&AttentionMask>,
        target: Tensor<2, Int>,
    ) -> Tensor<3> {
        let memory = self.encode(source, source_mask);
        self.decode(target, &memory, &mut self.new_cache())
    }

    /// Encodes a batch of sources into the memory to which the decoder attends.
    ///
    /// Without a mask, every token of a source counts. If sources have padding, the mask is
    /// [`AttentionMask::of_lengths`] or, where no source has the padding's id as a token,
    /// [`AttentionMask::padding`].
    ///
    /// # Shapes
    ///
    /// - source: `[B, S]`
    /// - source_mask: `[B or 1, 1, 1, S]`, `true` = blocked
    /// - output: states `[B, S, D]`, and the mask
    ///
    /// # Panics
    ///
    /// If `S` exceeds `max_len`.
    pub fn encode(&self, source: Tensor<2, Int>, source_mask: Option<&AttentionMask>) -> Memory {
        let x = self.embed_source(source);
        Memory::new(
            self.encoder.forward_layers(x, source_mask),
            source_mask.cloned(),
        )
    }

    /// Returns the logits of the token that follows each token of `target`.
    ///
    /// The tokens of `target` follow the tokens in the cache and are added to the cache. Training
    /// passes an empty cache and the whole target. A search step passes the cache of the previous
    /// step and one token of each target.
    ///
    /// # Shapes
    ///
    /// - target: `[B, T]`, padded at the end
    /// - memory: states `[B, S, D]`, or `[N, S, D]` for `N` sources after [`DecoderCache::branch`]
    /// - output: `[B, T, V]`
    ///
    /// # Panics
    ///
    /// In the same cases as [`Decoder::forward`].
    pub fn decode(
        &self,
        target: Tensor<2, Int>,
        memory: &Memory,
        cache: &mut DecoderCache,
    ) -> Tensor<3> {
        self.decoder.forward(target, memory, cache)
    }

    /// Returns an empty cache that grows as needed.
    pub fn new_cache(&self) -> DecoderCache {
        self.decoder.new_cache()
    }

    /// Returns the model with positional encoding for sequences of up to `max_len` tokens.
    ///
    /// Sinusoidal and rotary positions are recomputed, and the model keeps its parameters. Learned
    /// positions do not change, because their table is a parameter. A model with relative
    /// positions, ALiBi or no positional encoding has no maximum length.
    ///
    /// ```
    /// use burn::tensor::Device;
    /// use transformer::TransformerConfig;
    ///
    /// let config = TransformerConfig::new(20, 20).with_d_model(16).with_max_len(8);
    /// let model = config.init_seeded(1, &Device::flex())?;
    /// assert_eq!(model.encoder.max_len(), Some(8));
    /// assert_eq!(model.with_max_len(100).encoder.max_len(), Some(100));
    /// # Ok::<(), transformer::ConfigError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If `max_len` is 0.
    pub fn with_max_len(self, max_len: usize) -> Self {
        let device = self.decoder.input.table().device();
        let mut init = Init::zeros(&device);
        Self {
            encoder: self.encoder.lengthened(max_len, &mut init),
            decoder: self.decoder.lengthened(max_len, &mut init),
        }
    }

    /// Returns the size of the source vocabulary, in tokens.
    pub fn source_vocab_size(&self) -> usize {
        self.source_table().dims()[0]
    }

    /// Returns the encoder's input `[B, S, D]`: embedded tokens with positional encoding and
    /// dropout.
    pub(crate) fn embed_source(&self, source: Tensor<2, Int>) -> Tensor<3> {
        let table = self.source_table();
        self.encoder.input.forward_with_table(source, table, 0)
    }

    /// Returns the source embedding table `[V, D]`: the encoder's, or the decoder's if the encoder
    /// has none.
    fn source_table(&self) -> Tensor<2> {
        match self.encoder.input.embedding {
            Some(_) => self.encoder.input.table(),
            None => self.decoder.input.table(),
        }
    }
}
