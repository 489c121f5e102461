//! The model's configuration in the metadata of a file in this crate's own layout.

use std::collections::BTreeMap;

use super::error::WeightsError;
use crate::config::TransformerConfig;

/// Key of the configuration, as JSON.
const CONFIG: &str = "config";

/// Returns the metadata of a file in the native layout: the model's configuration.
///
/// With it [`import`](super::import) needs no further options. Pass it to
/// [`to_bytes_with`](super::to_bytes_with).
pub fn metadata(config: &TransformerConfig) -> BTreeMap<String, String> {
    let json = serde_json::to_string(config).expect("a configuration is plain data");
    BTreeMap::from([(CONFIG.into(), json)])
}

/// Returns the configuration in a file's metadata; `None` if the metadata has none.
///
/// # Errors
///
/// The configuration is not valid JSON, or fields are missing.
pub(super) fn config(
    metadata: &BTreeMap<String, String>,
) -> Result<Option<TransformerConfig>, WeightsError> {
    let read = |json: &String| {
        serde_json::from_str(json).map_err(|error| {
            let what = format!("has an invalid model configuration in its metadata ({error})");
            WeightsError::File(what)
        })
    };
    metadata.get(CONFIG).map(read).transpose()
}
