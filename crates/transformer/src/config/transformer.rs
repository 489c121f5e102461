//! The configuration of a whole model whose stacks are alike.

use burn::config::Config;

use super::choices::{Activation, NormKind, NormPlacement, NormVariance, Positions, WeightTying};
use super::parts::{
    AttentionConfig, FeedForwardConfig, GeneratorConfig, InputConfig, LayerConfig, NormConfig,
    PositionConfig,
};
use super::stacks::{DecoderConfig, EncoderConfig};
use crate::error::ConfigError;

/// Hyper-parameters of a whole model, whose stacks are alike except for their depth.
///
/// [`encoder`](Self::encoder) and [`decoder`](Self::decoder) return the configurations of the
/// stacks, which [`Transformer::from_parts`](crate::Transformer::from_parts) also joins if they
/// differ.
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
        let named = |names: [&'static str; 2]| {
            move |mut error: ConfigError| {
                error.field = match error.field {
                    "n_layers" => names[0],
                    "vocab_size" => names[1],
                    "epsilon" => "norm_epsilon",
                    "variance" => "norm_variance",
                    other => other,
                };
                error
            }
        };
        let encoder = self.encoder().validate();
        encoder.map_err(named(["n_encoder_layers", "source_vocab_size"]))?;
        let decoder = self.decoder().validate();
        decoder.map_err(named(["n_decoder_layers", "target_vocab_size"]))?;
        let (source, target) = (self.source_vocab_size, self.target_vocab_size);
        if self.pad_id as usize >= source {
            let expected = format!("less than the size of the source vocabulary ({source})");
            return Err(ConfigError::new("pad_id", self.pad_id, expected));
        }
        if self.weight_tying.shares_source() && source != target {
            let expected = format!(
                "none or decoder, because the vocabularies have different sizes ({source} and {target})"
            );
            return Err(ConfigError::new(
                "weight_tying",
                self.weight_tying,
                expected,
            ));
        }
        Ok(())
    }

    /// Returns the configuration of the encoder, with an embedding table of its own even if the
    /// model shares one.
    pub fn encoder(&self) -> EncoderConfig {
        EncoderConfig {
            input: self.input(self.source_vocab_size),
            layer: self.layer(),
            n_layers: self.n_encoder_layers,
            final_norm: self.final_norm.then(|| self.norm()),
        }
    }

    /// Returns the configuration of the decoder.
    pub fn decoder(&self) -> DecoderConfig {
        DecoderConfig {
            input: self.input(self.target_vocab_size),
            layer: self.layer(),
            n_layers: self.n_decoder_layers,
            final_norm: self.final_norm.then(|| self.norm()),
            cross_attention: true,
            generator: GeneratorConfig {
                d_model: self.d_model,
                vocab_size: self.target_vocab_size,
                is_tied: self.weight_tying.shares_generator(),
                bias: self.logits_bias,
                scale: self.scale_logits,
            },
        }
    }

    /// Returns the configuration of the encoder in the whole model: without a table if it shares
    /// the decoder's.
    pub(crate) fn encoder_of_model(&self) -> EncoderConfig {
        let mut encoder = self.encoder();
        if self.weight_tying.shares_source() {
            encoder.input.vocab_size = None;
        }
        encoder
    }

    /// Returns the configuration of a model that consists of two stacks; `None` if they differ in
    /// something that both have by one field here.
    pub(crate) fn of_stacks(encoder: &EncoderConfig, decoder: &DecoderConfig) -> Option<Self> {
        let config = Self::nearest(encoder, decoder);
        let is_same = config.encoder_of_model() == *encoder && config.decoder() == *decoder;
        is_same.then_some(config)
    }

    /// Returns the configuration of a model whose stacks are like `decoder`, but have the depth and
    /// the vocabulary of these two.
    pub(crate) fn nearest(encoder: &EncoderConfig, decoder: &DecoderConfig) -> Self {
        let (input, layer) = (&decoder.input, &decoder.layer);
        let positions = &input.positions;
        let target = decoder.generator.vocab_size;
        let weight_tying = match (encoder.input.vocab_size, decoder.generator.is_tied) {
            (None, true) => WeightTying::All,
            (None, false) => WeightTying::Embeddings,
            (Some(_), true) => WeightTying::Decoder,
            (Some(_), false) => WeightTying::None,
        };
        Self {
            source_vocab_size: encoder.input.vocab_size.unwrap_or(target),
            target_vocab_size: target,
            d_model: layer.attention.d_model,
            n_heads: layer.attention.n_heads,
            n_kv_heads: layer.attention.n_kv_heads,
            d_kv: layer.attention.d_kv,
            n_encoder_layers: encoder.n_layers,
            n_decoder_layers: decoder.n_layers,
            d_ff: layer.feed_forward.d_ff,
            dropout: layer.dropout,
            activation: layer.feed_forward.activation,
            norm_placement: layer.norm_placement,
            final_norm: decoder.final_norm.is_some(),
            norm_epsilon: layer.norm.epsilon,
            norm_variance: layer.norm.variance,
            norm: layer.norm.kind,
            embedding_norm: input.norm.is_some(),
            biases: layer.attention.biases,
            logits_bias: decoder.generator.bias,
            scale_attention: layer.attention.scale,
            positions: positions.kind,
            max_len: positions.max_len,
            relative_buckets: positions.relative_buckets,
            relative_max_distance: positions.relative_max_distance,
            scale_embeddings: input.scale,
            scale_logits: decoder.generator.scale,
            weight_tying,
            pad_id: positions.pad_id,
        }
    }

    fn input(&self, vocab_size: usize) -> InputConfig {
        InputConfig {
            d_model: self.d_model,
            vocab_size: Some(vocab_size),
            positions: PositionConfig {
                kind: self.positions,
                max_len: self.max_len,
                relative_buckets: self.relative_buckets,
                relative_max_distance: self.relative_max_distance,
                pad_id: self.pad_id,
                ..PositionConfig::new(self.positions)
            },
            scale: self.scale_embeddings,
            norm: self.embedding_norm.then(|| self.norm()),
            dropout: self.dropout,
        }
    }

    /// Returns the configuration of a layer of either stack.
    fn layer(&self) -> LayerConfig {
        LayerConfig {
            attention: AttentionConfig {
                d_model: self.d_model,
                n_heads: self.n_heads,
                n_kv_heads: self.n_kv_heads,
                d_kv: self.d_kv,
                dropout: self.dropout,
                biases: self.biases,
                scale: self.scale_attention,
            },
            feed_forward: FeedForwardConfig {
                d_model: self.d_model,
                d_ff: self.d_ff,
                activation: self.activation,
                dropout: self.dropout,
                biases: self.biases,
            },
            norm: self.norm(),
            norm_placement: self.norm_placement,
            dropout: self.dropout,
        }
    }

    fn norm(&self) -> NormConfig {
        NormConfig {
            d_model: self.d_model,
            kind: self.norm,
            epsilon: self.norm_epsilon,
            variance: self.norm_variance,
        }
    }

    /// Returns the width `K` of one attention head.
    ///
    /// # Panics
    ///
    /// If `n_heads` is 0.
    pub fn d_head(&self) -> usize {
        self.layer().attention.d_head()
    }
}
