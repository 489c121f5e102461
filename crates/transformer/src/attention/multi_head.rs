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

use super::cache::{KeyValue, KeyValueCache};
use super::scaled_dot_product::attend;
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
        self.run(x, mask, None, &mut KeyValueCache::default(), false)
            .0
    }

    /// The same, with the weights `[B, H, T, T]` before dropout.
    pub fn forward_with_weights(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
    ) -> (Tensor<3>, Tensor<4>) {
        let (x, weights) = self.run(x, mask, None, &mut KeyValueCache::default(), true);
        (x, weights.expect("weights were asked for"))
    }

    /// Attends to the tokens in the cache and to `x`, which is added to it.
    pub(crate) fn run(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
        rotation: Option<&Rotation>,
        cache: &mut KeyValueCache,
        keep_weights: bool,
    ) -> (Tensor<3>, Option<Tensor<4>>) {
        let [q, k, v] = project_heads(&self.w_qkv, x, self.n_heads);
        let (q, k) = match rotation {
            Some(rotation) => (rotation.apply(q), rotation.apply(k)),
            None => (q, k),
        };
        let all = cache.append(KeyValue { key: k, value: v });
        let (context, weights) = attend(q, all.key, all.value, mask, &self.dropout, keep_weights);
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
        self.run(x, self.project(memory), mask, false).0
    }

    /// The same, with the weights `[B, H, T, S]` before dropout.
    pub fn forward_with_weights(
        &self,
        x: Tensor<3>,
        memory: Tensor<3>,
        mask: Option<&AttentionMask>,
    ) -> (Tensor<3>, Tensor<4>) {
        let (x, weights) = self.run(x, self.project(memory), mask, true);
        (x, weights.expect("weights were asked for"))
    }

    /// Keys and values of the memory, which every decoding step can share.
    ///
    /// # Shapes
    ///
    /// - memory: `[B, S, D]`
    pub fn project(&self, memory: Tensor<3>) -> KeyValue {
        let [key, value] = project_heads(&self.w_kv, memory, self.n_heads);
        KeyValue { key, value }
    }

    /// Attends from `x` to a projected memory.
    pub(crate) fn run(
        &self,
        x: Tensor<3>,
        memory: KeyValue,
        mask: Option<&AttentionMask>,
        keep_weights: bool,
    ) -> (Tensor<3>, Option<Tensor<4>>) {
        let [q] = project_heads(&self.w_q, x, self.n_heads);
        let (context, weights) = attend(
            q,
            memory.key,
            memory.value,
            mask,
            &self.dropout,
            keep_weights,
        );
        (linear(&self.w_o, join_heads(context)), weights)
    }
}

/// `[B, T, D]` through a packed projection `[D, N D]` to `N` times `[B, H, T, K]`.
fn project_heads<const N: usize>(packed: &Linear, x: Tensor<3>, n_heads: usize) -> [Tensor<4>; N] {
    let [batch, length, d_model] = x.dims();
    let parts = linear(packed, x);
    std::array::from_fn(|part| {
        parts
            .clone()
            .narrow(2, part * d_model, d_model)
            .reshape([batch, length, n_heads, d_model / n_heads])
            .swap_dims(1, 2)
    })
}

/// `[B, H, T, K]` to `[B, T, D]`.
fn join_heads(x: Tensor<4>) -> Tensor<3> {
    let [batch, n_heads, length, d_head] = x.dims();
    x.swap_dims(1, 2).reshape([batch, length, n_heads * d_head])
}
