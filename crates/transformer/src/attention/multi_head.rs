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
use burn::nn::{Dropout, Linear};
use burn::tensor::{Device, Tensor};

use super::attend::{Inputs, attend};
use super::cache::KeyValueCache;
use super::index::{SourceRows, TargetIndex};
use super::scaled_dot_product::ScoreTerms;
use crate::config::AttentionConfig;
use crate::dropout::layer;
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

impl AttentionConfig {
    /// Builds the attention of a sequence to itself.
    ///
    /// ```
    /// use burn::tensor::{Device, Distribution, Tensor};
    /// use transformer::{AttentionConfig, AttentionMask};
    ///
    /// let device = Device::flex();
    /// let attention = AttentionConfig::new(32, 4).init_self_attention(&device)?;
    /// let x = Tensor::random([2, 5, 32], Distribution::Default, &device);
    /// let mask = AttentionMask::causal(5, &device);
    /// assert_eq!(attention.forward(x, Some(&mask), None).dims(), [2, 5, 32]);
    /// # Ok::<(), transformer::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_self_attention(&self, device: &Device) -> Result<SelfAttention, ConfigError> {
        self.validate()?;
        Ok(SelfAttention::build(self, &mut Init::new(device)))
    }

    /// Builds the attention of a sequence to a memory, which has the same width.
    ///
    /// # Errors
    ///
    /// The configuration is not valid: see [`validate`](Self::validate).
    pub fn init_cross_attention(&self, device: &Device) -> Result<CrossAttention, ConfigError> {
        self.validate()?;
        Ok(CrossAttention::build(self, &mut Init::new(device)))
    }

    /// Returns the widths of the queries and of the keys of all heads together: `H K` and `G K`.
    fn widths(&self) -> [usize; 2] {
        [self.n_heads, self.kv_heads()].map(|heads| heads * self.d_head())
    }

    /// Returns the gain of the initial `W^Q`: 1, or `1 / sqrt(K)` if scores are not divided by
    /// `sqrt(K)`. Without biases, the initial scores have the same variance in both cases.
    fn query_gain(&self) -> f64 {
        if self.scale {
            1.0
        } else {
            1.0 / (self.d_head() as f64).sqrt()
        }
    }
}

impl SelfAttention {
    pub(crate) fn build(config: &AttentionConfig, init: &mut Init) -> Self {
        let [queries, keys] = config.widths();
        let parts = [(queries, config.query_gain()), (keys, 1.0), (keys, 1.0)];
        Self {
            w_qkv: init.packed_linear(config.d_model, &parts, config.biases),
            w_o: init.linear(queries, config.d_model, config.biases),
            dropout: layer(config.dropout, init.device()),
            n_heads: config.n_heads,
            n_kv_heads: config.kv_heads(),
            is_unscaled: !config.scale,
        }
    }

    /// Returns the output of multi-head attention from `x` to itself.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - mask: `[B or 1, H or 1, T or 1, T]`, `true` = blocked
    /// - position: that of `T` tokens after 0 earlier ones, from
    ///   [`AttentionPosition::forward`](crate::position::AttentionPosition::forward)
    /// - output: `[B, T, D]`
    pub fn forward(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
        position: Option<&PositionTerm>,
    ) -> Tensor<3> {
        self.run(x, mask, position, None, false).0
    }

    /// Returns the output of [`forward`](Self::forward), and the attention weights before dropout,
    /// `[B, H, T, T]`.
    pub fn forward_with_weights(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
        position: Option<&PositionTerm>,
    ) -> (Tensor<3>, Tensor<4>) {
        let (x, weights) = self.run(x, mask, position, None, true);
        (x, weights.expect("weights were kept"))
    }

    /// Attends from the next tokens of each sequence to the tokens in the cache and to each other,
    /// and appends their keys and values to the cache.
    ///
    /// In the shapes, `L` is the number of tokens in the cache afterwards.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - mask: `[B or 1, H or 1, T or 1, L]`, `true` = blocked; for several tokens usually
    ///   [`AttentionMask::causal_after`]; `None` lets a token attend to later ones
    /// - position: that of `T` tokens after `L - T` earlier ones
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// If the cache has tokens of another layer (a clone is the same layer), `B` is not that of earlier
    /// calls with it, rotary positions are not those after its tokens, or its tokens were given positions
    /// of another kind: a rotation, a bias (relative or ALiBi), or none.
    pub fn forward_cached(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
        position: Option<&PositionTerm>,
        cache: &mut KeyValueCache,
    ) -> Tensor<3> {
        cache.check_targets(x.dims()[0]);
        let index = TargetIndex::default();
        self.run(x, mask, position, Some((cache, &index)), false).0
    }

