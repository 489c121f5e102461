//! The JSON files of a folder.

use std::path::Path;

use serde_json::Value;

use super::error::WeightsError;
use super::unique::Unique;

/// File name of a folder's configuration.
pub(super) const CONFIG: &str = "config.json";

/// Maximum size of a file, in bytes.
const LARGEST: u64 = 1 << 26;

/// Reads a JSON file of at most `LARGEST` bytes.
pub(super) fn read_json(path: &Path) -> Result<Value, WeightsError> {
    let about = std::fs::metadata(path).map_err(|error| WeightsError::io(&error))?;
    if !about.is_file() || about.len() > LARGEST {
        let what = format!("is not a regular file of at most {} MiB", LARGEST >> 20);
        return Err(WeightsError::File(what));
    }
    let text = std::fs::read_to_string(path).map_err(|error| WeightsError::io(&error))?;
    let read = serde_json::from_str(&text).map(|Unique(json)| json);
    read.map_err(|error| WeightsError::File(format!("is not JSON ({error})")))
}

/// Returns whether a value says that a setting is not used.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
