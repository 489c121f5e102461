//! One configuration for the whole model; every part takes what it needs from it.

use burn::config::Config;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::ConfigError;

/// Where layer normalisation stands in a residual block (paper, section 5.4; Xiong et al. 2020).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormPlacement {
    /// `norm(x + dropout(sublayer(x)))`, as in the paper.
    Post,
    /// `x + dropout(sublayer(norm(x)))`, which trains without a long warm-up.
    Pre,
}

/// The non-linearity of the feed-forward network (paper, section 3.3).
///
/// The last three are gated (Shazeer 2020): `act(x W_g + b_g) * (x W_v + b_v)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// `max(0, x)`, the paper's.
    Relu,
    /// `x Φ(x)`, the exact one (by the error function).
    Gelu,
    /// `x σ(x)`, also called SiLU.
    Swish,
    /// Gated by `σ(x)`.
    Glu,
    /// Gated by GELU.
    Geglu,
    /// Gated by Swish.
    Swiglu,
}

impl Activation {
    /// Whether the feed-forward network has a gate, and so twice the inner product.
    pub fn is_gated(self) -> bool {
        matches!(self, Self::Glu | Self::Geglu | Self::Swiglu)
    }
}

/// What the variance of a layer norm is divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NormVariance {
    /// By `D`, as in the paper on layer norms and in `torch.nn.LayerNorm`.
    #[default]
    Biased,
    /// By `D - 1`, as in the Annotated Transformer.
    Unbiased,
}

impl<'de> Deserialize<'de> for NormVariance {
    /// Configurations that were written before there was a choice do not name it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Named {
            Biased,
            Unbiased,
        }
        Ok(match Option::<Named>::deserialize(deserializer)? {
            None | Some(Named::Biased) => Self::Biased,
            Some(Named::Unbiased) => Self::Unbiased,
        })
    }
}

/// How the model learns where a token stands (paper, section 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Positions {
    /// Fixed sines and cosines, added to the embeddings: the paper's.
    Sinusoidal,
    /// The same, all sines before all cosines, as in tensor2tensor and Marian; `d_model` must be even.
    SinusoidalHalves,
    /// A trained table `[max_len, d_model]`, added to the embeddings.
    Learned,
    /// Rotation of queries and keys in self-attention (RoPE, Su et al. 2021).
    Rotary,
    /// None: the encoder then sees a set, not a sequence.
    None,
}

/// Which of the three vocabulary matrices are one and the same (paper, section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightTying {
    /// Each its own.
    None,
    /// The decoder's embedding is the generator's weight, transposed.
    Decoder,
    /// The encoder's embedding is the decoder's too; both vocabularies must have one size.
    All,
}

/// Everything that defines a model. The defaults are the paper's base model (table 3), with the
/// final norm of each stack and the untied matrices that `torch.nn.Transformer` has.
///
/// ```
/// use transformer::{NormPlacement, TransformerConfig};
///
/// let config = TransformerConfig::new(10_000, 8_000)
///     .with_d_model(256)
///     .with_n_heads(4)
///     .with_norm_placement(NormPlacement::Pre);
/// assert!(config.validate().is_ok());
///
/// let error = config.with_n_heads(3).validate().unwrap_err();
/// assert_eq!(error.to_string(), "n_heads is 3, but must be a divisor of d_model (256)");
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct TransformerConfig {
    /// Number of source tokens, `V` of the encoder.
    pub source_vocab_size: usize,
    /// Number of target tokens, `V` of the decoder and the generator.
    pub target_vocab_size: usize,
    /// Width `D` of every vector between the blocks.
    #[config(default = 512)]
    pub d_model: usize,
    /// Number of attention heads `H`; each works on `K = D / H` dimensions.
    #[config(default = 8)]
    pub n_heads: usize,
    /// Number of encoder layers.
    #[config(default = 6)]
    pub n_encoder_layers: usize,
    /// Number of decoder layers.
    #[config(default = 6)]
    pub n_decoder_layers: usize,
    /// Inner width `F` of the feed-forward network.
    #[config(default = 2048)]
    pub d_ff: usize,
    /// Probability of dropout, in `[0, 1)`: on embeddings, attention weights, the feed-forward
    /// network's inner activation and every sublayer's output.
    #[config(default = 0.1)]
    pub dropout: f64,
    /// Non-linearity of the feed-forward network.
    #[config(default = "Activation::Relu")]
    pub activation: Activation,
    /// Where the norms stand.
    #[config(default = "NormPlacement::Post")]
    pub norm_placement: NormPlacement,
    /// Whether each stack ends with a norm of its own.
    #[config(default = true)]
    pub final_norm: bool,
    /// The `epsilon` of every layer norm.
    #[config(default = 1e-5)]
    pub norm_epsilon: f64,
    /// What the norms' variance is divided by.
    #[config(default = "NormVariance::Biased")]
    pub norm_variance: NormVariance,
    /// How positions enter.
    #[config(default = "Positions::Sinusoidal")]
    pub positions: Positions,
    /// The most tokens that a sequence may have, source or target.
    #[config(default = 5000)]
    pub max_len: usize,
    /// Whether embeddings are multiplied by `sqrt(d_model)` (paper, section 3.4).
    #[config(default = true)]
    pub scale_embeddings: bool,
    /// Which vocabulary matrices are shared.
    #[config(default = "WeightTying::None")]
    pub weight_tying: WeightTying,
    /// The id that fills short sequences up; must be in both vocabularies.
    #[config(default = 0)]
    pub pad_id: u32,
}

