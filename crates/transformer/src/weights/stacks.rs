//! The configurations of the stacks in a file, as files in the native layout have them in their
//! metadata.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::contents::Contents;
use super::error::WeightsError;
use crate::config::{
    DecoderConfig, EncoderConfig, GeneratorConfig, InputConfig, LayerConfig, NormConfig, NormKind,
    Positions, TransformerConfig,
};
use crate::error::ConfigError;

/// Metadata keys of the configurations, which are stored as JSON.
pub(super) const ENCODER: &str = "encoder";
pub(super) const DECODER: &str = "decoder";

/// The configurations of the stacks of a model, of which one may be missing.
///
/// The configuration of a whole model or of a stack is converted to it:
///
/// ```
/// use transformer::DecoderConfig;
/// use transformer::weights::Stacks;
///
/// let language_model = DecoderConfig::new(100, 32, 64, 4, 2).with_cross_attention(false);
/// let stacks = Stacks::from(&language_model);
/// assert!(stacks.encoder.is_none());
/// assert_eq!(stacks.config(), None, "no whole model has such a decoder");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stacks {
    /// The encoder; without an embedding table if it shares the decoder's or takes vectors.
    pub encoder: Option<EncoderConfig>,
    /// The decoder with its generator.
    pub decoder: Option<DecoderConfig>,
}

impl From<&TransformerConfig> for Stacks {
    fn from(config: &TransformerConfig) -> Self {
        Self {
            encoder: Some(config.encoder_of_model()),
            decoder: Some(config.decoder()),
        }
    }
}

impl From<&EncoderConfig> for Stacks {
    fn from(config: &EncoderConfig) -> Self {
        Self {
            encoder: Some(config.clone()),
            ..Self::default()
        }
    }
}

impl From<&DecoderConfig> for Stacks {
    fn from(config: &DecoderConfig) -> Self {
        Self {
            decoder: Some(config.clone()),
            ..Self::default()
        }
    }
}

impl From<&Self> for Stacks {
    fn from(stacks: &Self) -> Self {
        stacks.clone()
    }
}

impl Stacks {
    /// Returns the configuration of the whole model, in which a missing stack is as if it were like
    /// the other one. `None` if the stacks differ in more than their depth, or have something that
    /// no [`TransformerConfig`] has.
    pub fn config(&self) -> Option<TransformerConfig> {
        let (encoder, decoder) = self.both()?;
        TransformerConfig::of_stacks(&encoder, &decoder)
    }

    /// Returns the configuration of a whole model with as much of the stacks as it can have.
    pub(super) fn nearest(&self) -> TransformerConfig {
        let (encoder, decoder) = self.both().expect("a model has a stack");
        TransformerConfig::nearest(&encoder, &decoder)
    }

    /// Returns both stacks; a missing one is like the other.
    fn both(&self) -> Option<(EncoderConfig, DecoderConfig)> {
        match (self.encoder.clone(), self.decoder.clone()) {
            (None, None) => None,
            (Some(encoder), Some(decoder)) => Some((encoder, decoder)),
            (Some(encoder), None) => {
                let vocab_size = encoder.input.vocab_size.unwrap_or(1);
                let decoder = DecoderConfig {
                    input: encoder.input.clone().with_vocab_size(Some(vocab_size)),
                    layer: encoder.layer.clone(),
                    n_layers: encoder.n_layers,
                    final_norm: encoder.final_norm.clone(),
                    cross_attention: true,
                    generator: GeneratorConfig::new(encoder.d_model(), vocab_size),
                };
                Some((encoder, decoder))
            }
            (None, Some(decoder)) => {
                let encoder = EncoderConfig {
                    input: decoder.input.clone(),
                    layer: decoder.layer.clone(),
                    n_layers: decoder.n_layers,
                    final_norm: decoder.final_norm.clone(),
                };
                Some((encoder, decoder))
            }
        }
    }

