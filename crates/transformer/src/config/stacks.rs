//! Configurations of the two stacks.

use burn::config::Config;
use serde::{Deserialize, Serialize};

use super::choices::Positions;
use super::limits::layers;
use super::parts::{AttentionConfig, GeneratorConfig, InputConfig, LayerConfig, NormConfig};
use crate::error::ConfigError;

/// Configuration of an [`Encoder`](crate::Encoder).
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use transformer::{AttentionMask, EncoderConfig, Positions};
///
/// // An encoder of vectors, such as frames of speech or patches of an image.
/// let device = Device::flex();
/// let encoder = EncoderConfig::new(32, 64, 4, 2).init(&device)?;
/// let x = Tensor::random([2, 7, 32], Distribution::Default, &device);
/// let mask = AttentionMask::of_lengths(&[7, 5], &device);
/// assert_eq!(encoder.forward_vectors(x, Some(&mask)).dims(), [2, 7, 32]);
///
/// // An encoder of tokens, with learned positions for at most 128 of them.
/// let encoder = EncoderConfig::new(32, 64, 4, 2)
///     .with_vocab_size(100)
///     .with_positions(Positions::Learned)
///     .with_max_len(128)
///     .init(&device)?;
/// assert_eq!(encoder.max_len(), Some(128));
/// # Ok::<(), transformer::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EncoderConfig {
    /// Input layer: embedding and positions.
    pub input: InputConfig,
    /// Layers, which are all alike.
    pub layer: LayerConfig,
    /// Number of layers.
    pub n_layers: usize,
    /// Norm of the last layer's output; `None` without it.
    pub final_norm: Option<NormConfig>,
}

impl EncoderConfig {
    /// Creates the configuration of an encoder of vectors with the choices of the paper, dropout
    /// 0.1 and a final norm: of width `d_model`, inner width `d_ff` of the feed-forward networks,
    /// and `n_layers` layers of `n_heads` heads.
    ///
    /// [`with_vocab_size`](Self::with_vocab_size) makes it an encoder of tokens.
    pub fn new(d_model: usize, d_ff: usize, n_heads: usize, n_layers: usize) -> Self {
        Self {
            input: InputConfig::new(d_model),
            layer: LayerConfig::new(d_model, d_ff, n_heads),
            n_layers,
            final_norm: Some(NormConfig::new(d_model)),
        }
    }

    /// Sets the size of the vocabulary: inputs are tokens.
    pub fn with_vocab_size(mut self, vocab_size: usize) -> Self {
        self.input.vocab_size = Some(vocab_size);
        self
    }

    /// Checks the fields and the relations between fields.
    ///
    /// # Errors
    ///
    /// A field is not valid; the error names the first such field that is found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        validate(&self.input, &self.layer, self.n_layers, &self.final_norm)
    }
}

/// Configuration of a [`Decoder`](crate::Decoder).
///
/// ```
/// use burn::tensor::Device;
/// use transformer::generate::GenerateConfig;
/// use transformer::{DecoderConfig, NormPlacement, Positions};
///
/// // A language model: a decoder without memory.
/// let model = DecoderConfig::new(100, 32, 64, 4, 2)
///     .with_cross_attention(false)
///     .with_norm_placement(NormPlacement::Pre)
///     .with_positions(Positions::Rotary)
///     .init(&Device::flex())?;
/// let texts = model.complete(None, &[vec![5, 6, 7], vec![8]], &GenerateConfig::new(10))?;
/// assert_eq!(texts.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DecoderConfig {
    /// Input layer: embedding and positions.
    pub input: InputConfig,
    /// Layers, which are all alike.
    pub layer: LayerConfig,
    /// Number of layers.
    pub n_layers: usize,
    /// Norm of the last layer's output; `None` without it.
    pub final_norm: Option<NormConfig>,
    /// Whether layers attend to a memory. A language model has none.
    pub cross_attention: bool,
    /// Linear layer from states to logits.
    pub generator: GeneratorConfig,
}

impl DecoderConfig {
    /// Creates the configuration of a decoder with the choices of the paper, dropout 0.1, a final
    /// norm and cross-attention to a memory: for `vocab_size` tokens, of width `d_model`, inner
    /// width `d_ff` of the feed-forward networks, and `n_layers` layers of `n_heads` heads.
    pub fn new(
        vocab_size: usize,
        d_model: usize,
        d_ff: usize,
        n_heads: usize,
        n_layers: usize,
    ) -> Self {
        Self {
            input: InputConfig::new(d_model).with_vocab_size(Some(vocab_size)),
            layer: LayerConfig::new(d_model, d_ff, n_heads),
            n_layers,
            final_norm: Some(NormConfig::new(d_model)),
            cross_attention: true,
            generator: GeneratorConfig::new(d_model, vocab_size),
        }
    }

