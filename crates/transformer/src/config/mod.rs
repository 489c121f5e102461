//! The configuration of a model.

mod choices;

use burn::config::Config;

pub use self::choices::{
    Activation, NormKind, NormPlacement, NormVariance, Positions, WeightTying,
};
use crate::error::{ConfigError, number};

/// Hyper-parameters of a model.
///
/// The default sizes and the default dropout probability are those of the paper's base model (table
/// 3). Unlike in the paper, each stack ends with a layer norm by default, as in
/// `torch.nn.Transformer`, and no vocabulary matrices are shared.
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
    /// Size of the source vocabulary, in tokens: `V` in the shapes of the encoder.
    pub source_vocab_size: usize,
    /// Size of the target vocabulary, in tokens: `V` in the shapes of decoder and generator.
    pub target_vocab_size: usize,
    /// Width `D` of the vectors between the sublayers.
    #[config(default = 512)]
    pub d_model: usize,
    /// Number of attention heads `H`; a divisor of `D` unless `d_kv` is given.
    #[config(default = 8)]
    pub n_heads: usize,
    /// Number `G` of key-value heads, a divisor of `H`; `None` for `H`, as in the paper.
    ///
    /// `H / G` query heads share each key-value head (grouped queries, Ainslie et al. 2023), and
    /// the cache of a decoder is smaller by the factor `H / G`.
    #[config(default = "None")]
    pub n_kv_heads: Option<usize>,
    /// Width `K` of each head; `None` for `D / H`, as in the paper.
    #[config(default = "None")]
    pub d_kv: Option<usize>,
    /// Number of encoder layers.
    #[config(default = 6)]
    pub n_encoder_layers: usize,
    /// Number of decoder layers.
    #[config(default = 6)]
    pub n_decoder_layers: usize,
    /// Inner width `F` of the feed-forward network.
    #[config(default = 2048)]
    pub d_ff: usize,
    /// Dropout probability, in `[0, 1)`, for embeddings, attention weights, the inner activation
    /// of the feed-forward network and the output of every sublayer.
    #[config(default = 0.1)]
    pub dropout: f64,
    /// Activation function of the feed-forward network.
    #[config(default = "Activation::Relu")]
    pub activation: Activation,
    /// Placement of layer normalisation in every residual block.
    #[config(default = "NormPlacement::Post")]
    pub norm_placement: NormPlacement,
    /// Whether the encoder and the decoder each end with a layer norm.
    #[config(default = true)]
    pub final_norm: bool,
    /// Constant `ε` that every norm adds to the variance (or the mean square, for
    /// [`NormKind::Rms`]) before it takes the square root.
    #[config(default = 1e-5)]
    pub norm_epsilon: f64,
    /// Divisor with which every layer norm computes the variance.
    #[config(default = "NormVariance::Biased")]
    pub norm_variance: NormVariance,
    /// Kind of normalisation, for every norm of the model.
    #[config(default = "NormKind::Layer")]
    pub norm: NormKind,
    /// Whether the input layer of each stack normalises its vectors, as in BART.
    #[config(default = false)]
    pub embedding_norm: bool,
    /// Whether the linear layers of attention and feed-forward networks add a bias.
    #[config(default = true)]
    pub biases: bool,
    /// `true` if the generator has a bias, which is added to the logits. M2M100 and T5 have none.
    #[config(default = true)]
    pub logits_bias: bool,
    /// Whether attention scores are divided by `sqrt(K)` (paper, section 3.2.1). T5 does not divide
    /// its scores.
    #[config(default = true)]
    pub scale_attention: bool,
    /// Positional encoding.
    #[config(default = "Positions::Sinusoidal")]
    pub positions: Positions,
    /// Maximum length of a source or target, in tokens.
    ///
    /// The setting has no effect if `positions` is `None`, `Relative` or `Alibi`.
    #[config(default = 5000)]
    pub max_len: usize,
    /// Number of buckets into which relative positions sort distances; even and at least 4.
    #[config(default = 32)]
    pub relative_buckets: usize,
    /// Distance, in tokens, at and above which all keys in one direction share the last bucket of
    /// relative positions; more than `relative_buckets / 2`.
    #[config(default = 128)]
    pub relative_max_distance: usize,
    /// Whether embeddings are multiplied by `sqrt(d_model)` (paper, section 3.4).
    #[config(default = true)]
    pub scale_embeddings: bool,
    /// Whether the decoder's states are divided by `sqrt(d_model)` before the generator, as in T5
    /// with shared matrices.
    #[config(default = false)]
    pub scale_logits: bool,
    /// Sharing of the vocabulary matrices.
    #[config(default = "WeightTying::None")]
    pub weight_tying: WeightTying,
    /// Token id of padding, an id of the source vocabulary.
    ///
    /// Attention and loss do not read it: they take a mask and negative labels.
    /// [`Positions::SinusoidalFairseq`] begins after it, and files of other libraries name it.
    #[config(default = 0)]
    pub pad_id: u32,
}

/// Upper limit of every size in a configuration. A damaged file may have a larger size, which would
/// exhaust the memory.
const MAX_SIZE: usize = 1 << 24;