    /// Checks the fields and the relations between fields.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if let Some(config) = self.config() {
            return config.validate();
        }
        self.encoder
            .as_ref()
            .map_or(Ok(()), EncoderConfig::validate)?;
        self.decoder
            .as_ref()
            .map_or(Ok(()), DecoderConfig::validate)
    }

    /// Checks that the stacks are those of one whole model.
    pub(super) fn check_fit(
        encoder: &EncoderConfig,
        decoder: &DecoderConfig,
    ) -> Result<(), WeightsError> {
        let widths = [encoder.d_model(), decoder.d_model()];
        if widths[0] == widths[1] && decoder.cross_attention {
            return Ok(());
        }
        Err(WeightsError::File(format!(
            "has stacks that do not fit: widths {} and {}, cross-attention {}",
            widths[0], widths[1], decoder.cross_attention
        )))
    }

    /// Returns the stacks that belong to `contents`.
    pub(super) fn only(self, contents: Contents) -> Self {
        let [has_encoder, has_decoder] = contents.has();
        Self {
            encoder: self.encoder.filter(|_| has_encoder),
            decoder: self.decoder.filter(|_| has_decoder),
        }
    }

    /// Returns the numbers of encoder and decoder layers; 0 for a missing stack.
    pub(super) fn n_layers(&self) -> [usize; 2] {
        let encoder = self.encoder.as_ref().map_or(0, |encoder| encoder.n_layers);
        let decoder = self.decoder.as_ref().map_or(0, |decoder| decoder.n_layers);
        [encoder, decoder]
    }

    /// Returns the name of each stack, and what both have in common.
    pub(super) fn parts_mut(
        &mut self,
    ) -> impl Iterator<Item = (&'static str, &mut InputConfig, &mut LayerConfig)> {
        let encoder = self.encoder.as_mut();
        let encoder = encoder.map(|stack| (ENCODER, &mut stack.input, &mut stack.layer));
        let decoder = self.decoder.as_mut();
        let decoder = decoder.map(|stack| (DECODER, &mut stack.input, &mut stack.layer));
        encoder.into_iter().chain(decoder)
    }

    /// Returns the names and shapes of the parameters. Names begin with `encoder.` or `decoder.`,
    /// even if there is only one stack.
    pub(super) fn shapes(&self) -> BTreeMap<String, Vec<usize>> {
        let mut all = BTreeMap::new();
        if let Some(EncoderConfig {
            input,
            layer,
            n_layers,
            final_norm,
        }) = &self.encoder
        {
            shapes(
                &mut all,
                ENCODER,
                (input, layer, *n_layers, final_norm),
                false,
            );
        }
        if let Some(decoder) = &self.decoder {
            let DecoderConfig {
                input,
                layer,
                n_layers,
                final_norm,
                ..
            } = decoder;
            let stack = (input, layer, *n_layers, final_norm);
            shapes(&mut all, DECODER, stack, decoder.cross_attention);
            let GeneratorConfig {
                d_model,
                vocab_size,
                ..
            } = decoder.generator;
            if !decoder.generator.is_tied {
                all.insert("decoder.generator.weight".into(), vec![d_model, vocab_size]);
            }
            if decoder.generator.bias {
                all.insert("decoder.generator.bias".into(), vec![vocab_size]);
            }
        }
        all
    }

    /// Returns the configurations in a file's metadata; `None` if it has none.
    ///
    /// # Errors
    ///
    /// Those of [`stack`].
    pub(super) fn of_metadata(
        metadata: &BTreeMap<String, String>,
    ) -> Result<Option<Self>, WeightsError> {
        let stacks = Self {
            encoder: stack(metadata, ENCODER)?,
            decoder: stack(metadata, DECODER)?,
        };
        Ok(Some(stacks).filter(|stacks| *stacks != Self::default()))
    }
}

