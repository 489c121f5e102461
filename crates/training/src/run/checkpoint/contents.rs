//! Reads and checks the files of a run's checkpoints.

use std::path::Path;

use burn::module::Module;
use burn::tensor::{DType, TensorData};
use serde::de::DeserializeOwned;
use serde_json::Value;
use transformer::weights::{self, Parameters};

use super::store::{CheckpointError, Checkpoints, LoadedCheckpoint, OPTIMIZER};
use crate::config::differences::{Settings, differing, flat};
use crate::config::{OptimizationConfig, RunConfig, ScheduleKind, setting_at};
use crate::data::TASK;
use crate::data::parallel::TextConfig;
use crate::error::UsageError;
use crate::notes;
use crate::run::layout::{CONFIG, SUMMARY, read_file, read_json_if_any, unusable};
use crate::run::state::{Earlier, TrainingState};
use crate::run::status::read_status;
use crate::setting::value_at;

/// File of the parameters, in safetensors format.
pub const MODEL: &str = "model.safetensors";

/// File of the parameters' moving average, in safetensors format; missing if the run has none.
pub(crate) const AVERAGE: &str = "average.safetensors";

/// File of the [`TrainingState`], in JSON.
pub const STATE: &str = "state.json";

/// Reads the newest undamaged checkpoint, and returns its step and its files. Warns about newer
/// checkpoints that are damaged, or missing. The optimizer's moments may be missing, unless training
/// `goes_on`.
///
/// # Errors
///
/// If no checkpoint can be used, or the newest one that is not damaged [may be
/// whole](CheckpointError::may_be_whole).
pub fn newest(
    checkpoints: &Checkpoints,
    goes_on: bool,
) -> Result<(usize, LoadedCheckpoint), UsageError> {
    let (step, files, skipped) = checkpoints.newest(|step, files| {
        check_files(step, files)?;
        if goes_on {
            files.open(OPTIMIZER)?;
        }
        Ok(())
    })?;
    let newest = format!("the newest undamaged one is of step {step}");
    for damaged in skipped {
        notes::warn(&format!("{damaged}; {newest}"));
    }
    let last = read_status(folder_of_run(checkpoints)).map_or(step, |it| it.step);
    let lost = checkpoints.path(last);
    if last > step && !lost.exists() {
        let lost = lost.display();
        notes::warn(&format!("{lost} is missing; {newest}"));
    }
    Ok((step, files))
}

fn folder_of_run(checkpoints: &Checkpoints) -> &Path {
    checkpoints.folder().parent().unwrap_or(Path::new(""))
}

/// Reads the checkpoint that is the [run's model](TrainingState::model_step), and returns its step
/// and its files. If it is damaged, warns and returns the newest one.
///
/// # Errors
///
/// Those of [`newest`], also for the run's model.
pub fn of_model(checkpoints: &Checkpoints) -> Result<(usize, LoadedCheckpoint), UsageError> {
    let (last, files) = newest(checkpoints, false)?;
    // A run that has ended says which model was tested.
    let run = folder_of_run(checkpoints);
    let summary: Value = read_json_if_any(&run.join(SUMMARY)).unwrap_or_default();
    let step = match summary["model_step"].as_u64() {
        Some(tested) => tested as usize,
        None => read_state(&files)?.model_step(),
    };
    if step == last {
        return Ok((last, files));
    }
    match at_step(checkpoints, step) {
        Ok(best) => Ok((step, best)),
        Err(error) if error.may_be_whole => Err(error.into()),
        Err(error) => {
            let what = format!("the best model is lost, and the one of step {last} is used");
            notes::warn(&format!("{error}; {what}"));
            Ok((last, files))
        }
    }
}

/// Rejects a checkpoint that lacks a required file, or whose state is damaged or not of the step in
/// the name of its folder.
fn check_files(step: usize, files: &LoadedCheckpoint) -> Result<(), CheckpointError> {
    files.open(CONFIG)?;
    files.open(MODEL)?;
    let found = read_state(files)?.step;
    if found == step {
        return Ok(());
    }
    let what = format!("is of step {found}, but its folder says {step}");
    Err(CheckpointError::damaged(&files.path(STATE), what))
}

