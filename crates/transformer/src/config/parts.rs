//! Configurations of the parts of a stack. Each has only what its part needs.

use burn::config::Config;
use serde::{Deserialize, Serialize};

use super::choices::{Activation, NormKind, NormPlacement, NormVariance, Positions};
use super::limits::{probability, size};
use crate::error::{ConfigError, number};

/// Configuration of [`SelfAttention`](crate::attention::SelfAttention) or
/// [`CrossAttention`](crate::attention::CrossAttention) (paper, section 3.2.2).
#[derive(Config, Debug, PartialEq)]
#[non_exhaustive]
pub struct AttentionConfig {
    /// Width `D` of inputs and outputs.
    pub d_model: usize,
    /// Number of heads `H`; a divisor of `D` unless `d_kv` is given.
    pub n_heads: usize,
    /// Number `G` of key-value heads, a divisor of `H`; `None` for `H`, as in the paper.
    #[config(default = "None")]
    pub n_kv_heads: Option<usize>,
    /// Width `K` of each head; `None` for `D / H`, as in the paper.
    #[config(default = "None")]
    pub d_kv: Option<usize>,
    /// Dropout probability of the attention weights, in `[0, 1)`.
    #[config(default = 0.1)]
    pub dropout: f64,
    /// Whether the linear layers add a bias.
    #[config(default = true)]
    pub biases: bool,
    /// Whether scores are divided by `sqrt(K)` (paper, section 3.2.1). T5 does not divide them.
    #[config(default = true)]
    pub scale: bool,
}

impl AttentionConfig {
    /// Checks the fields and the relations between fields.
    ///
    /// # Errors
    ///
    /// A field is not valid; the error names the first such field that is found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        size("d_model", self.d_model)?;
        size("n_heads", self.n_heads)?;
        if let Some(d_kv) = self.d_kv {
            size("d_kv", d_kv)?;
        } else if !self.d_model.is_multiple_of(self.n_heads) {
            let expected = format!("a divisor of d_model ({})", self.d_model);
            return Err(ConfigError::new("n_heads", self.n_heads, expected));
        }
        if let Some(n_kv_heads) = self.n_kv_heads
            && (n_kv_heads == 0 || !self.n_heads.is_multiple_of(n_kv_heads))
        {
            let expected = format!("a divisor of n_heads ({})", self.n_heads);
            return Err(ConfigError::new("n_kv_heads", n_kv_heads, expected));
        }
        probability("dropout", self.dropout)
    }

    /// Returns the width `K` of one head.
    ///
    /// # Panics
    ///
    /// If `n_heads` is 0.
    pub fn d_head(&self) -> usize {
        self.d_kv.unwrap_or(self.d_model / self.n_heads)
    }

    /// Returns the number `G` of key-value heads.
    pub fn kv_heads(&self) -> usize {
        self.n_kv_heads.unwrap_or(self.n_heads)
    }
}

/// Configuration of a [`FeedForward`](crate::feed_forward::FeedForward) network (paper, section
/// 3.3).
#[derive(Config, Debug, PartialEq)]
#[non_exhaustive]
pub struct FeedForwardConfig {
    /// Width `D` of inputs and outputs.
    pub d_model: usize,
    /// Inner width `F`.
    pub d_ff: usize,
    /// Activation function.
    #[config(default = "Activation::Relu")]
    pub activation: Activation,
    /// Dropout probability of the inner activation, in `[0, 1)`.
    #[config(default = 0.1)]
    pub dropout: f64,
    /// Whether the linear layers add a bias.
    #[config(default = true)]
    pub biases: bool,
}

impl FeedForwardConfig {
    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// A field is not valid; the error names the first such field that is found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        size("d_model", self.d_model)?;
        size("d_ff", self.d_ff)?;
        probability("dropout", self.dropout)
    }
}

