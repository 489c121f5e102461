//! Multi-head attention (paper, section 3.2.2):
//!
//! ```text
//! MultiHead(Q, K, V) = Concat(head_1, ..., head_H) W^O
//!             head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)
//! ```
//!
//! Projections of the same input share one packed matrix and one matmul. With grouped queries
//! (Ainslie et al. 2023), there are `G` key-value heads, and `H / G` consecutive query heads share
//! one key-value head. Otherwise, `G` is `H`, as in the paper.

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear};
use burn::tensor::{Device, Tensor};

use super::attend::{Inputs, attend};
use super::cache::KeyValueCache;
use super::index::{SourceRows, TargetIndex};
use super::scaled_dot_product::ScoreTerms;
use crate::config::TransformerConfig;
use crate::error::ConfigError;
use crate::init::Init;
use crate::linear::linear;
use crate::mask::AttentionMask;
use crate::position::PositionTerm;

/// Multi-head attention of a sequence to itself.
#[derive(Module, Debug)]
pub struct SelfAttention {
    /// `W^Q`, `W^K` and `W^V` side by side: `[D, (H + 2 G) K]`.
    pub w_qkv: Linear,
    /// `W^O`: `[H K, D]`.
    pub w_o: Linear,
    /// Dropout of the attention weights.
    pub dropout: Dropout,
    n_heads: usize,
    n_kv_heads: usize,
    is_unscaled: bool,
}

impl SelfAttention {
    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`TransformerConfig::validate`].
    pub fn init(config: &TransformerConfig, device: &Device) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::build(config, &mut Init::new(device)))
    }

    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        Self {
            w_qkv: init.packed_linear(
                config.d_model,
                &[
                    (config.d_heads(), query_gain(config)),
                    (config.d_keys(), 1.0),
                    (config.d_keys(), 1.0),
                ],
                config.biases,
            ),
            w_o: init.linear(config.d_heads(), config.d_model, config.biases),
            dropout: DropoutConfig::new(config.dropout).init(),
            n_heads: config.n_heads,
            n_kv_heads: config.kv_heads(),
            is_unscaled: !config.scale_attention,
        }
    }

    /// Returns the output of multi-head attention from `x` to itself.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - mask: `[B or 1, H or 1, T or 1, T or 1]`, `true` = blocked
    /// - output: `[B, T, D]`
    pub fn forward(&self, x: Tensor<3>, mask: Option<&AttentionMask>) -> Tensor<3> {
        self.run(x, mask, None, None, false).0
    }

    /// Returns the output of [`forward`](Self::forward), and the attention weights before dropout,
    /// `[B, H, T, T]`.
    pub fn forward_with_weights(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
    ) -> (Tensor<3>, Tensor<4>) {
        let (x, weights) = self.run(x, mask, None, None, true);
        (x, weights.expect("weights were kept"))
    }

    /// Attends from `x` to `x` itself and, if a cache is given, to the tokens in the cache.
    ///
    /// The keys and values of `x` are appended to the cache. In the shapes, `L` is the number of
    /// tokens in the cache afterwards, or `T` without a cache.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - mask: `[B or 1, H or 1, T or 1, L or 1]`, `true` = blocked
    /// - outputs: `[B, T, D]`; if `keep_weights`, also the attention weights before dropout,
    ///   `[B, H, T, L]`
    pub(crate) fn run(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
        position: Option<&PositionTerm>,
        cache: Option<(&mut KeyValueCache, &TargetIndex)>,
        keep_weights: bool,
    ) -> (Tensor<3>, Option<Tensor<4>>) {
        let (n_heads, of_keys) = (self.n_heads, self.n_kv_heads);
        let mut packed = split_heads(linear(&self.w_qkv, x), n_heads + 2 * of_keys);
        if let Some(PositionTerm::Rotation(rotation)) = position {
            let n_rotated = n_heads + of_keys;
            let rotated = packed.clone().narrow(2, 0, n_rotated).swap_dims(1, 2);
            let rotated = rotation.apply(rotated).swap_dims(1, 2);
            packed = Tensor::cat(vec![rotated, packed.narrow(2, n_rotated, of_keys)], 2);
        }
        let mut inputs = Inputs::Own {
            packed: packed.clone(),
            n_heads,
        };
        if let Some((cache, index)) = cache {
            let has_past = !cache.is_empty();
            let buffer = cache.append(packed.clone().narrow(2, n_heads, 2 * of_keys));
            if has_past {
                inputs = Inputs::Cached {
                    query: packed.narrow(2, 0, n_heads),
                    cache: buffer,
                    length: cache.len(),
                    tokens: index.tokens.as_ref(),
                };
            }
        }
        let bias = match position {
            Some(PositionTerm::Bias(bias)) => Some(bias.clone()),
            _ => None,
        };
        let terms = ScoreTerms {
            bias,
            is_unscaled: self.is_unscaled,
        };
        let (context, weights) = attend(inputs, mask, &terms, &self.dropout, keep_weights);
        (linear(&self.w_o, context), weights)
    }
}

