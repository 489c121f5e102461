//! Models in folders of Hugging Face, with the tokeniser beside them, as trained runs.
//!
//! [`open`] reads `config.json` and the weights through [`ModelFolder`], then `tokenizer.json`. The
//! settings of generation are in `generation_config.json`. A folder without this file has them in
//! `config.json`.

mod codec;
mod dataset;
mod generation;

use std::path::Path;

use burn::tensor::Device;
use transformer::weights::ModelFolder;

pub use codec::Languages;

use crate::config::RunConfig;
use crate::data::DataConfig;
use crate::error::UsageError;
use crate::files::read_regular;
use crate::notes;
use crate::run::checkpoint::TrainedRun;
use codec::PretrainedCodec;
use dataset::Pretrained;
use generation::Generation;

/// Maximum size of a `config.json`, in MiB.
const LARGEST: u64 = 64;

/// Returns whether a folder holds a model of Hugging Face, and not a run.
pub fn is_pretrained(folder: &Path) -> bool {
    let bytes = read_regular(&folder.join("config.json"), LARGEST).unwrap_or_default();
    let config: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    config.get("model_type").is_some()
}

/// Opens the model of a folder on a device. Texts are translated from and into `languages`, for a
/// model of several.
///
/// # Errors
///
/// If a file is missing or cannot be used, if the tokeniser has tokens that the model does not
/// have, or if it lacks a language.
pub fn open(
    folder: &Path,
    languages: &Languages,
    device: &Device,
) -> Result<TrainedRun, UsageError> {
    let wrong = |what: String| UsageError::new("folder", folder.display(), what);
    let opened = ModelFolder::open(folder).and_then(|opened| opened.import());
    let imported = opened.map_err(|error| wrong(error.to_string()))?;
    for warning in &imported.warnings {
        notes::warn(&format!("{}: {warning}", folder.display()));
    }
    let model = imported.config.clone();
    let generation = Generation::read(folder)?;
    let codec = PretrainedCodec::read(folder, &model, &generation, languages)?;
    let dataset = Pretrained::new(codec, generation, &model)?;
    let mut config = RunConfig::of_task("text").expect("it is a task");
    config.data = DataConfig::Custom {
        title: "pretrained".into(),
    };
    config.model = model;
    let model = imported.transformer(device);
    Ok(TrainedRun {
        config,
        dataset: Box::new(dataset),
        step: 0,
        model: model.map_err(|error| wrong(error.to_string()))?,
    })
}