/// Configuration of a [`LayerNorm`](crate::LayerNorm).
#[derive(Config, Debug, PartialEq)]
#[non_exhaustive]
pub struct NormConfig {
    /// Width `D` of the vectors that are normalised.
    pub d_model: usize,
    /// Layer normalisation or RMS normalisation.
    #[config(default = "NormKind::Layer")]
    pub kind: NormKind,
    /// Constant `ε` that is added to the variance (or the mean square, for [`NormKind::Rms`])
    /// before the square root.
    #[config(default = 1e-5)]
    pub epsilon: f64,
    /// Divisor of the variance.
    #[config(default = "NormVariance::Biased")]
    pub variance: NormVariance,
}

impl NormConfig {
    /// Checks the fields and the relations between fields.
    ///
    /// # Errors
    ///
    /// A field is not valid; the error names the first such field that is found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        size("d_model", self.d_model)?;
        let is_unbiased = self.variance == NormVariance::Unbiased;
        if is_unbiased && self.kind == NormKind::Rms {
            let expected = "biased: an RMS norm divides by the mean of the squares";
            return Err(ConfigError::new("variance", self.variance, expected));
        }
        if is_unbiased && self.d_model == 1 {
            let expected = "at least 2: the unbiased variance is divided by d_model - 1";
            return Err(ConfigError::new("d_model", 1, expected));
        }
        let epsilon = self.epsilon as f32;
        if !(epsilon > 0.0 && epsilon.is_finite()) {
            let expected = "a positive number that float32 can hold";
            return Err(ConfigError::new("epsilon", number(self.epsilon), expected));
        }
        Ok(())
    }
}

/// Configuration of one layer of a stack: attention and feed-forward network, each in a
/// [residual block](crate::residual::Residual).
///
/// A [decoder layer](crate::decoder::DecoderLayer) uses the configuration of attention twice.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use transformer::{Activation, LayerConfig};
///
/// let device = Device::flex();
/// let layer = LayerConfig::new(32, 64, 4)
///     .with_activation(Activation::Gelu)
///     .init_encoder_layer(&device)?;
/// let x = Tensor::random([2, 5, 32], Distribution::Default, &device);
/// assert_eq!(layer.forward(x, None, None).dims(), [2, 5, 32]);
/// # Ok::<(), transformer::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LayerConfig {
    /// Self-attention, and cross-attention in a decoder.
    pub attention: AttentionConfig,
    /// Feed-forward network.
    pub feed_forward: FeedForwardConfig,
    /// Norm of each residual block.
    pub norm: NormConfig,
    /// Placement of the norm in each residual block.
    pub norm_placement: NormPlacement,
    /// Dropout probability of the output of each sublayer, in `[0, 1)`.
    pub dropout: f64,
}

impl Config for LayerConfig {}

impl LayerConfig {
    /// Creates the configuration of a layer as in the paper, with dropout 0.1: of width `d_model`,
    /// inner width `d_ff` of the feed-forward network, and `n_heads` heads.
    pub fn new(d_model: usize, d_ff: usize, n_heads: usize) -> Self {
        Self {
            attention: AttentionConfig::new(d_model, n_heads),
            feed_forward: FeedForwardConfig::new(d_model, d_ff),
            norm: NormConfig::new(d_model),
            norm_placement: NormPlacement::Post,
            dropout: 0.1,
        }
    }

    /// Sets the dropout probability of attention weights, inner activations and outputs of
    /// sublayers.
    pub fn with_dropout(mut self, dropout: f64) -> Self {
        self.attention.dropout = dropout;
        self.feed_forward.dropout = dropout;
        self.dropout = dropout;
        self
    }

    /// Sets the kind of norm and its `ε`.
    pub fn with_norm(mut self, kind: NormKind, epsilon: f64) -> Self {
        self.norm.kind = kind;
        self.norm.epsilon = epsilon;
        self
    }

