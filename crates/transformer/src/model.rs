//! The whole model (paper, figure 1).

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
    /// Builds the model, with fresh parameters drawn from the device's generator
    /// (`device.seed(..)` makes them reproducible).
    ///
    /// # Errors
    ///
    /// See [`validate`](Self::validate).
    pub fn init(&self, device: &Device) -> Result<Transformer, ConfigError> {
        self.validate()?;
        Ok(Transformer::build(self, &mut Init::new(device)))
    }

    /// Builds the model with parameters that are a function of `seed` alone, bit for bit the same
    /// on every backend.
    ///
    /// # Errors
    ///
    /// See [`validate`](Self::validate).
    pub fn init_seeded(&self, seed: u64, device: &Device) -> Result<Transformer, ConfigError> {
        self.validate()?;
        Ok(Transformer::build(self, &mut Init::seeded(seed, device)))
    }
}

/// Encoder and decoder.
#[derive(Module, Debug)]
pub struct Transformer {
    /// Turns the source into a memory.
    pub encoder: Encoder,
    /// Turns the memory and the target so far into logits.
    pub decoder: Decoder,
    #[module(skip)]
    pad_id: u32,
}

impl Transformer {
    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        Self {
            encoder: Encoder::build(config, init),
            decoder: Decoder::build(config, true, init),
            pad_id: config.pad_id,
        }
    }

    /// Puts a model together from given parts.
    ///
    /// # Panics
    ///
    /// If the parts differ in width.
    pub fn from_parts(encoder: Encoder, decoder: Decoder, pad_id: u32) -> Self {
        let width = |norm: &crate::LayerNorm| norm.gamma.dims()[0];
        let encoder_width = width(&encoder.layers[0].self_attention_residual.norm);
        let decoder_width = width(&decoder.layers[0].self_attention_residual.norm);
        assert_eq!(
            encoder_width, decoder_width,
            "the encoder's d_model is {encoder_width}, but the decoder's is {decoder_width}"
        );
        Self {
            encoder,
            decoder,
            pad_id,
        }
    }

    /// Logits of the token after each target token: what training needs.
    ///
    /// Source padding is masked by its id. Targets are padded at their end.
    ///
    /// # Shapes
    ///
    /// - source: `[B, S]`
    /// - target: `[B, T]`
    /// - output: `[B, T, V]`
    ///
    /// # Panics
    ///
    /// If `S` or `T` is more than `max_len`.
    pub fn forward(&self, source: Tensor<2, Int>, target: Tensor<2, Int>) -> Tensor<3> {
        let memory = self.encode(source);
        self.decode(target, &memory, &mut self.new_cache())
    }

    /// The memory of a batch of sources.
    ///
    /// # Shapes
    ///
    /// - source: `[B, S]`
    /// - output: states `[B, S, D]`, mask `[B, 1, 1, S]`
    ///
    /// # Panics
    ///
    /// If `S` is more than `max_len`.
    pub fn encode(&self, source: Tensor<2, Int>) -> Memory {
        let mask = self.source_mask(&source);
        let x = self.embed_source(source);
        Memory {
            states: self.encoder.forward_vectors(x, Some(&mask)),
            mask: Some(mask),
        }
    }

    /// Logits of the token after each of `target`, which follow the tokens in the cache. An empty
    /// cache and the whole target is training; a full cache and one token is a step.
    ///
    /// # Shapes
    ///
    /// - target: `[B, T]`
    /// - output: `[B, T, V]`
    ///
    /// # Panics
    ///
    /// If the tokens so far and `T` are more than `max_len`.
    pub fn decode(
        &self,
        target: Tensor<2, Int>,
        memory: &Memory,
        cache: &mut DecoderCache,
    ) -> Tensor<3> {
        self.decoder.forward(target, memory, cache)
    }

    /// An empty cache that grows as it must.
    pub fn new_cache(&self) -> DecoderCache {
        self.decoder.new_cache()
    }

    /// Number of source tokens, `V` of the encoder.
    pub fn source_vocab_size(&self) -> usize {
        self.source_table().dims()[0]
    }

    /// The id that fills short sequences up.
    pub fn pad_id(&self) -> u32 {
        self.pad_id
    }

    pub(crate) fn source_mask(&self, source: &Tensor<2, Int>) -> AttentionMask {
        AttentionMask::padding(source, self.pad_id())
    }

    /// The encoder's input, by the decoder's table where the encoder has none.
    pub(crate) fn embed_source(&self, source: Tensor<2, Int>) -> Tensor<3> {
        let table = self.source_table();
        self.encoder.input.forward_with_table(source, table, 0)
    }

    fn source_table(&self) -> Tensor<2> {
        match self.encoder.input.embedding {
            Some(_) => self.encoder.input.table(),
            None => self.decoder.input.table(),
        }
    }
}
