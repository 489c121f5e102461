//! The input layer of a stack (paper, sections 3.4 and 3.5): `dropout(sqrt(D) E[ids] + PE)`.
//!
//! `E` is the embedding table, and `PE` is the positional encoding. Some models, such as BART,
//! normalise the sum before dropout.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Embedding};
use burn::tensor::{Device, Int, Tensor};

use crate::config::TransformerConfig;
use crate::dropout::dropout;
use crate::error::ConfigError;
use crate::init::Init;
use crate::norm::LayerNorm;
use crate::position::PositionEncoding;

/// Token embedding and positional encoding.
#[derive(Module, Debug)]
pub struct InputLayer {
    /// Embedding table `[V, D]`; `None` in an encoder that shares the decoder's table.
    pub embedding: Option<Embedding>,
    /// Positional encoding that is added to the embeddings; `None` if positions act in
    /// self-attention or are not encoded.
    pub position: Option<PositionEncoding>,
    /// Norm of the sum of embeddings and positional encoding; `None` if it is not normalised.
    pub norm: Option<LayerNorm>,
    /// Dropout of the sum of embeddings and positional encoding.
    pub dropout: Dropout,
    /// Factor by which embeddings are multiplied; `None` if they are not scaled.
    scale: Option<f64>,
}

impl InputLayer {
    /// Builds an input layer for a vocabulary of `vocab_size` tokens.
    ///
    /// With [`Positions::SinusoidalFairseq`](crate::Positions::SinusoidalFairseq), positions count
    /// padding like any other token, as in a decoder.
    ///
    /// # Errors
    ///
    /// The configuration is not valid (see [`TransformerConfig::validate`]), or `vocab_size` is 0.
    pub fn init(
        vocab_size: usize,
        config: &TransformerConfig,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        if vocab_size == 0 {
            return Err(ConfigError::new("vocab_size", 0, "at least 1"));
        }
        Ok(Self::build(
            Some(vocab_size),
            config,
            true,
            &mut Init::new(device),
        ))
    }

    /// Builds the layer of the decoder (`is_causal`) or the encoder, without an embedding table if
    /// `vocab_size` is `None`.
    pub(crate) fn build(
        vocab_size: Option<usize>,
        config: &TransformerConfig,
        is_causal: bool,
        init: &mut Init,
    ) -> Self {
        Self {
            embedding: vocab_size.map(|n| {
                // Embeddings that are not multiplied by `sqrt(D)`, as in T5, begin with variance 1,
                // because smaller embeddings would slow training down. The exceptions are models
                // whose generator shares a table without `scale_logits`: with variance 1, the
                // logits would be too large.
                let is_shared = config.weight_tying.shares_generator();
                let is_unit = !config.scale_embeddings && (config.scale_logits || !is_shared);
                init.embedding(n, config.d_model, is_unit)
            }),
            position: PositionEncoding::build(config, is_causal, init),
            norm: config
                .embedding_norm
                .then(|| LayerNorm::build(config, init)),
            dropout: DropoutConfig::new(config.dropout).init(),
            scale: config
                .scale_embeddings
                .then(|| (config.d_model as f64).sqrt()),
        }
    }

    /// Embeds `ids`, which are at positions `offset..offset + T` of their sequences.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, T]`
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// If the layer has no embedding table, or `offset + T` exceeds the `max_len` of the
    /// positional encoding that is added.
    pub fn forward(&self, ids: Tensor<2, Int>, offset: usize) -> Tensor<3> {
        self.forward_with_table(ids, self.table(), offset)
    }

    /// Embeds `ids`, at positions `offset..offset + T`, with another layer's embedding table.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, T]`
    /// - table: `[V, D]`
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// If `offset + T` exceeds the `max_len` of the positional encoding that is added.
    pub fn forward_with_table(
        &self,
        ids: Tensor<2, Int>,
        table: Tensor<2>,
        offset: usize,
    ) -> Tensor<3> {
        let mut x = fused::embedding(table, ids.clone());
        if let Some(scale) = self.scale {
            x = x * scale;
        }
        if let Some(position) = &self.position {
            x = x + position.of_tokens(ids, offset);
        }
        if let Some(norm) = &self.norm {
            x = norm.forward(x);
        }
        dropout(&self.dropout, x)
    }

    /// Returns the embedding table `[V, D]`.
    ///
    /// # Panics
    ///
    /// If the layer has no embedding table.
    pub fn table(&self) -> Tensor<2> {
        self.embedding
            .as_ref()
            .expect("this input layer has no embedding table, because it shares its decoder's: encode through `Transformer::encode`")
            .weight
            .val()
    }
}