impl TransformerConfig {
    /// Checks the fields and the relations between fields.
    ///
    /// The fields of relative positions are checked only if the configuration has relative
    /// positions.
    ///
    /// # Errors
    ///
    /// A field is not valid; the error names the first such field that is found.
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
        if let Some(d_kv) = self.d_kv
            && (d_kv == 0 || d_kv > MAX_SIZE)
        {
            return Err(ConfigError::new(
                "d_kv",
                d_kv,
                format!("from 1 to {MAX_SIZE}"),
            ));
        }
        if self.d_kv.is_none() && !self.d_model.is_multiple_of(self.n_heads) {
            return Err(ConfigError::new(
                "n_heads",
                self.n_heads,
                format!("a divisor of d_model ({})", self.d_model),
            ));
        }
        if let Some(n_kv_heads) = self.n_kv_heads
            && (n_kv_heads == 0 || !self.n_heads.is_multiple_of(n_kv_heads))
        {
            return Err(ConfigError::new(
                "n_kv_heads",
                n_kv_heads,
                format!("a divisor of n_heads ({})", self.n_heads),
            ));
        }
        if self.positions == Positions::Rotary && !self.d_head().is_multiple_of(2) {
            if let Some(d_kv) = self.d_kv {
                let expected = "even: rotary positions rotate pairs of dimensions";
                return Err(ConfigError::new("d_kv", d_kv, expected));
            }
            return Err(ConfigError::new(
                "d_model",
                self.d_model,
                format!(
                    "an even multiple of n_heads ({}): rotary positions rotate pairs of dimensions",
                    self.n_heads
                ),
            ));
        }
        if self.positions == Positions::Relative {
            let buckets = self.relative_buckets;
            if buckets < 4 || !buckets.is_multiple_of(2) || buckets > MAX_SIZE {
                return Err(ConfigError::new(
                    "relative_buckets",
                    buckets,
                    format!("even, and from 4 to {MAX_SIZE}"),
                ));
            }
            // In the causal decoder, every distance below `buckets / 2` has a bucket of its own.
            // The other buckets divide the distances from there to `relative_max_distance`.
            if self.relative_max_distance <= buckets / 2 {
                return Err(ConfigError::new(
                    "relative_max_distance",
                    self.relative_max_distance,
                    format!("more than half of relative_buckets ({buckets})"),
                ));
            }
        }
        if self.positions == Positions::SinusoidalHalves && !self.d_model.is_multiple_of(2) {
            return Err(ConfigError::new(
                "d_model",
                self.d_model,
                "even: half of the dimensions are sines and half are cosines",
            ));
        }
        if self.positions == Positions::SinusoidalFairseq
            && (self.d_model < 4 || !self.d_model.is_multiple_of(2))
        {
            let expected = "even and at least 4: half of the dimensions are sines";
            return Err(ConfigError::new("d_model", self.d_model, expected));
        }
        if self.norm_variance == NormVariance::Unbiased && self.norm == NormKind::Rms {
            let expected = "biased: an RMS norm divides by the mean of the squares";
            return Err(ConfigError::new(
                "norm_variance",
                self.norm_variance,
                expected,
            ));
        }
        if self.norm_variance == NormVariance::Unbiased && self.d_model == 1 {
            let expected = "at least 2: the unbiased variance is divided by d_model - 1";
            return Err(ConfigError::new("d_model", 1, expected));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(ConfigError::new(
                "dropout",
                number(self.dropout),
                "at least 0 and less than 1",
            ));
        }
        let epsilon = self.norm_epsilon as f32;
        if !(epsilon > 0.0 && epsilon.is_finite()) {
            return Err(ConfigError::new(
                "norm_epsilon",
                number(self.norm_epsilon),
                "a positive number that float32 can hold",
            ));
        }
        let vocab_size = self.source_vocab_size;
        if self.pad_id as usize >= vocab_size {
            return Err(ConfigError::new(
                "pad_id",
                self.pad_id,
                format!("less than the size of the source vocabulary ({vocab_size})"),
            ));
        }
        if self.weight_tying.shares_source() && self.source_vocab_size != self.target_vocab_size {
            return Err(ConfigError::new(
                "weight_tying",
                self.weight_tying,
                format!(
                    "none or decoder, because the vocabularies have different sizes ({} and {})",
                    self.source_vocab_size, self.target_vocab_size
                ),
            ));
        }
        Ok(())
    }

    /// Returns the width `K` of one attention head.
    ///
    /// # Panics
    ///
    /// If `n_heads` is 0.
    pub fn d_head(&self) -> usize {
        self.d_kv.unwrap_or(self.d_model / self.n_heads)
    }

    /// Returns the width `H * K` of all heads together.
    pub(crate) fn d_heads(&self) -> usize {
        self.n_heads * self.d_head()
    }

    /// Returns the number `G` of key-value heads.
    pub(crate) fn kv_heads(&self) -> usize {
        self.n_kv_heads.unwrap_or(self.n_heads)
    }

    /// Returns the width `G * K` of the keys of all heads together.
    pub(crate) fn d_keys(&self) -> usize {
        self.kv_heads() * self.d_head()
    }
}
