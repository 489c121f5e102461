//! The input layer (paper, sections 3.4 and 3.5): `dropout(sqrt(D) * E[ids] + PE)`.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Embedding};
use burn::tensor::module::embedding;
use burn::tensor::{Device, Int, Tensor};

use crate::config::TransformerConfig;
use crate::dropout::dropout;
use crate::error::ConfigError;
use crate::init::Init;
use crate::position::PositionEncoding;

/// Turns token ids into vectors that know what and where they are.
#[derive(Module, Debug)]
pub struct InputLayer {
    /// The table `[V, D]`; none in an encoder that shares its decoder's.
    pub embedding: Option<Embedding>,
    /// The encoding that is added, if one is.
    pub position: Option<PositionEncoding>,
    /// On the sum.
    pub dropout: Dropout,
    scale: Option<f64>,
}

impl InputLayer {
    /// Builds an input layer for `vocab_size` tokens.
    ///
    /// # Errors
    ///
    /// See [`TransformerConfig::validate`]; also if `vocab_size` is 0.
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
            &mut Init::new(device),
        ))
    }

    /// `vocab_size` is none where the table is another layer's.
    pub(crate) fn build(
        vocab_size: Option<usize>,
        config: &TransformerConfig,
        init: &mut Init,
    ) -> Self {
        Self {
            embedding: vocab_size.map(|n| init.embedding(n, config.d_model)),
            position: PositionEncoding::build(config, init),
            dropout: DropoutConfig::new(config.dropout).init(),
            scale: config
                .scale_embeddings
                .then(|| (config.d_model as f64).sqrt()),
        }
    }

    /// Embeds tokens that stand at positions `offset..offset + T`.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, T]`
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// If the layer has no table of its own, or `offset + T` is past `max_len`.
    pub fn forward(&self, ids: Tensor<2, Int>, offset: usize) -> Tensor<3> {
        self.forward_with_table(ids, self.table(), offset)
    }

    /// The same with another layer's table `[V, D]`.
    ///
    /// # Panics
    ///
    /// If `offset + T` is past `max_len`.
    pub fn forward_with_table(
        &self,
        ids: Tensor<2, Int>,
        table: Tensor<2>,
        offset: usize,
    ) -> Tensor<3> {
        let [_, length] = ids.dims();
        let mut x = embedding(table, ids);
        if let Some(scale) = self.scale {
            x = x * scale;
        }
        if let Some(position) = &self.position {
            x = x + position.forward(offset, length).unsqueeze();
        }
        dropout(&self.dropout, x)
    }

    /// The embedding table `[V, D]`.
    ///
    /// # Panics
    ///
    /// If the layer has none of its own.
    pub fn table(&self) -> Tensor<2> {
        self.embedding
            .as_ref()
            .expect("this input layer has no embedding of its own: it shares its decoder's, so encode through `Transformer::encode`")
            .weight
            .val()
    }
}
