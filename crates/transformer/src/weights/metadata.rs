//! The model's configuration, which a file in the native layout may have in its metadata.

use std::collections::BTreeMap;

use super::error::WeightsError;
use crate::config::TransformerConfig;

/// Metadata key of the configuration, which is stored as JSON.
const CONFIG: &str = "config";

/// Returns the metadata for a file in the native layout: the model's configuration.
///
/// Pass the metadata to [`to_bytes_with`](super::to_bytes_with). [`import`](super::import) needs no
/// further options for a file with this metadata.
pub fn metadata(config: &TransformerConfig) -> BTreeMap<String, String> {
    let json = serde_json::to_string(config).expect("a configuration is plain data");
    BTreeMap::from([(CONFIG.into(), json)])
}

/// Returns the configuration in a file's metadata, or `None` if the metadata has no configuration.
///
/// # Errors
///
/// The configuration is not valid JSON, has a field with an invalid value, lacks a field, or is
/// under a key other than `config`.
pub(super) fn config(
    metadata: &BTreeMap<String, String>,
) -> Result<Option<TransformerConfig>, WeightsError> {
    let read = |json: &String| {
        serde_json::from_str(json).map_err(|error| {
            let what = format!("has an invalid model configuration in its metadata ({error})");
            WeightsError::File(what)
        })
    };
    if let Some(json) = metadata.get(CONFIG) {
        return read(json).map(Some);
    }
    // Other programs write other metadata, but never a configuration of this crate. A key other
    // than `config` that holds a configuration must therefore be damaged.
    match metadata.iter().find(|(_, json)| read(json).is_ok()) {
        None => Ok(None),
        Some((key, _)) => Err(WeightsError::File(format!(
            "has the model configuration in its metadata as {key:?} instead of {CONFIG:?}: it is damaged"
        ))),
    }
}
