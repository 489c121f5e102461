//! Declarations of the model's settings: the section `model` of a run's configuration.

use transformer::{
    Activation, Choice, ConfigError, NormKind, NormPlacement, NormVariance, Positions,
    TransformerConfig, WeightTying,
};

use crate::error::UsageError;
use crate::setting::{
    Choices, Section, Setting, choice, declarations, fraction, positive, switch, whole,
};

/// Returns the declaration of a size of the model, whose bounds the model itself checks.
const fn size() -> Setting {
    whole(0, u64::MAX)
}

/// Returns the declaration of a setting whose values the model's crate lists.
const fn of<C: Choice>() -> Setting {
    choice(all::<C>)
}

fn all<C: Choice>() -> Choices {
    let all = C::ALL.iter();
    all.map(|choice| (choice.name().replace('-', "_"), choice.summary().into()))
        .collect()
}

declarations! {
    /// Declarations of the model's settings. [`TransformerConfig`] has their defaults, and its
    /// `validate` checks bounds and relations.
    pub struct ModelSettings for TransformerConfig in "model." {
        /// Size of the source vocabulary.
        source_vocab_size: usize, size().derived();
        /// Size of the target vocabulary.
        target_vocab_size: usize, size().derived();
        /// Width of the model.
        d_model: usize, size().flag("--d-model", "N");
        /// Number of attention heads, which must divide the width unless model.d_kv is set.
        n_heads: usize, size().flag("--heads", "N");
        /// Heads of keys and values, each shared by a group of heads; without it, n_heads.
        n_kv_heads: Option<usize>, size();
        /// Dimensions of an attention head; without it, d_model / n_heads.
        d_kv: Option<usize>, size();
        /// Number of layers in the encoder; the flag sets those of the decoder, too.
        n_encoder_layers: usize, size().flag("--layers", "N");
        /// Number of layers in the decoder.
        n_decoder_layers: usize, size();
        /// Inner width of the feed-forward networks.
        d_ff: usize, size().flag("--d-ff", "N");
        /// Dropout probability.
        dropout: f64, fraction().flag("--dropout", "P");
        /// Activation function of the feed-forward networks.
        activation: Activation, of::<Activation>().flag("--activation", "FUNCTION");
        /// Placement of layer normalisation.
        norm_placement: NormPlacement, of::<NormPlacement>().flag("--norm", "WHERE");
        /// Whether encoder and decoder end with a layer norm.
        final_norm: bool, switch();
        /// Epsilon of the layer norms.
        norm_epsilon: f64, positive();
        /// Divisor of the layer norms' variance.
        norm_variance: NormVariance, of::<NormVariance>();
        /// Normalisation of the blocks.
        norm: NormKind, of::<NormKind>();
        /// Whether the sum of embeddings and positions is normalised.
        embedding_norm: bool, switch();
        /// Whether linear layers add a bias.
        biases: bool, switch();
        /// Whether the generator adds a bias.
        logits_bias: bool, switch();
        /// Whether scores are divided by the square root of the head's dimensions.
        scale_attention: bool, switch();
        /// Positional encoding.
        positions: Positions, of::<Positions>().flag("--positions", "KIND");
        /// Maximum number of tokens of a source or target.
        max_len: usize, size().derived();
        /// Number of distances that relative positions tell apart.
        relative_buckets: usize, size().needs(Self::positions, "relative");
        /// Distance from which relative positions treat all alike.
        relative_max_distance: usize, size().needs(Self::positions, "relative");
        /// Whether embeddings are multiplied by the square root of the width.
        scale_embeddings: bool, switch();
        /// Whether states are divided by the square root of the width before the generator.
        scale_logits: bool, switch();
        /// Vocabulary matrices that are shared.
        weight_tying: WeightTying, of::<WeightTying>().rare_flag("--weight-tying", "WHICH");
        /// Token id that pads sources.
        pad_id: u32, size().derived();
    }
}

impl From<ConfigError> for UsageError {
    /// Converts an error about a field of the model's configuration.
    fn from(error: ConfigError) -> Self {
        let mut settings = ModelSettings::SETTINGS.iter();
        let mut expected = format!("must be {}", error.expected);
        for setting in [ModelSettings::d_model, ModelSettings::n_heads] {
            expected = expected.replace(setting.key(), setting.name());
        }
        match settings.find(|setting| setting.key() == error.field) {
            Some(setting) => Self::setting(setting, error.value, expected),
            None => Self::argument(error.field, error.value, expected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_model_are_settings() {
        let config = TransformerConfig::new(9, 9).with_n_heads(3);
        let error = UsageError::from(config.validate().unwrap_err());
        let text = "model.n_heads 3: must be a divisor of --d-model (512)";
        assert_eq!(error.to_string(), text);
    }
}