    /// Sets whether the linear layers of attention and feed-forward network add a bias.
    pub fn with_biases(mut self, biases: bool) -> Self {
        self.attention.biases = biases;
        self.feed_forward.biases = biases;
        self
    }

    /// Sets the activation function of the feed-forward network.
    pub fn with_activation(mut self, activation: Activation) -> Self {
        self.feed_forward.activation = activation;
        self
    }

    /// Sets the placement of layer normalisation.
    pub fn with_norm_placement(mut self, placement: NormPlacement) -> Self {
        self.norm_placement = placement;
        self
    }

    /// Checks the fields and the relations between fields.
    ///
    /// # Errors
    ///
    /// A field is not valid; the error names the first such field that is found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.attention.validate()?;
        self.feed_forward.validate()?;
        self.norm.validate()?;
        let d_model = self.attention.d_model;
        for other in [self.feed_forward.d_model, self.norm.d_model] {
            if other != d_model {
                let expected = format!("that of attention, too ({d_model})");
                return Err(ConfigError::new("d_model", other, expected));
            }
        }
        probability("dropout", self.dropout)
    }
}

/// Configuration of positions, in the input layer or in self-attention.
#[derive(Config, Debug, PartialEq)]
#[non_exhaustive]
pub struct PositionConfig {
    /// Positional encoding.
    pub kind: Positions,
    /// Number of positions; without effect if the kind is `None`, `Relative` or `Alibi`.
    #[config(default = 5000)]
    pub max_len: usize,
    /// Number of buckets into which relative positions sort distances; even and at least 4.
    #[config(default = 32)]
    pub relative_buckets: usize,
    /// Distance, in tokens, at and above which all keys in one direction share the last bucket of
    /// relative positions; more than `relative_buckets / 2`.
    #[config(default = 128)]
    pub relative_max_distance: usize,
    /// Base of the angles of rotary positions: 500,000 in Llama 3, for example.
    #[config(default = 10000.0)]
    pub rotary_base: f64,
    /// Token id of padding, after which [`Positions::SinusoidalFairseq`] begins.
    #[config(default = 0)]
    pub pad_id: u32,
}

impl PositionConfig {
    /// Checks the fields, for vectors of width `d_model` and heads of `attention`.
    ///
    /// Fields of relative positions are checked only if positions are relative.
    pub(crate) fn validate(
        &self,
        d_model: usize,
        attention: Option<&AttentionConfig>,
    ) -> Result<(), ConfigError> {
        size("max_len", self.max_len)?;
        if !(self.rotary_base > 1.0 && self.rotary_base.is_finite()) {
            let base = number(self.rotary_base);
            return Err(ConfigError::new("rotary_base", base, "more than 1"));
        }
        match self.kind {
            Positions::SinusoidalHalves if !d_model.is_multiple_of(2) => {
                let expected = "even: half of the dimensions are sines and half are cosines";
                Err(ConfigError::new("d_model", d_model, expected))
            }
            Positions::SinusoidalFairseq if d_model < 4 || !d_model.is_multiple_of(2) => {
                let expected = "even and at least 4: half of the dimensions are sines";
                Err(ConfigError::new("d_model", d_model, expected))
            }
            Positions::Rotary => attention.map_or(Ok(()), rotates_pairs),
            Positions::Relative => self.validate_relative(),
            _ => Ok(()),
        }
    }

    /// Returns whether the positions have a maximum length and are computed, not trained.
    pub(crate) fn is_computed(&self) -> bool {
        match self.kind {
            Positions::Sinusoidal
            | Positions::SinusoidalHalves
            | Positions::SinusoidalFairseq
            | Positions::Rotary => true,
            Positions::Learned | Positions::Relative | Positions::Alibi | Positions::None => false,
        }
    }

