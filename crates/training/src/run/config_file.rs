//! Reads a run folder's `config.json`.

use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use transformer::weights::Unique;

use super::layout::{CONFIG, LARGEST, is_missing, read_file, unusable};
use crate::config::{RunConfig, file};
use crate::data::{self, Dataset};
use crate::error::{Subject, UsageError};

/// What some editors begin a file of UTF-8 with.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Reads a run folder's `config.json`.
///
/// # Errors
///
/// If the folder is not a run's, or if the file cannot be read or is not JSON.
pub(crate) fn read_config_json(folder: &Path) -> Result<Value, UsageError> {
    const HINT: &str = "name the folder of a run, such as runs/copy-1";
    let path = folder.join(CONFIG);
    let wrong = if is_missing(folder) {
        "does not exist"
    } else if folder.is_file() {
        "is not a folder (`train import FILE --run-dir RUN` makes a run of weights)"
    } else if is_missing(&path) {
        "has no config.json, as a run and a folder of Hugging Face have it"
    } else {
        let json = read_file(&path, LARGEST)?;
        let json = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&json);
        let read = serde_json::from_slice(json).map(|Unique(value)| value);
        return read.map_err(|error| unusable(&path, format!("is not JSON ({error})")));
    };
    Err(unusable(folder, format!("{wrong}; {HINT}")))
}

/// Reads the configuration of a run folder, and prepares its data set for inference.
///
/// # Errors
///
/// If the folder is not a run's, if its settings cannot be used, or if a file of the data set
/// cannot be read.
pub fn read_config(folder: &Path) -> Result<(RunConfig, Box<dyn Dataset>)> {
    let file = read_config_json(folder)?;
    let wrong = |what: &str| {
        let what = what.lines().next().unwrap_or_default();
        unusable(&folder.join(CONFIG), what)
    };
    let mut needed = ["data", "model"].into_iter();
    let missing = needed.find(|key| file.get(key).is_none());
    let mut config = file::over_defaults(file).map_err(|what| wrong(&what))?;
    if let Some(key) = missing {
        // Other missing settings have defaults, but every run has written `data` and `model`.
        return Err(wrong(&format!("has no key {key}, which every run has")).into());
    }
    let dataset = data::open(&config.data, folder);
    let fitted = dataset.and_then(|dataset| {
        config.fit_to(dataset.as_ref())?;
        Ok(dataset)
    });
    match fitted {
        Ok(dataset) => Ok((config, dataset)),
        Err(error) => {
            let usage = error.downcast_ref::<UsageError>();
            let is_setting = usage.is_some_and(|it| matches!(it.subject, Subject::Setting(_)));
            // Errors about corpora and tokenisers already name the file.
            let named = is_setting.then(|| wrong(&format!("cannot be used: {error}")));
            Err(named.map_or(error, Into::into))
        }
    }
}