/// No vocabulary, width, depth or length of a model that fits in a machine is above this.
const MAX_SIZE: usize = 1 << 24;

impl TransformerConfig {
    /// Checks every field and every relation between fields.
    ///
    /// # Errors
    ///
    /// The first field that no model can be built from.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (field, value) in [
            ("source_vocab_size", self.source_vocab_size),
            ("target_vocab_size", self.target_vocab_size),
            ("d_model", self.d_model),
            ("n_heads", self.n_heads),
            ("n_encoder_layers", self.n_encoder_layers),
            ("n_decoder_layers", self.n_decoder_layers),
            ("d_ff", self.d_ff),
            ("max_len", self.max_len),
        ] {
            if value == 0 {
                return Err(ConfigError::new(field, value, "at least 1"));
            }
            if value > MAX_SIZE {
                return Err(ConfigError::new(
                    field,
                    value,
                    format!("at most {MAX_SIZE}"),
                ));
            }
        }
        if !self.d_model.is_multiple_of(self.n_heads) {
            return Err(ConfigError::new(
                "n_heads",
                self.n_heads,
                format!("a divisor of d_model ({})", self.d_model),
            ));
        }
        if self.positions == Positions::Rotary && !self.d_head().is_multiple_of(2) {
            return Err(ConfigError::new(
                "d_model",
                self.d_model,
                format!(
                    "an even multiple of n_heads ({}): rotary positions turn pairs of dimensions",
                    self.n_heads
                ),
            ));
        }
        if self.positions == Positions::SinusoidalHalves && !self.d_model.is_multiple_of(2) {
            return Err(ConfigError::new(
                "d_model",
                self.d_model,
                "even: half of the dimensions are sines, half are cosines",
            ));
        }
        if self.norm_variance == NormVariance::Unbiased && self.d_model == 1 {
            let expected = "at least 2: an unbiased variance is divided by d_model - 1";
            return Err(ConfigError::new("d_model", 1, expected));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(ConfigError::new(
                "dropout",
                self.dropout,
                "at least 0 and less than 1",
            ));
        }
        if !(self.norm_epsilon > 0.0 && self.norm_epsilon.is_finite()) {
            return Err(ConfigError::new(
                "norm_epsilon",
                self.norm_epsilon,
                "a positive number",
            ));
        }
        let vocab_size = self.source_vocab_size.min(self.target_vocab_size);
        if self.pad_id as usize >= vocab_size {
            return Err(ConfigError::new(
                "pad_id",
                self.pad_id,
                format!("less than both vocabulary sizes ({vocab_size})"),
            ));
        }
        if self.weight_tying == WeightTying::All && self.source_vocab_size != self.target_vocab_size
        {
            return Err(ConfigError::new(
                "weight_tying",
                "all",
                format!(
                    "none or decoder, unless both vocabularies have one size (they have {} and {})",
                    self.source_vocab_size, self.target_vocab_size
                ),
            ));
        }
        Ok(())
    }

    /// Width `K` of one head.
    pub fn d_head(&self) -> usize {
        self.d_model / self.n_heads
    }
}
