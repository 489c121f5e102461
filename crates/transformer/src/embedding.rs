//! The input layer of a stack (paper, sections 3.4 and 3.5): `dropout(sqrt(D) E[ids] + PE)`.
//!
//! `E` is the embedding table, and `PE` is the positional encoding. Some models, such as BART,
//! normalise the sum before dropout.

use burn::module::Module;
use burn::nn::{Dropout, Embedding};
use burn::tensor::{Device, Int, Tensor};

use crate::config::InputConfig;
use crate::dropout::{dropout, layer};
use crate::error::ConfigError;
use crate::init::Init;
use crate::norm::LayerNorm;
use crate::position::PositionEncoding;

/// Token embedding and positional encoding.
#[derive(Module, Debug)]
pub struct InputLayer {
    /// Embedding table `[V, D]`; `None` for vectors, and in an encoder that shares the decoder's
    /// table.
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

impl InputConfig {
    /// Builds the input layer.
    ///
    /// With [`Positions::SinusoidalFairseq`](crate::Positions::SinusoidalFairseq), positions count
    /// padding like any other token, as in a decoder.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init(&self, device: &Device) -> Result<InputLayer, ConfigError> {
        self.validate()?;
        Ok(InputLayer::build(self, true, false, &mut Init::new(device)))
    }
}

impl InputLayer {
    /// Builds the layer of the decoder (`is_causal`) or the encoder. A table that is a generator's
    /// weight, too, has `small` elements.
    pub(crate) fn build(
        config: &InputConfig,
        is_causal: bool,
        small: bool,
        init: &mut Init,
    ) -> Self {
        let d_model = config.d_model;
        Self {
            embedding: config.vocab_size.map(|n| {
                // Embeddings that are not multiplied by `sqrt(D)`, as in T5, begin with variance 1,
                // because smaller embeddings would slow training down.
                init.embedding(n, d_model, !config.scale && !small)
            }),
            position: PositionEncoding::build(&config.positions, d_model, is_causal, init),
            norm: config
                .norm
                .as_ref()
                .map(|norm| LayerNorm::build(norm, init.device())),
            dropout: layer(config.dropout, init.device()),
            scale: config.scale.then(|| (d_model as f64).sqrt()),
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
    /// If `offset + T` exceeds the `max_len` of the positional encoding that is added, or the table
    /// has another width than the encoding.
    pub fn forward_with_table(
        &self,
        ids: Tensor<2, Int>,
        table: Tensor<2>,
        offset: usize,
    ) -> Tensor<3> {
        let x = self.scaled(table, ids.clone());
        self.finish(match &self.position {
            Some(position) => add(x, position.of_tokens(ids, offset)),
            None => x,
        })
    }

    /// Embeds `ids` without positions, norm and dropout, for
    /// [`forward_vectors`](Self::forward_vectors): other embeddings may be added before. Positions that
    /// skip padding (fairseq's) then skip none, since vectors do not show it: padding must be at the end.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, T]`
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// If the layer has no embedding table.
    pub fn embed(&self, ids: Tensor<2, Int>) -> Tensor<3> {
        self.scaled(self.table(), ids)
    }

    /// Returns the embeddings, multiplied by `sqrt(D)` if the layer scales them.
    fn scaled(&self, table: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<3> {
        let x = fused::embedding(table, ids);
        match self.scale {
            Some(scale) => x * scale,
            None => x,
        }
    }

    /// Adds positions `offset..offset + T` to vectors, which are not multiplied by `sqrt(D)`, and
    /// applies norm and dropout.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// If `offset + T` exceeds the `max_len` of the positional encoding that is added, or the
    /// vectors have another width than the encoding.
    pub fn forward_vectors(&self, x: Tensor<3>, offset: usize) -> Tensor<3> {
        let [_, length, _] = x.dims();
        self.finish(match &self.position {
            Some(position) => add(x, position.forward(offset, length).unsqueeze()),
            None => x,
        })
    }

    fn finish(&self, x: Tensor<3>) -> Tensor<3> {
        let x = match &self.norm {
            Some(norm) => norm.forward(x),
            None => x,
        };
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
            .expect("this input layer has no embedding table: an encoder that shares its decoder's encodes through `Transformer::encode`, one of vectors through `forward_vectors`")
            .weight
            .val()
    }
}

/// Adds the encoding of positions, `[B or 1, T, D]`, to vectors, `[B, T, D]`.
fn add(x: Tensor<3>, encoding: Tensor<3>) -> Tensor<3> {
    let [batch, length, width] = x.dims();
    let [.., d_model] = encoding.dims();
    assert_eq!(
        width, d_model,
        "the vectors are [{batch}, {length}, {width}], but positions are [{length}, {d_model}]"
    );
    let encoding = encoding.cast(x.dtype());
    x + encoding
}
