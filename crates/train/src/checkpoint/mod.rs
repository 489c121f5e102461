//! What a run has learned, written down and read back.

mod store;
mod trained;

use std::path::Path;

use burn::module::Module;
use burn::tensor::TensorData;
use transformer::weights::{self, Parameters};

pub use store::{Checkpoints, FORMAT, Files, Unusable};
pub use trained::{Trained, Which, load_model};

use crate::config::RunConfig;
use crate::error::UsageError;
use crate::fit::TrainingState;
use crate::output;
pub use crate::run_folder::CONFIG;
use crate::run_folder::wrong;

/// The parameters, as safetensors.
pub const MODEL: &str = "model.safetensors";
/// Their moving average, where the run has one.
pub const AVERAGE: &str = "average.safetensors";
/// The optimiser's moments, as safetensors.
pub const OPTIMIZER: &str = "optimizer.safetensors";
/// The [`TrainingState`].
pub const STATE: &str = "state.json";
/// The newest checkpoint that is whole; warns of those that are not.
///
/// # Errors
///
/// If there is none.
pub fn newest(checkpoints: &Checkpoints) -> Result<(usize, Files), UsageError> {
    let (step, files, skipped) = checkpoints
        .newest(check_files)
        .map_err(|error| match &error {
            Unusable::Damaged { .. } if checkpoints.steps().is_empty() => {
                let what =
                    "has no checkpoint step-N; wait until the run has saved one, or train again";
                wrong(checkpoints.folder(), what)
            }
            _ => unusable(&error),
        })?;
    for damaged in skipped {
        output::note(&format!("warning: {damaged}; going back to step {step}"));
    }
    Ok((step, files))
}

/// Refuses a checkpoint without one of the files of every checkpoint, or of another step than its
/// folder says.
fn check_files(step: usize, files: &Files) -> Result<(), Unusable> {
    for name in [CONFIG, MODEL, STATE] {
        files.get(name)?;
    }
    #[derive(serde::Deserialize)]
    struct Step {
        step: usize,
    }
    let state = files.get(STATE)?;
    match serde_json::from_slice(state) {
        Ok(Step { step: found }) if found == step => Ok(()),
        Ok(Step { step: found }) => {
            let what = format!("is of step {found}, but its folder says {step}");
            Err(Unusable::damaged(&files.path(STATE), what))
        }
        Err(error) => {
            let what = format!("is not the state of a run ({error})");
            Err(Unusable::damaged(&files.path(STATE), what))
        }
    }
}

fn at_step(checkpoints: &Checkpoints, step: usize) -> Result<(usize, Files), UsageError> {
    let steps = checkpoints.steps();
    if !steps.contains(&step) {
        let steps: Vec<String> = steps.iter().map(usize::to_string).collect();
        let what = format!(
            "has no checkpoint of step {step}, only of {}",
            steps.join(", ")
        );
        return Err(wrong(checkpoints.folder(), what));
    }
    let files = checkpoints.read(step).map_err(|error| unusable(&error))?;
    check_files(step, &files).map_err(|error| unusable(&error))?;
    Ok((step, files))
}

/// Refuses a configuration that the checkpoint was not made with, where that matters.
///
/// # Errors
///
/// The first setting that differs.
pub fn check_config(files: &Files, config: &RunConfig) -> Result<(), UsageError> {
    const MATTER: [&str; 11] = [
        "task",
        "model",
        "seed",
        "batch_size",
        "accumulate",
        "optimizer",
        "ema",
        "precision",
        "fused",
        "loss_chunk",
        "label_smoothing",
    ];
    let json = files.get(CONFIG).map_err(|error| unusable(&error))?;
    // Through the same types, so that both round alike.
    let then: RunConfig = serde_json::from_slice(json).map_err(|error| {
        let what = format!("is not the configuration of a run ({error})");
        wrong(&files.path(CONFIG), what)
    })?;
    let then = serde_json::to_value(then).expect("it is plain data");
    let now = serde_json::to_value(config).expect("it is plain data");
    let differ = |then: &serde_json::Value, now: &serde_json::Value, name: String| {
        let what = format!(
            "was made with {name} {then}, but the run's config.json says {now}: put it back there"
        );
        Err(wrong(&files.path(CONFIG), what))
    };
    for key in MATTER {
        let (then, now) = (&then[key], &now[key]);
        if then == now {
            continue;
        }
        if let (Some(then), Some(now)) = (then.as_object(), now.as_object()) {
            for (inner, now) in now {
                let then = then.get(inner).unwrap_or(&serde_json::Value::Null);
                if then != now {
                    return differ(then, now, format!("{key}.{inner}"));
                }
            }
        }
        return differ(then, now, key.into());
    }
    Ok(())
}

/// The state of a checkpoint.
///
/// # Errors
///
/// If there is none.
pub fn read_state(files: &Files) -> Result<TrainingState, UsageError> {
    let json = files.get(STATE).map_err(|error| unusable(&error))?;
    serde_json::from_slice(json).map_err(|error| {
        let what = format!("is not the state of a run ({error})");
        wrong(&files.path(STATE), what)
    })
}

/// The parameters or moments in a file of a checkpoint.
///
/// # Errors
///
/// If there are none.
pub fn read_parameters(files: &Files, name: &str) -> Result<Parameters, UsageError> {
    let bytes = files.get(name).map_err(|error| unusable(&error))?;
    weights::from_bytes(bytes).map_err(|error| wrong(&files.path(name), error.to_string()))
}

/// The first tensor with a number that is not finite.
pub fn first_infinite(parameters: &Parameters) -> Option<&str> {
    let is_infinite = |data: &TensorData| data.iter::<f32>().any(|x| !x.is_finite());
    let mut parameters = parameters.iter();
    parameters
        .find(|(_, data)| is_infinite(data))
        .map(|(name, _)| name.as_str())
}

/// A model like `model` with the parameters that stood at `path`.
///
/// # Errors
///
/// If they are of another shape, or not finite.
pub fn with_parameters<M: Module>(
    model: &M,
    parameters: Parameters,
    path: &Path,
) -> Result<M, UsageError> {
    if let Some(name) = first_infinite(&parameters) {
        let what = format!("tensor {name} has numbers that are not finite");
        return Err(wrong(path, what));
    }
    weights::with_parameters(model, parameters).map_err(|error| {
        let what = format!("does not fit the model of config.json: {error}");
        wrong(path, what)
    })
}

fn unusable(error: &Unusable) -> UsageError {
    UsageError::new("RUN", "", error.to_string())
}

#[cfg(test)]
mod tests;