/// Multi-head attention of one sequence to another sequence, the memory.
#[derive(Module, Debug)]
pub struct CrossAttention {
    /// `W^Q`: `[D, H K]`.
    pub w_q: Linear,
    /// `W^K` and `W^V` side by side: `[D, 2 G K]`.
    pub w_kv: Linear,
    /// `W^O`: `[H K, D]`.
    pub w_o: Linear,
    /// Dropout of the attention weights.
    pub dropout: Dropout,
    n_heads: usize,
    n_kv_heads: usize,
    is_unscaled: bool,
}

impl CrossAttention {
    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`TransformerConfig::validate`].
    pub fn init(config: &TransformerConfig, device: &Device) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::build(config, &mut Init::new(device)))
    }

    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        Self {
            w_q: init.packed_linear(
                config.d_model,
                &[(config.d_heads(), query_gain(config))],
                config.biases,
            ),
            w_kv: init.packed_linear(config.d_model, &[(config.d_keys(), 1.0); 2], config.biases),
            w_o: init.linear(config.d_heads(), config.d_model, config.biases),
            dropout: DropoutConfig::new(config.dropout).init(),
            n_heads: config.n_heads,
            n_kv_heads: config.kv_heads(),
            is_unscaled: !config.scale_attention,
        }
    }

    /// Returns the output of multi-head attention from `x` to `memory`.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - memory: `[B, S, D]`
    /// - mask: `[B or 1, H or 1, T or 1, S or 1]`, `true` = blocked
    /// - output: `[B, T, D]`
    pub fn forward(
        &self,
        x: Tensor<3>,
        memory: Tensor<3>,
        mask: Option<&AttentionMask>,
    ) -> Tensor<3> {
        self.run(x, self.project(memory), mask, None, false).0
    }

    /// Returns the output of [`forward`](Self::forward), and the attention weights before dropout,
    /// `[B, H, T, S]`.
    pub fn forward_with_weights(
        &self,
        x: Tensor<3>,
        memory: Tensor<3>,
        mask: Option<&AttentionMask>,
    ) -> (Tensor<3>, Tensor<4>) {
        let (x, weights) = self.run(x, self.project(memory), mask, None, true);
        (x, weights.expect("weights were kept"))
    }

    /// Projects a memory `[B, S, D]` to keys and values `[B, S, 2 G, K]`, keys before values.
    ///
    /// All decoding steps share the result.
    pub(crate) fn project(&self, memory: Tensor<3>) -> Tensor<4> {
        split_heads(linear(&self.w_kv, memory), 2 * self.n_kv_heads)
    }

    /// Attends from `x` to a projected memory.
    ///
    /// `sources` has the source of each target; it is `None` if target `i` belongs to source `i`.
    ///
    /// # Shapes
    ///
    /// - x: `[R, T, D]`, for `R` targets
    /// - memory: `[B, S, 2 G, K]`, from [`project`](Self::project)
    /// - mask: `[B or 1, H or 1, T or 1, S or 1]`, `true` = blocked
    /// - outputs: `[R, T, D]`; if `keep_weights`, also the attention weights before dropout,
    ///   `[R, H, T, S]`
    pub(crate) fn run(
        &self,
        x: Tensor<3>,
        memory: Tensor<4>,
        mask: Option<&AttentionMask>,
        sources: Option<&SourceRows>,
        keep_weights: bool,
    ) -> (Tensor<3>, Option<Tensor<4>>) {
        let inputs = Inputs::Memory {
            query: split_heads(linear(&self.w_q, x), self.n_heads),
            memory,
            sources,
        };
        let terms = ScoreTerms {
            bias: None,
            is_unscaled: self.is_unscaled,
        };
        let (context, weights) = attend(inputs, mask, &terms, &self.dropout, keep_weights);
        (linear(&self.w_o, context), weights)
    }
}

/// Returns the gain of the initial `W^Q`: 1, or `1 / sqrt(K)` if scores are not divided by
/// `sqrt(K)`. Without biases, the initial scores have the same variance in both cases.
fn query_gain(config: &TransformerConfig) -> f64 {
    if config.scale_attention {
        1.0
    } else {
        1.0 / (config.d_head() as f64).sqrt()
    }
}

/// Splits the last axis into `N = n_heads` heads: `[B, T, N * K]` to `[B, T, N, K]`.
fn split_heads(x: Tensor<3>, n_heads: usize) -> Tensor<4> {
    let [batch, length, width] = x.dims();
    x.reshape([batch, length, n_heads, width / n_heads])
}
