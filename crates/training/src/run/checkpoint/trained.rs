//! Loads the settings and the model of a run folder.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::Result;
use burn::tensor::{Device, TensorData};
use transformer::Transformer;
use transformer::weights::{self, Parameters};

use super::contents::at_step;
use super::{
    AVERAGE, CheckpointSelector, Checkpoints, LoadedCheckpoint, MODEL, OPTIMIZER, check_config,
    newest, of_model, read_parameters, with_parameters,
};
use crate::config::{CheckpointingConfig, RunConfig};
use crate::data::Dataset;
use crate::error::UsageError;
use crate::lora::{merged, with_lora};
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
    let checkpoints = Checkpoints::of(folder).without(&[OPTIMIZER]);
    let (step, files) = match selector {
        CheckpointSelector::Last => newest(&checkpoints)?,
        CheckpointSelector::Step(step) => {
            let files = at_step(&checkpoints, step);
            (step, files.map_err(|error| of_selector(step, error))?)
        }
        CheckpointSelector::Best => of_model(&checkpoints)?,
        CheckpointSelector::Average(k) => {
            let mean = mean_of_last(&checkpoints, config, &model, k);
            let name = format!("average:{k}");
            let (step, parameters) = mean.map_err(|error| of_selector(name, error))?;
            let model = merged(model, lora);
            return Ok((
                step,
                with_parameters(&model, parameters, &checkpoints.path(step))?,
            ));
        }
    };
    check_config(&files, config)?;
    let (path, parameters) = learned(&files)?;
    drop(files);
    let model = with_parameters(&model, parameters, &path)?;
    Ok((step, merged(model, lora)))
}

/// Converts an error about checkpoint files into an error about the setting `checkpoint`, whose
/// value is `selector`.
fn of_selector(selector: impl Display, error: UsageError) -> UsageError {
    let expected = format!("{} {}", error.value, error.expected);
    UsageError::argument("checkpoint", selector, expected)
}

/// Returns the path of the file with the parameters of a checkpoint's model, and these parameters.
/// They are the moving averages if the checkpoint has them.
fn learned(files: &LoadedCheckpoint) -> Result<(PathBuf, Parameters), UsageError> {
    let name = if files.has(AVERAGE) { AVERAGE } else { MODEL };
    Ok((files.path(name), read_parameters(files, name)?))
}

/// Returns the step of the newest checkpoint, and the mean parameters of the `k` newest
/// checkpoints. `model` has the names and shapes of the parameters in a checkpoint.
fn mean_of_last(
    checkpoints: &Checkpoints,
    config: &RunConfig,
    model: &Transformer,
    k: usize,
) -> Result<(usize, Parameters), UsageError> {
    let steps = checkpoints.steps();
    if k == 0 {
        let what = "needs at least one checkpoint for an average, not 0";
        return Err(unusable(checkpoints.folder(), what));
    }
    if steps.len() < k {
        let (found, keep) = (steps.len(), CheckpointingConfig::keep);
        let what = format!("has {found} checkpoints, fewer than {k} ({keep})");
        return Err(unusable(checkpoints.folder(), what));
    }
    let mut sums = BTreeMap::<String, (Vec<usize>, Vec<f64>)>::new();
    for &step in &steps[steps.len() - k..] {
        let files = at_step(checkpoints, step)?;
        check_config(&files, config)?;
        let (path, mut parameters) = learned(&files)?;
        if let Some(lora) = &config.optimization.lora {
            // LoRA's matrices are merged first, because the product of two means is not the mean of
            // the products.
            let model = with_parameters(model, parameters, &path)?;
            parameters = weights::parameters(&merged(model, Some(lora)));
        }
        for (name, data) in parameters {
            let shape = data.shape().to_vec();
            let zeros = || (shape, vec![0.0; data.num_elements()]);
            let (_, sum) = sums.entry(name).or_insert_with(zeros);
            for (sum, x) in sum.iter_mut().zip(weights::dequantize(&data).iter::<f64>()) {
                *sum += x;
            }
        }
    }
    let mean = |(name, (shape, sum)): (String, (Vec<usize>, Vec<f64>))| {
        let mean: Vec<f32> = sum.iter().map(|sum| (sum / k as f64) as f32).collect();
        (name, TensorData::new(mean, shape))
    };
    Ok((
        *steps.last().expect("k is at least 1"),
        sums.into_iter().map(mean).collect(),
    ))
}
