//! A trained run in a single file, for a browser: the parameters and the settings of the run.
//!
//! The file is in the native layout of [`transformer::weights`], which has the model's
//! configuration in its metadata. The metadata also have the configuration of the run, from which
//! the data set and its symbols follow.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use burn::tensor::Device;
use serde_json::Value;
use transformer::Transformer;
use transformer::weights::{self, Contents, Dtype, Layout};

use crate::config::{RunConfig, file};
use crate::data::TASK;
use crate::error::UsageError;
use crate::run::checkpoint::TrainedRun;

/// Metadata key of the run's configuration, which is stored as JSON.
const RUN: &str = "run";

/// Returns the bytes of the file of a run.
///
/// # Errors
///
/// If the run's data set is read from other files, which the single file would not have, or belongs
/// to another program, or if a setting of the data set is wrong.
pub fn to_bytes(config: &RunConfig, model: &Transformer) -> Result<Vec<u8>> {
    if config.data.check()?.is_none() {
        let expected =
            "has tokenisers of its own, which the file would not have; it must be a synthetic task";
        return Err(UsageError::setting(TASK, config.data.name(), expected).into());
    }
    let parameters = weights::parameters(model);
    let (contents, layout) = (Contents::Model, Layout::Native);
    let parameters = weights::export(&config.model, contents, &parameters, layout, false)?;
    let json = serde_json::to_string(config)?;
    let mut metadata = weights::metadata(&config.model);
    metadata.insert(RUN.into(), json);
    Ok(weights::to_bytes_with(&parameters, Dtype::F32, &metadata)?)
}

/// Reads the bytes of a file that [`to_bytes`] returned. The file does not say its step, so it is 0.
///
/// ```
/// use burn::tensor::Device;
/// use training::config::RunConfig;
/// use training::run::single_file::{from_bytes, to_bytes};
///
/// let mut config = RunConfig::copy();
/// config.check()?;
/// let model = config.model.init_seeded(7, &Device::flex())?;
/// let bytes = to_bytes(&config, &model)?;
/// let read = from_bytes(&bytes, &Device::flex())?;
/// assert_eq!(read.config, config);
/// # Ok::<(), anyhow::Error>(())
/// ```
///
/// # Errors
///
/// If the bytes are not those of a file from [`to_bytes`]. The message does not name the file,
/// so that the caller can put a name before it, as in `NAME: is empty`.
pub fn from_bytes(bytes: &[u8], device: &Device) -> Result<TrainedRun> {
    if bytes.is_empty() {
        bail!("is empty");
    }
    let metadata: BTreeMap<String, String> = weights::metadata_of(bytes)?;
    let Some(json) = metadata.get(RUN) else {
        bail!("has no settings of a run; write it with `train export --web RUN`");
    };
    let wrong = |what: String| anyhow!("has settings that cannot be used: {what}");
    let json: Value = serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
    let mut config = file::over_defaults(json).map_err(wrong)?;
    let dataset = config.check().map_err(|error| wrong(error.to_string()))?;
    let dataset = dataset
        .ok_or_else(|| anyhow!("is of a run on texts, whose tokenisers it does not have"))?;
    let parameters = weights::from_bytes(bytes)?;
    let model = config.model.init_zeros(device);
    let model = model.map_err(|error| wrong(error.to_string()))?;
    let model = weights::with_parameters(&model, parameters)?;
    Ok(TrainedRun {
        config,
        dataset,
        step: 0,
        model,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_has;

    fn small() -> (RunConfig, Transformer) {
        let mut config = RunConfig::of_preset("sort").unwrap();
        config.model.d_model = 8;
        config.model.d_ff = 16;
        config.check().unwrap();
        let model = config.model.init_seeded(1, &Device::flex()).unwrap();
        (config, model)
    }

    fn error(bytes: &[u8]) -> String {
        let read = from_bytes(bytes, &Device::flex());
        read.err().unwrap().to_string()
    }

    #[test]
    fn a_run_survives_a_file() {
        let (config, model) = small();
        let bytes = to_bytes(&config, &model).unwrap();
        let read = from_bytes(&bytes, &Device::flex()).unwrap();
        assert_eq!(read.config, config);
        assert_eq!(read.dataset.codec().encode_source("16").unwrap(), [19]);
        let same = weights::parameters(&read.model);
        assert_eq!(same, weights::parameters(&model));
    }

    #[test]
    fn broken_files_are_rejected_in_words() {
        let (config, model) = small();
        let bytes = to_bytes(&config, &model).unwrap();
        assert_eq!(error(&[]), "is empty");
        let part = error(&bytes[..bytes.len() - 1]);
        assert_has(&part, &["is not a whole safetensors file"]);
        assert!(error(b"<!doctype html> of some length").starts_with("is not a whole"));
        let parameters = weights::parameters(&model);
        let of_weights = weights::to_bytes(&parameters).unwrap();
        assert!(error(&of_weights).starts_with("has no settings of a run"));
        let with = |change: fn(&mut Value)| {
            let mut json = serde_json::to_value(&config).unwrap();
            change(&mut json);
            let metadata = BTreeMap::from([(RUN.into(), json.to_string())]);
            error(&weights::to_bytes_with(&parameters, Dtype::F32, &metadata).unwrap())
        };
        assert_eq!(
            with(|json| json["model"]["d_ff"] = 32.into()),
            "tensor decoder.layers.0.feed_forward.w_1.bias has the shape [16], but must have [32]"
        );
        assert_eq!(
            with(|json| json["model"]["n_heads"] = 3.into()),
            "has settings that cannot be used: model.n_heads 3: must be a divisor of --d-model (8)"
        );
        let unknown = with(|json| json["data"]["task"] = "guess".into());
        assert_has(&unknown, &["data.task \"guess\" is not a task"]);
    }

    #[test]
    fn runs_on_texts_are_rejected() {
        let (_, model) = small();
        let mut text = RunConfig::of_task("text").unwrap();
        if let crate::data::DataConfig::Text(data) = &mut text.data {
            data.train.source = "pairs.tsv".into();
        }
        let error = to_bytes(&text, &model).unwrap_err().to_string();
        assert_has(&error, &["data.task text: has tokenisers"]);
    }
}
