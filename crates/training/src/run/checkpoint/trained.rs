//! Loads the settings and the model of a run folder.

use std::fmt::Display;
use std::path::Path;

use anyhow::Result;
use burn::tensor::Device;
use transformer::Transformer;
use transformer::weights;

use super::contents::with_parameters;
use super::{
    AVERAGE, CheckpointSelector, Checkpoints, LoadedCheckpoint, MODEL, at_step, check_config,
    newest, of_model, restored,
};
use crate::config::{CheckpointingConfig, RunConfig};
use crate::data::Dataset;
use crate::error::UsageError;
use crate::lora::{merged, with_lora};
use crate::number::counted;
use crate::run::layout::CONFIG;
use crate::run::{read_config, unusable};

/// Settings, data set and model of a run.
pub struct TrainedRun {
    /// Settings of the run.
    pub config: RunConfig,
    /// Data set of the run, with its codec. A text data set has no training batches. It has
    /// validation examples only if their files still exist.
    pub dataset: Box<dyn Dataset>,
    /// Step of the checkpoint. For a mean of checkpoints, the step of the newest one.
    pub step: usize,
    /// Model of the checkpoint. Its parameters are the moving averages if the run has them.
    pub model: Transformer,
}

impl TrainedRun {
    /// Reads a run folder and its model, which is the checkpoint of the best evaluation.
    ///
    /// # Errors
    ///
    /// The same as those of [`load_selected`](Self::load_selected).
    pub fn load(folder: &Path, device: &Device) -> Result<Self> {
        Self::load_selected(folder, CheckpointSelector::Best, device)
    }

    /// Reads a run folder and the selected checkpoint.
    ///
    /// # Errors
    ///
    /// If the folder is not a run's, if it has no such checkpoint, or if one of its files cannot be
    /// used. The message names the path.
    pub fn load_selected(
        folder: &Path,
        selector: CheckpointSelector,
        device: &Device,
    ) -> Result<Self> {
        let (config, dataset) = read_config(folder)?;
        // Without fast paths (the kernels of `fused`), quantised matrices are dequantised when they
        // are read, so the run's setting applies here, too.
        let _fast_paths = config.execution.fast_paths();
        let (step, model) = load_model(folder, &config, selector, device)?;
        Ok(Self {
            config,
            dataset,
            step,
            model,
        })
    }
}

/// Reads the model of a run folder, and returns the step of the checkpoint and the model.
///
/// This function uses `config` instead of the folder's `config.json`, so that it also works for a
/// run with a data set of your own.
///
/// # Errors
///
/// If there is no such checkpoint, or if a file cannot be used, for example because its settings
/// differ from `config`. The message names the path.
pub fn load_model(
    folder: &Path,
    config: &RunConfig,
    selector: CheckpointSelector,
    device: &Device,
) -> Result<(usize, Transformer), UsageError> {
    let lora = config.optimization.lora.as_ref();
    let model = config.model.init_zeros(device);
    let model = model.map_err(|error| unusable(&folder.join(CONFIG), error.to_string()))?;
    let model = with_lora(model, lora);
    let checkpoints = Checkpoints::of(folder);
    // The parameters are the moving averages if the checkpoint has them.
    let name = |files: &LoadedCheckpoint| if files.has(AVERAGE) { AVERAGE } else { MODEL };
    let read = |files: &LoadedCheckpoint| -> Result<Transformer, UsageError> {
        check_config(files, config)?;
        Ok(merged(restored(&model, files, name(files))?, lora))
    };
    let (step, files) = match selector {
        CheckpointSelector::Last => newest(&checkpoints, false)?,
        CheckpointSelector::Step(step) => {
            let files = at_step(&checkpoints, step);
            let files = files.map_err(|error| of_selector(step, error.into()))?;
            (step, files)
        }
        CheckpointSelector::Best => of_model(&checkpoints)?,
        CheckpointSelector::Average(k) => {
            // LoRA's matrices are merged first, because the product of two means is not the mean of
            // the products.
            let read = |&step: &usize| -> Result<_, UsageError> {
                Ok(weights::parameters(&read(&at_step(&checkpoints, step)?)?))
            };
            let mean = || -> Result<_, UsageError> {
                let steps = last(&checkpoints, k, config.checkpointing.keep)?;
                let step = steps[steps.len() - 1];
                Ok((step, weights::mean(steps.iter().map(read))?))
            };
            let (step, mean) =
                mean().map_err(|error| of_selector(format!("average:{k}"), error))?;
            let model = merged(model.clone(), lora);
            let model = with_parameters(&model, mean, &checkpoints.path(step))?;
            return Ok((step, model));
        }
    };
    Ok((step, read(&files)?))
}

/// Converts an error about checkpoint files into an error about the setting `checkpoint`, whose
/// value is `selector`.
fn of_selector(selector: impl Display, error: UsageError) -> UsageError {
    let expected = format!("{} {}", error.value, error.expected);
    UsageError::argument("checkpoint", selector, expected)
}

/// Returns the steps of the `k` newest checkpoints, of which the run keeps `keep`.
fn last(checkpoints: &Checkpoints, k: usize, keep: usize) -> Result<Vec<usize>, UsageError> {
    let mut steps = checkpoints.steps();
    // A checkpoint before these is that of the best evaluation, at any distance.
    let (all, found) = (steps.len(), steps.len().min(keep));
    let what = if k == 0 {
        "needs at least one checkpoint for an average, not 0".into()
    } else if k > found {
        let (found, keep) = (
            counted(found, "checkpoint"),
            CheckpointingConfig::keep.name(),
        );
        format!("has the newest {found}, fewer than {k} ({keep})")
    } else {
        return Ok(steps.split_off(all - k));
    };
    Err(unusable(checkpoints.folder(), what))
}
