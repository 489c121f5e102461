//! Multi-head attention (paper, section 3.2.2):
//!
//! ```text
//! MultiHead(Q, K, V) = Concat(head_1, ..., head_H) W^O
//!             head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)
//! ```
//!
//! Projections that see one input are one packed matrix and one product.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear};
use burn::tensor::{Device, Tensor};

use super::cache::{BeamPlaces, KeyValue, KeyValueCache, Keys, Rows};
use super::scaled_dot_product::{attend, cross_attention, self_attention};
use crate::config::TransformerConfig;
use crate::error::ConfigError;
use crate::init::Init;
use crate::linear::linear;
use crate::mask::AttentionMask;
use crate::position::Rotation;

/// Queries, keys and values from one sequence.
#[derive(Module, Debug)]
pub struct SelfAttention {
    /// `W^Q`, `W^K` and `W^V` side by side: `[D, 3 D]`.
    pub w_qkv: Linear,
    /// `W^O`: `[D, D]`.
    pub w_o: Linear,
    /// On the attention weights.
    pub dropout: Dropout,
    n_heads: usize,
}

impl SelfAttention {
    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// See [`TransformerConfig::validate`].
    pub fn init(config: &TransformerConfig, device: &Device) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::build(config, &mut Init::new(device)))
    }

    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        Self {
            w_qkv: init.packed_linear(config.d_model, config.d_model, 3),
            w_o: init.linear(config.d_model, config.d_model),
            dropout: DropoutConfig::new(config.dropout).init(),
            n_heads: config.n_heads,
        }
    }

    /// Attends to the sequence itself.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - output: `[B, T, D]`
    pub fn forward(&self, x: Tensor<3>, mask: Option<&AttentionMask>) -> Tensor<3> {
        self.run(x, mask, None, None, false).0
    }

    /// The same, with the weights `[B, H, T, T]` before dropout.
    pub fn forward_with_weights(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
    ) -> (Tensor<3>, Tensor<4>) {
        let (x, weights) = self.run(x, mask, None, None, true);
        (x, weights.expect("weights were asked for"))
    }

    /// Attends to the tokens in the cache, if there is one, and to `x`, which is added to it.
    pub(crate) fn run(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
        rotation: Option<&Rotation>,
        cache: Option<(&mut KeyValueCache, &Rows)>,
        keep_weights: bool,
    ) -> (Tensor<3>, Option<Tensor<4>>) {
        let n_heads = self.n_heads;
        let [batch, length, _] = x.dims();
        let mut packed = split_heads(linear(&self.w_qkv, x), 3 * n_heads);
        if let Some(rotation) = rotation {
            let rotated = packed.clone().narrow(2, 0, 2 * n_heads).swap_dims(1, 2);
            let rotated = rotation.apply(rotated).swap_dims(1, 2);
            packed = Tensor::cat(vec![rotated, packed.narrow(2, 2 * n_heads, n_heads)], 2);
        }
        let query = packed.clone().narrow(2, 0, n_heads);
        let new = packed.clone().narrow(2, n_heads, 2 * n_heads);
        let mut past_and_new = None;
        if let Some((cache, rows)) = cache {
            let is_first = cache.is_empty();
            let keys = Keys {
                packed: cache.append(new.clone()),
                length: cache.len(),
            };
            let past = rows.past.as_ref();
            if length == 1
                && !keep_weights
                && let Some(context) = keys.step(&query, past, None, None)
            {
                return (linear(&self.w_o, context), None);
            }
            past_and_new = (!is_first).then(|| keys.of_targets(batch, past));
        }
        if past_and_new.is_none()
            && !keep_weights
            && let Some(context) = self_attention(&packed, mask, &self.dropout)
        {
            return (linear(&self.w_o, context), None);
        }
        let all = past_and_new.unwrap_or_else(|| KeyValue::from_packed(new));
        let KeyValue { key, value } = all;
        let query = query.swap_dims(1, 2);
        let (context, weights) = attend(query, key, value, mask, &self.dropout, keep_weights);
        (linear(&self.w_o, join_heads(context)), weights)
    }
}

/// Queries from one sequence, keys and values from another, the memory.
#[derive(Module, Debug)]
pub struct CrossAttention {
    /// `W^Q`: `[D, D]`.
    pub w_q: Linear,
    /// `W^K` and `W^V` side by side: `[D, 2 D]`.
    pub w_kv: Linear,
    /// `W^O`: `[D, D]`.
    pub w_o: Linear,
    /// On the attention weights.
    pub dropout: Dropout,
    n_heads: usize,
}