/// Adds the names and shapes of the parameters of one stack.
fn shapes(
    all: &mut BTreeMap<String, Vec<usize>>,
    stack: &str,
    (input, layer, n_layers, final_norm): (&InputConfig, &LayerConfig, usize, &Option<NormConfig>),
    cross_attention: bool,
) {
    let (attention, positions) = (&layer.attention, &input.positions);
    let (d, f) = (attention.d_model, layer.feed_forward.d_ff);
    let inner = f * (1 + usize::from(layer.feed_forward.activation.is_gated()));
    let [h, g] = [attention.n_heads, attention.kv_heads()].map(|heads| heads * attention.d_head());
    if let Some(vocab_size) = input.vocab_size {
        all.insert(
            format!("{stack}.input.embedding.weight"),
            vec![vocab_size, d],
        );
    }
    if positions.kind == Positions::Learned {
        let name = format!("{stack}.input.position.learned.weight");
        all.insert(name, vec![positions.max_len, d]);
    }
    if positions.kind == Positions::Relative {
        let name = format!("{stack}.attention_position.relative.weight");
        all.insert(name, vec![positions.relative_buckets, attention.n_heads]);
    }
    let mut norm = |name: String, norm: &NormConfig| {
        all.insert(format!("{name}.gamma"), vec![d]);
        if norm.kind == NormKind::Layer {
            all.insert(format!("{name}.beta"), vec![d]);
        }
    };
    if let Some(config) = &input.norm {
        norm(format!("{stack}.input.norm"), config);
    }
    if let Some(config) = final_norm {
        norm(format!("{stack}.final_norm"), config);
    }
    let sublayers = ["self_attention", "feed_forward", "cross_attention"];
    let sublayers = &sublayers[..2 + usize::from(cross_attention)];
    for (layer_index, sublayer) in (0..n_layers).flat_map(|i| sublayers.iter().map(move |x| (i, x)))
    {
        let name = format!("{stack}.layers.{layer_index}.{sublayer}");
        norm(format!("{name}_residual.norm"), &layer.norm);
    }
    let mut linear = |name: String, input, output, biases| {
        all.insert(format!("{name}.weight"), vec![input, output]);
        if biases {
            all.insert(format!("{name}.bias"), vec![output]);
        }
    };
    for name in (0..n_layers).map(|index| format!("{stack}.layers.{index}")) {
        let biases = attention.biases;
        linear(format!("{name}.self_attention.w_qkv"), d, h + 2 * g, biases);
        linear(format!("{name}.self_attention.w_o"), h, d, biases);
        if cross_attention {
            linear(format!("{name}.cross_attention.w_q"), d, h, biases);
            linear(format!("{name}.cross_attention.w_kv"), d, 2 * g, biases);
            linear(format!("{name}.cross_attention.w_o"), h, d, biases);
        }
        let biases = layer.feed_forward.biases;
        linear(format!("{name}.feed_forward.w_1"), d, inner, biases);
        linear(format!("{name}.feed_forward.w_2"), f, d, biases);
    }
}

/// Returns the metadata for a file in any layout: the configurations of the stacks.
///
/// `stacks` is the configuration of a whole model or of a stack. Pass the metadata to
/// [`to_bytes_with`](super::to_bytes_with). [`import`](super::import) needs no further options for a
/// file with this metadata. [`save`](super::save()) does all of it.
pub fn metadata(stacks: impl Into<Stacks>) -> BTreeMap<String, String> {
    let Stacks { encoder, decoder } = stacks.into();
    let encoder = encoder.map(|encoder| (ENCODER.into(), json(&encoder)));
    let decoder = decoder.map(|decoder| (DECODER.into(), json(&decoder)));
    encoder.into_iter().chain(decoder).collect()
}

pub(super) fn json(config: &impl Serialize) -> String {
    serde_json::to_string(config).expect("a configuration is plain data")
}

/// Returns the configuration under `key`, or `None` if the metadata has none.
///
/// # Errors
///
/// The configuration is not valid JSON, has a field with an invalid value, lacks a field, or is
/// under another key.
pub(super) fn stack<C: DeserializeOwned>(
    metadata: &BTreeMap<String, String>,
    key: &str,
) -> Result<Option<C>, WeightsError> {
    if let Some(json) = metadata.get(key) {
        return serde_json::from_str(json).map(Some).map_err(|error| {
            let what = format!("has an invalid configuration in its metadata: {key}: {error}");
            WeightsError::File(what)
        });
    }
    // Other programs write other metadata, but never a configuration of this crate. A key other
    // than those of the stacks that holds one must therefore be damaged.
    let is_config = |json: &str| serde_json::from_str::<C>(json).is_ok();
    let mut others = metadata.iter().filter(|(other, _)| {
        let other = other.as_str();
        other != ENCODER && other != DECODER
    });
    match others.find(|(_, json)| is_config(json)) {
        None => Ok(None),
        Some((other, _)) => Err(WeightsError::File(format!(
            "has a configuration in its metadata as {other:?} instead of {key:?}: it is damaged"
        ))),
    }
}
