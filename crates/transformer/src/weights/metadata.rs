//! The configurations of stacks, which a file in the native layout has in its metadata.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::WeightsError;
use crate::config::{DecoderConfig, EncoderConfig, GeneratorConfig, TransformerConfig};

/// Metadata keys of the configurations, which are stored as JSON.
pub(super) const ENCODER: &str = "encoder";
pub(super) const DECODER: &str = "decoder";

/// Returns the metadata for a file in the native layout: the configurations of the stacks.
///
/// Pass the metadata to [`to_bytes_with`](super::to_bytes_with). [`import`](super::import) needs no
/// further options for a file with this metadata. [`save`](super::save()) does all of it.
pub fn metadata(config: &TransformerConfig) -> BTreeMap<String, String> {
    let encoder = (ENCODER.into(), json(&config.encoder_of_model()));
    BTreeMap::from([encoder, (DECODER.into(), json(&config.decoder()))])
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

/// Returns the configuration of the whole model in a file's metadata, or `None` if the metadata has
/// none. If it has that of one stack, the other one is as if it were alike.
///
/// # Errors
///
/// Those of [`stack`]. The stacks differ in more than a [`TransformerConfig`] can say.
pub(super) fn config(
    metadata: &BTreeMap<String, String>,
) -> Result<Option<TransformerConfig>, WeightsError> {
    let encoder = stack::<EncoderConfig>(metadata, ENCODER)?;
    let decoder = stack::<DecoderConfig>(metadata, DECODER)?;
    let (encoder, decoder) = match (encoder, decoder) {
        (None, None) => return Ok(None),
        (Some(encoder), Some(decoder)) => (encoder, decoder),
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
            (encoder, decoder)
        }
        (None, Some(decoder)) => {
            let encoder = EncoderConfig {
                input: decoder.input.clone(),
                layer: decoder.layer.clone(),
                n_layers: decoder.n_layers,
                final_norm: decoder.final_norm.clone(),
            };
            (encoder, decoder)
        }
    };
    match TransformerConfig::of_stacks(&encoder, &decoder) {
        Some(config) => Ok(Some(config)),
        None => Err(WeightsError::File(
            "has stacks that are not alike: read it with `weights::load`".into(),
        )),
    }
}