pub(crate) fn at_step(
    checkpoints: &Checkpoints,
    step: usize,
) -> Result<LoadedCheckpoint, CheckpointError> {
    let steps = checkpoints.steps();
    let files = checkpoints.read(step).map_err(|error| {
        if error.may_be_whole || steps.contains(&step) {
            return error;
        }
        let others: Vec<String> = steps.iter().map(usize::to_string).collect();
        let others = others.join(", ");
        let what = match &others[..] {
            "" => "has no checkpoint".into(),
            others => format!("has no checkpoint of step {step}, only of {others}"),
        };
        CheckpointError::damaged(checkpoints.folder(), what)
    })?;
    check_files(step, &files)?;
    Ok(files)
}

/// Returns the settings of the checkpoint that `config` has changed, and on which the model depends.
///
/// Rejects a configuration that differs in one of the settings that are fixed for the whole run, such
/// as `model` and `seed`. Parameters and optimizer state depend on these.
///
/// # Errors
///
/// If a fixed setting differs (the error names the first one), or if the checkpoint's configuration
/// cannot be used.
pub(crate) fn check_config(
    files: &LoadedCheckpoint,
    config: &RunConfig,
) -> Result<Settings, UsageError> {
    // The checkpoint's settings are parsed as a `RunConfig`, so that their floats are rounded like
    // the floats of `config`.
    let then: RunConfig = parse(files, CONFIG, "the configuration")?;
    let whole = [&then, config].map(RunConfig::to_json);
    let [then, now] = whole.each_ref().map(flat);
    let mut paths = differing(&[&then, &now]);
    // The task decides which other settings there are.
    paths.sort_by_key(|path| *path != TASK.path);
    // An imported run gets its corpora when it is resumed for the first time.
    let is_first = then.get(TextConfig::data.path).is_some_and(Value::is_null);
    let may_change = |path: &str| {
        let is_known = setting_at(path).is_some_and(|setting| setting.may_change);
        is_known || is_first && path == TextConfig::data.path
    };
    if let Some(path) = paths.iter().find(|path| !may_change(path)) {
        let value = |json| value_at(json, path).cloned().unwrap_or_default();
        let [then, now] = whole.each_ref().map(value);
        let what = format!(
            "was made with {path} {then}, but the run's config.json says {now}: put it back there"
        );
        return Err(unusable(&files.path(CONFIG), what));
    }
    // Epochs are steps by now, on which the paper's schedule does not depend.
    let is_noam = config.optimization.schedule.kind == ScheduleKind::Noam;
    let with_effect = ["optimization.", "evaluation.every", "execution.backend"];
    paths.retain(|path| {
        with_effect.iter().any(|begin| path.starts_with(begin))
            && *path != OptimizationConfig::epochs.path
            && !(is_noam && *path == OptimizationConfig::steps.path)
    });
    let value = |path: &str| then.get(path).cloned().unwrap_or_default();
    let earlier = paths.into_iter().map(|path| (path.into(), value(path)));
    Ok(earlier.collect())
}

/// Returns the settings that the newest checkpoint of a run says to have had other values earlier;
/// none if it cannot be read.
pub(crate) fn earlier(checkpoints: &Checkpoints) -> Vec<Earlier> {
    let newest = checkpoints.steps().pop();
    let json = newest.and_then(|step| read_file(&checkpoints.path(step).join(STATE), 16).ok());
    let state = json.and_then(|json| serde_json::from_slice::<TrainingState>(&json).ok());
    state.map_or(Vec::new(), |state| state.earlier)
}