    /// Sets whether layers attend to a memory.
    pub fn with_cross_attention(mut self, cross_attention: bool) -> Self {
        self.cross_attention = cross_attention;
        self
    }

    /// Sets whether the generator's weight is the transposed embedding table.
    pub fn with_tied_generator(mut self, is_tied: bool) -> Self {
        self.generator.is_tied = is_tied;
        self
    }

    /// Checks the fields and the relations between fields.
    ///
    /// # Errors
    ///
    /// A field is not valid; the error names the first such field that is found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.generator.validate()?;
        validate(&self.input, &self.layer, self.n_layers, &self.final_norm)?;
        let vocab_size = self.generator.vocab_size;
        if self.input.vocab_size != Some(vocab_size) {
            let own = self.input.vocab_size;
            let own = own.map_or("none".into(), |own| own.to_string());
            let expected = format!("that of the input layer, too ({own})");
            return Err(ConfigError::new("vocab_size", vocab_size, expected));
        }
        same_width(self.generator.d_model, &self.layer.attention)
    }
}

/// Checks what both stacks have.
fn validate(
    input: &InputConfig,
    layer: &LayerConfig,
    n_layers: usize,
    final_norm: &Option<NormConfig>,
) -> Result<(), ConfigError> {
    layer.validate()?;
    layers(n_layers)?;
    input.validate()?;
    let attention = &layer.attention;
    same_width(input.d_model, attention)?;
    input.positions.validate(input.d_model, Some(attention))?;
    for norm in final_norm.iter().chain(&input.norm) {
        norm.validate()?;
        same_width(norm.d_model, attention)?;
    }
    Ok(())
}

fn same_width(d_model: usize, attention: &AttentionConfig) -> Result<(), ConfigError> {
    if d_model == attention.d_model {
        return Ok(());
    }
    let expected = format!("that of attention, too ({})", attention.d_model);
    Err(ConfigError::new("d_model", d_model, expected))
}

/// Setters of fields that both stacks have.
macro_rules! setters {
    ($type:ty) => {
        impl $type {
            /// Sets every dropout probability of the stack.
            pub fn with_dropout(mut self, dropout: f64) -> Self {
                self.input.dropout = dropout;
                self.layer = self.layer.with_dropout(dropout);
                self
            }

            /// Sets the kind of all norms and their `ε`; of norms that are added later, too.
            pub fn with_norm(mut self, kind: super::NormKind, epsilon: f64) -> Self {
                self.layer = self.layer.with_norm(kind, epsilon);
                for norm in self.final_norm.iter_mut().chain(&mut self.input.norm) {
                    *norm = self.layer.norm.clone();
                }
                self
            }

            /// Sets whether a norm, which is as those of the layers, follows the last layer.
            pub fn with_final_norm(mut self, final_norm: bool) -> Self {
                self.final_norm = final_norm.then(|| self.layer.norm.clone());
                self
            }

            /// Sets whether a norm, which is as those of the layers, ends the input layer, as in
            /// BART and BERT.
            pub fn with_embedding_norm(mut self, embedding_norm: bool) -> Self {
                self.input.norm = embedding_norm.then(|| self.layer.norm.clone());
                self
            }

            /// Sets whether the linear layers of attention and feed-forward networks add a bias.
            pub fn with_biases(mut self, biases: bool) -> Self {
                self.layer = self.layer.with_biases(biases);
                self
            }

            /// Sets the activation function of the feed-forward networks.
            pub fn with_activation(mut self, activation: super::Activation) -> Self {
                self.layer = self.layer.with_activation(activation);
                self
            }

            /// Sets the placement of layer normalisation.
            pub fn with_norm_placement(mut self, placement: super::NormPlacement) -> Self {
                self.layer = self.layer.with_norm_placement(placement);
                self
            }

            /// Sets the positional encoding.
            pub fn with_positions(mut self, kind: Positions) -> Self {
                self.input.positions.kind = kind;
                self
            }

            /// Sets the maximum length of a sequence, in tokens or vectors.
            pub fn with_max_len(mut self, max_len: usize) -> Self {
                self.input.positions.max_len = max_len;
                self
            }

            /// Returns the width `D` of the stack.
            pub fn d_model(&self) -> usize {
                self.layer.attention.d_model
            }
        }
    };
}

impl Config for EncoderConfig {}
impl Config for DecoderConfig {}

setters!(EncoderConfig);
setters!(DecoderConfig);