impl CrossAttention {
    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// See [`TransformerConfig::validate`].
    pub fn init(config: &TransformerConfig, device: &Device) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::build(config, &mut Init::new(device)))
    }

    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        Self {
            w_q: init.linear(config.d_model, config.d_model),
            w_kv: init.packed_linear(config.d_model, config.d_model, 2),
            w_o: init.linear(config.d_model, config.d_model),
            dropout: DropoutConfig::new(config.dropout).init(),
            n_heads: config.n_heads,
        }
    }

    /// Attends from `x` to `memory`.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - memory: `[B, S, D]`
    /// - output: `[B, T, D]`
    pub fn forward(
        &self,
        x: Tensor<3>,
        memory: Tensor<3>,
        mask: Option<&AttentionMask>,
    ) -> Tensor<3> {
        self.run(x, self.keys(memory), mask, &Rows::default(), false)
            .0
    }

    /// The same, with the weights `[B, H, T, S]` before dropout.
    pub fn forward_with_weights(
        &self,
        x: Tensor<3>,
        memory: Tensor<3>,
        mask: Option<&AttentionMask>,
    ) -> (Tensor<3>, Tensor<4>) {
        let rows = Rows::default();
        let (x, weights) = self.run(x, self.keys(memory), mask, &rows, true);
        (x, weights.expect("weights were asked for"))
    }

    fn keys(&self, memory: Tensor<3>) -> Keys {
        Keys {
            length: memory.dims()[1],
            packed: self.project_packed(memory),
        }
    }

    /// Keys and values of the memory, which every decoding step can share.
    ///
    /// # Shapes
    ///
    /// - memory: `[B, S, D]`
    pub fn project(&self, memory: Tensor<3>) -> KeyValue {
        KeyValue::from_packed(self.project_packed(memory))
    }

    /// The same, packed: `[B, S, 2 H, K]`.
    pub(crate) fn project_packed(&self, memory: Tensor<3>) -> Tensor<4> {
        split_heads(linear(&self.w_kv, memory), 2 * self.n_heads)
    }

    /// Attends from `x` to a projected memory.
    pub(crate) fn run(
        &self,
        x: Tensor<3>,
        memory: Keys,
        mask: Option<&AttentionMask>,
        rows: &Rows,
        keep_weights: bool,
    ) -> (Tensor<3>, Option<Tensor<4>>) {
        let is_step = x.dims()[1] == 1 && !keep_weights;
        let device = x.device();
        let query = split_heads(linear(&self.w_q, x), self.n_heads);
        let beams = rows.beams.as_ref();
        if is_step && let Some(context) = memory.step(&query, None, mask, beams) {
            return (linear(&self.w_o, context), None);
        }
        if beams.is_none()
            && !keep_weights
            && let Some(context) = cross_attention(&query, &memory.packed, mask, &self.dropout)
        {
            return (linear(&self.w_o, context), None);
        }
        let mut memory = KeyValue::from_packed(memory.packed);
        let mut mask = mask.cloned();
        if let Some(beams) = beams {
            if is_step {
                let context = self.share(query, memory, mask.as_ref(), beams.places(&device));
                return (linear(&self.w_o, context), None);
            }
            let sources = beams.sources(&device);
            memory.key = memory.key.select(0, sources.clone());
            memory.value = memory.value.select(0, sources.clone());
            mask = mask.map(|mask| mask.select(sources));
        }
        let KeyValue { key, value } = memory;
        let (query, mask) = (query.swap_dims(1, 2), mask.as_ref());
        let (context, weights) = attend(query, key, value, mask, &self.dropout, keep_weights);
        (linear(&self.w_o, join_heads(context)), weights)
    }

    /// One token of each of a source's targets: as many queries to one memory, which is not copied.
    fn share(
        &self,
        query: Tensor<4>,
        memory: KeyValue,
        mask: Option<&AttentionMask>,
        BeamPlaces { width, order }: &BeamPlaces,
    ) -> Tensor<3> {
        let KeyValue { key, value } = memory;
        let [batch, n_heads, _, d_head] = key.dims();
        let mut places: Tensor<3> = query.squeeze_dim(1);
        if let Some((target_in, _)) = order {
            places = places.select(0, target_in.clone());
        }
        let query = places.reshape([batch, *width, n_heads, d_head]);
        let query = query.swap_dims(1, 2);
        let (context, _) = attend(query, key, value, mask, &self.dropout, false);
        let mut states: Tensor<2> = join_heads(context).flatten(0, 1);
        if let Some((_, place_of)) = order {
            states = states.select(0, place_of.clone());
        }
        states.unsqueeze_dim(1)
    }
}

/// `[B, T, N K]` to `[B, T, N, K]`.
fn split_heads(x: Tensor<3>, n_heads: usize) -> Tensor<4> {
    let [batch, length, width] = x.dims();
    x.reshape([batch, length, n_heads, width / n_heads])
}

/// `[B, H, T, K]` to `[B, T, D]`.
fn join_heads(x: Tensor<4>) -> Tensor<3> {
    let [batch, n_heads, length, d_head] = x.dims();
    x.swap_dims(1, 2).reshape([batch, length, n_heads * d_head])
}