    pub(crate) fn validate_relative(&self) -> Result<(), ConfigError> {
        let buckets = self.relative_buckets;
        size("relative_buckets", buckets)?;
        if buckets < 4 || !buckets.is_multiple_of(2) {
            let expected = "even and at least 4";
            return Err(ConfigError::new("relative_buckets", buckets, expected));
        }
        // In the causal decoder, every distance below `buckets / 2` has a bucket of its own. The
        // other buckets divide the distances from there to `relative_max_distance`.
        let distance = self.relative_max_distance;
        if distance <= buckets / 2 {
            let expected = format!("more than half of relative_buckets ({buckets})");
            return Err(ConfigError::new(
                "relative_max_distance",
                distance,
                expected,
            ));
        }
        Ok(())
    }
}

/// Checks that heads have an even width.
fn rotates_pairs(attention: &AttentionConfig) -> Result<(), ConfigError> {
    if attention.d_head().is_multiple_of(2) {
        return Ok(());
    }
    const WHY: &str = "rotary positions rotate pairs of dimensions";
    if let Some(d_kv) = attention.d_kv {
        return Err(ConfigError::new("d_kv", d_kv, format!("even: {WHY}")));
    }
    let expected = format!("an even multiple of n_heads ({}): {WHY}", attention.n_heads);
    Err(ConfigError::new("d_model", attention.d_model, expected))
}

/// Configuration of an [`InputLayer`](crate::InputLayer) (paper, sections 3.4 and 3.5).
#[derive(Config, Debug, PartialEq)]
#[non_exhaustive]
pub struct InputConfig {
    /// Width `D` of the vectors.
    pub d_model: usize,
    /// Size `V` of the vocabulary; `None` for a layer without embedding table, whose input is
    /// vectors.
    #[config(default = "None")]
    pub vocab_size: Option<usize>,
    /// Positional encoding. That of self-attention belongs to the stack, and the input layer
    /// leaves it out.
    #[config(default = "PositionConfig::new(Positions::Sinusoidal)")]
    pub positions: PositionConfig,
    /// Whether embeddings are multiplied by `sqrt(D)` (paper, section 3.4).
    #[config(default = true)]
    pub scale: bool,
    /// Norm of the sum of embeddings and positional encoding, as in BART; `None` without it.
    #[config(default = "None")]
    pub norm: Option<NormConfig>,
    /// Dropout probability, in `[0, 1)`.
    #[config(default = 0.1)]
    pub dropout: f64,
}

impl InputConfig {
    /// Checks the fields and the relations between fields.
    ///
    /// # Errors
    ///
    /// A field is not valid; the error names the first such field that is found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        size("d_model", self.d_model)?;
        if let Some(vocab_size) = self.vocab_size {
            size("vocab_size", vocab_size)?;
        }
        self.positions.validate(self.d_model, None)?;
        if let Some(norm) = &self.norm {
            norm.validate()?;
            if norm.d_model != self.d_model {
                let expected = format!("that of the input layer, too ({})", self.d_model);
                return Err(ConfigError::new("d_model", norm.d_model, expected));
            }
        }
        probability("dropout", self.dropout)
    }
}

/// Configuration of a [`Generator`](crate::generator::Generator) (paper, section 3.4).
#[derive(Config, Debug, PartialEq)]
#[non_exhaustive]
pub struct GeneratorConfig {
    /// Width `D` of the states.
    pub d_model: usize,
    /// Size `V` of the vocabulary.
    pub vocab_size: usize,
    /// Whether the weight is the transposed embedding table of the decoder.
    #[config(default = false)]
    pub is_tied: bool,
    /// Whether a bias is added to the logits. M2M100 and T5 have none.
    #[config(default = true)]
    pub bias: bool,
    /// Whether states are divided by `sqrt(D)` first, as in T5 with shared matrices.
    #[config(default = false)]
    pub scale: bool,
}

impl GeneratorConfig {
    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// A field is not valid; the error names the first such field that is found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        size("d_model", self.d_model)?;
        size("vocab_size", self.vocab_size)
    }
}