/// Reads the state of a checkpoint.
///
/// # Errors
///
/// If the checkpoint has no valid state.
pub fn read_state(files: &LoadedCheckpoint) -> Result<TrainingState, CheckpointError> {
    let state: TrainingState = parse(files, STATE, "the state")?;
    let (updates, step) = (state.updates, state.step);
    let times = [
        state.train_seconds,
        state.wait_seconds,
        state.exchange_seconds,
    ];
    let wrong = times.iter().find(|time| !time.is_finite() || **time < 0.0);
    let what = if updates > step {
        format!("has {updates} updates, which is more than its {step} steps")
    } else if let Some(seconds) = wrong {
        format!("has {seconds} seconds of training")
    } else {
        return Ok(state);
    };
    Err(CheckpointError::damaged(&files.path(STATE), what))
}

/// Parses the JSON file `name` of a checkpoint. `what` describes the file's contents in errors.
fn parse<T: DeserializeOwned>(
    files: &LoadedCheckpoint,
    name: &str,
    what: &str,
) -> Result<T, CheckpointError> {
    serde_json::from_slice(&files.read(name)?).map_err(|error| {
        let what = format!("is not {what} of a run ({error})");
        CheckpointError::damaged(&files.path(name), what)
    })
}

/// Reads the parameters or moments from the file `name` of a checkpoint.
///
/// # Errors
///
/// If the checkpoint has no such file, or it is not a safetensors file of f32 tensors and quantised
/// matrices.
pub(crate) fn read_parameters(
    files: &LoadedCheckpoint,
    name: &str,
) -> Result<Parameters, UsageError> {
    weights::read_file(files.open(name)?)
        .map_err(|error| unusable(&files.path(name), error.to_string()))
}

/// Returns the name of the first tensor with an element that is not finite; `None` if all elements
/// are finite.
pub(crate) fn first_infinite(parameters: &Parameters) -> Option<&str> {
    // Quantised matrices are skipped, because reading them has already checked that their scales
    // are finite.
    let is_quantized = |data: &TensorData| matches!(data.dtype(), DType::QFloat(_));
    let is_infinite =
        |data: &TensorData| !is_quantized(data) && data.iter::<f32>().any(|x| !x.is_finite());
    let found = parameters.iter().find(|(_, data)| is_infinite(data));
    found.map(|(name, _)| name.as_str())
}

/// Returns a copy of `model` with the parameters in the file `name` of a checkpoint.
///
/// # Errors
///
/// In the cases of [`read_parameters`] and [`with_parameters`].
pub(crate) fn restored<M: Module>(
    model: &M,
    files: &LoadedCheckpoint,
    name: &str,
) -> Result<M, UsageError> {
    with_parameters(model, read_parameters(files, name)?, &files.path(name))
}

/// Returns a copy of `model` with `parameters`, which were read from `path`.
///
/// # Errors
///
/// If names or shapes differ from the model's, or if an element is not finite.
pub(super) fn with_parameters<M: Module>(
    model: &M,
    parameters: Parameters,
    path: &Path,
) -> Result<M, UsageError> {
    if let Some(name) = first_infinite(&parameters) {
        let what = format!("tensor {name} has numbers that are not finite");
        return Err(unusable(path, what));
    }
    weights::with_parameters(model, parameters).map_err(|error| {
        let what = format!("does not fit the model of config.json: {error}");
        unusable(path, what)
    })
}

#[cfg(test)]
mod tests {
    use super::super::Content;
    use super::*;

    #[test]
    fn impossible_states_are_rejected() {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::of(run.path());
        for (updates, train_seconds, expected) in [
            (10, 0.0, None),
            (3, 1.5, None),
            (
                11,
                0.0,
                Some("has 11 updates, which is more than its 10 steps"),
            ),
            (10, -1.0, Some("has -1 seconds of training")),
        ] {
            let state = TrainingState {
                step: 10,
                updates,
                train_seconds,
                ..TrainingState::default()
            };
            let state = serde_json::to_vec(&state).unwrap();
            checkpoints
                .save(10, &[(STATE, Content::Bytes(&state))])
                .unwrap();
            let found = read_state(&checkpoints.read(10).unwrap());
            match expected {
                None => assert_eq!(found.unwrap().updates, updates),
                Some(expected) => {
                    let error = found.unwrap_err().to_string();
                    assert!(error.ends_with(expected), "{error}");
                }
            }
        }
    }
}