    /// Attends from `x` to `x` itself and, if a cache is given, to the tokens in the cache.
    ///
    /// The keys and values of `x` are appended to the cache. In the shapes, `L` is the number of
    /// tokens in the cache afterwards, or `T` without a cache.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - mask: `[B or 1, H or 1, T or 1, L]`, `true` = blocked
    /// - outputs: `[B, T, D]`; if `keep_weights`, also the attention weights before dropout,
    ///   `[B, H, T, L]`
    pub(crate) fn run(
        &self,
        x: Tensor<3>,
        mask: Option<&AttentionMask>,
        position: Option<&PositionTerm>,
        mut cache: Option<(&mut KeyValueCache, &TargetIndex)>,
        keep_weights: bool,
    ) -> (Tensor<3>, Option<Tensor<4>>) {
        if let Some((cache, _)) = &mut cache {
            cache.check_use(self.w_qkv.weight.id, position);
        }
        let (n_heads, of_keys, precision) = (self.n_heads, self.n_kv_heads, x.dtype());
        let mut packed = split_heads(linear(&self.w_qkv, x), n_heads + 2 * of_keys);
        if let Some(PositionTerm::Rotation(rotation)) = position {
            if let Some((cache, _)) = &cache {
                let (past, held) = (rotation.past, cache.len());
                assert_eq!(
                    past, held,
                    "the rotation is one after {past} tokens, but the cache has {held}"
                );
            }
            packed = rotation.apply_packed(packed, n_heads + of_keys);
        }
        let mut inputs = Inputs::Own {
            packed: packed.clone(),
            n_heads,
        };
        if let Some((cache, index)) = cache {
            let has_past = !cache.is_empty();
            let buffer = cache.append_rows(packed.clone().narrow(2, n_heads, 2 * of_keys));
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
            Some(PositionTerm::Bias(bias)) => Some(bias.clone().cast(precision)),
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
    pub(crate) fn build(config: &AttentionConfig, init: &mut Init) -> Self {
        let [queries, keys] = config.widths();
        let query = [(queries, config.query_gain())];
        Self {
            w_q: init.packed_linear(config.d_model, &query, config.biases),
            w_kv: init.packed_linear(config.d_model, &[(keys, 1.0); 2], config.biases),
            w_o: init.linear(queries, config.d_model, config.biases),
            dropout: layer(config.dropout, init.device()),
            n_heads: config.n_heads,
            n_kv_heads: config.kv_heads(),
            is_unscaled: !config.scale,
        }
    }

    /// Returns the output of multi-head attention from `x` to `memory`.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - memory: `[B, S, D]`
    /// - mask: `[B or 1, H or 1, T or 1, S]`, `true` = blocked
    /// - output: `[B, T, D]`
    pub fn forward(
        &self,
        x: Tensor<3>,
        memory: Tensor<3>,
        mask: Option<&AttentionMask>,
    ) -> Tensor<3> {
        self.forward_projected(x, self.project(memory), mask)
    }

    /// Returns the output of [`forward`](Self::forward) for a memory that was projected before.
    ///
    /// # Shapes
    ///
    /// - x: `[B, T, D]`
    /// - projected: `[B, S, 2 G, K]`, from [`project`](Self::project)
    /// - mask: `[B or 1, H or 1, T or 1, S]`, `true` = blocked
    /// - output: `[B, T, D]`
    ///
    /// # Panics
    ///
    /// If `G` or `K` is not that of this layer.
    pub fn forward_projected(
        &self,
        x: Tensor<3>,
        projected: Tensor<4>,
        mask: Option<&AttentionMask>,
    ) -> Tensor<3> {
        let heads = 2 * self.n_kv_heads;
        let [.., width] = self.w_kv.weight.dims();
        let [_, _, found, d_head] = projected.dims();
        assert_eq!(
            [found, d_head],
            [heads, width / heads],
            "the projection has {found} heads of width {d_head}, but this layer's has {heads} of width {}",
            width / heads
        );
        self.run(x, projected, mask, None, false).0
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

    /// Projects a memory `[B, S, D]` to keys and values `[B, S, 2 G, K]`, keys before values. All steps
    /// of a decoding share the result.
    pub fn project(&self, memory: Tensor<3>) -> Tensor<4> {
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
    /// - mask: `[B or 1, H or 1, T or 1, S]`, `true` = blocked
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

/// Splits the last axis into `N = n_heads` heads: `[B, T, N * K]` to `[B, T, N, K]`.
fn split_heads(x: Tensor<3>, n_heads: usize) -> Tensor<4> {
    let [batch, length, width] = x.dims();
    x.reshape([batch, length, n_heads, width / n_heads])
}
