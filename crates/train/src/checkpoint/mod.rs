//! What a run has learned, written down and read back.

mod store;

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use burn::module::Module;
use burn::tensor::{Device, TensorData};
use transformer::Transformer;
use transformer::weights::{self, Parameters};

pub use store::{Checkpoints, FORMAT, Files, Unusable};

use crate::config::RunConfig;
use crate::error::{UsageError, quote};
use crate::fit::TrainingState;
use crate::output;
use crate::task::Task;

/// The parameters, as safetensors.
pub const MODEL: &str = "model.safetensors";
/// Their moving average, where the run has one.
pub const AVERAGE: &str = "average.safetensors";
/// The optimiser's moments, as safetensors.
pub const OPTIMIZER: &str = "optimizer.safetensors";
/// The [`TrainingState`].
pub const STATE: &str = "state.json";
/// The run's configuration at that time.
pub const CONFIG: &str = "config.json";

/// Which checkpoint of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// The newest that is whole.
    #[default]
    Last,
    /// The best by validation loss or exact match.
    Best,
    /// That of one step.
    Step(usize),
    /// The mean of the parameters of so many newest ones.
    Average(usize),
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "must be last, best, the number of a step, or average:K of the last K";
        match text.split_once(':') {
            None if text == "last" => Ok(Self::Last),
            None if text == "best" => Ok(Self::Best),
            None => text.parse().map(Self::Step).map_err(|_| expected.into()),
            Some(("average", k)) => match k.parse() {
                Ok(k) if k > 0 => Ok(Self::Average(k)),
                _ => Err(expected.into()),
            },
            Some(_) => Err(expected.into()),
        }
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last => f.write_str("last"),
            Self::Best => f.write_str("best"),
            Self::Step(step) => write!(f, "{step}"),
            Self::Average(k) => write!(f, "average:{k}"),
        }
    }
}

/// A run and what it has learned.
pub struct Trained {
    /// Its settings.
    pub config: RunConfig,
    /// Its task.
    pub task: Box<dyn Task>,
    /// The step of the checkpoint.
    pub step: usize,
    /// The model of that step: the moving average where the run has one.
    pub model: Transformer,
}

impl Trained {
    /// Reads the newest checkpoint of a run folder that is whole.
    ///
    /// # Errors
    ///
    /// As [`load_which`](Self::load_which).
    pub fn load(folder: &Path, device: &Device) -> Result<Self, UsageError> {
        Self::load_which(folder, Which::Last, device)
    }

    /// Reads a checkpoint of a run folder.
    ///
    /// # Errors
    ///
    /// A folder that is no run's, or whose files cannot be used; the message names the path.
    pub fn load_which(folder: &Path, which: Which, device: &Device) -> Result<Self, UsageError> {
        let (config, task) = read_config(folder)?;
        let model = config
            .model
            .init_seeded(config.seed, device)
            .map_err(|error| no_configuration(folder, &error.to_string()))?;
        let checkpoints = Checkpoints::of(folder);
        let (step, files) = match which {
            Which::Last => newest(&checkpoints)?,
            Which::Step(step) => at_step(&checkpoints, step)?,
            Which::Best => {
                let (_, last) = newest(&checkpoints)?;
                let best = read_state(&last)?.best.ok_or_else(|| {
                    let what =
                        "has no best checkpoint, since there was no evaluation (fit --eval-every)";
                    wrong(checkpoints.folder(), what)
                })?;
                at_step(&checkpoints, best.step)?
            }
            Which::Average(k) => {
                let (step, parameters) = mean_of_last(&checkpoints, k)?;
                let path = checkpoints.path(step);
                let model = with_parameters(&model, parameters, &path)?;
                return Ok(Self {
                    config,
                    task,
                    step,
                    model,
                });
            }
        };
        check_config(&files, &config)?;
        let name = if files.has(AVERAGE) { AVERAGE } else { MODEL };
        let model = with_parameters(&model, read_parameters(&files, name)?, &files.path(name))?;
        Ok(Self {
            config,
            task,
            step,
            model,
        })
    }
}

/// The newest checkpoint that is whole; warns of those that are not.
///
/// # Errors
///
/// If there is none.
pub fn newest(checkpoints: &Checkpoints) -> Result<(usize, Files), UsageError> {
    let (step, files, skipped) = checkpoints.newest().map_err(|error| match &error {
        Unusable::Damaged { .. } if checkpoints.steps().is_empty() => {
            let what = "has no checkpoint step-N; wait until the run has saved one, or train again";
            wrong(checkpoints.folder(), what)
        }
        _ => unusable(&error),
    })?;
    for damaged in skipped {
        output::note(&format!("warning: {damaged}; going back to step {step}"));
    }
    Ok((step, files))
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
    Ok((step, files))
}

/// The mean of the newest `k` checkpoints' parameters, and the newest of their steps.
fn mean_of_last(checkpoints: &Checkpoints, k: usize) -> Result<(usize, Parameters), UsageError> {
    let steps = checkpoints.steps();
    if steps.len() < k {
        let what = format!(
            "has {} checkpoints, fewer than {k} (fit --keep)",
            steps.len()
        );
        return Err(wrong(checkpoints.folder(), what));
    }
    let mut sums = std::collections::BTreeMap::<String, (Vec<usize>, Vec<f64>)>::new();
    for &step in &steps[steps.len() - k..] {
        let (_, files) = at_step(checkpoints, step)?;
        for (name, data) in read_parameters(&files, MODEL)? {
            let shape = data.shape().to_vec();
            let (_, sum) = sums
                .entry(name)
                .or_insert_with(|| (shape, vec![0.0; data.num_elements()]));
            for (sum, x) in sum.iter_mut().zip(data.iter::<f64>()) {
                *sum += x;
            }
        }
    }
    let mean = |(name, (shape, sum)): (String, (Vec<usize>, Vec<f64>))| {
        let mean: Vec<f32> = sum.iter().map(|sum| (sum / k as f64) as f32).collect();
        (name, TensorData::new(mean, shape))
    };
    Ok((
        *steps.last().expect("there are k"),
        sums.into_iter().map(mean).collect(),
    ))
}

/// Refuses a configuration that the checkpoint was not made with, where that matters.
///
/// # Errors
///
/// The first setting that differs.
pub fn check_config(files: &Files, config: &RunConfig) -> Result<(), UsageError> {
    const MATTER: [&str; 9] = [
        "task",
        "model",
        "seed",
        "batch_size",
        "accumulate",
        "optimizer",
        "ema",
        "precision",
        "label_smoothing",
    ];
    if !files.has(CONFIG) {
        return Ok(());
    }
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

/// A path below RUN, and what is wrong there.
fn wrong(path: &Path, what: impl Into<String>) -> UsageError {
    UsageError::new("RUN", path.display(), what)
}

fn no_configuration(folder: &Path, error: &str) -> UsageError {
    let what = format!("is not the configuration of a run ({})", short(error));
    wrong(&folder.join("config.json"), what)
}

/// The first words of somebody else's message, without line breaks.
fn short(message: &str) -> String {
    let quoted = quote(message);
    quoted.replacen('"', "", 1).replacen('"', "", 1)
}

/// The configuration of a run folder, and its task.
///
/// # Errors
///
/// A folder that is no run's.
pub fn read_config(folder: &Path) -> Result<(RunConfig, Box<dyn Task>), UsageError> {
    const HINT: &str = "name the folder of a run, such as runs/copy-1";
    if !folder.is_dir() {
        let what = if folder.exists() {
            "is not a folder"
        } else {
            "does not exist"
        };
        return Err(wrong(folder, format!("{what}; {HINT}")));
    }
    let path = folder.join("config.json");
    if !path.exists() {
        return Err(wrong(folder, format!("has no config.json; {HINT}")));
    }
    let json =
        fs::read(&path).map_err(|error| wrong(&path, format!("cannot be read ({error})")))?;
    let mut config: RunConfig = serde_json::from_slice(&json)
        .map_err(|error| no_configuration(folder, &error.to_string()))?;
    let task = config
        .resolve()
        .map_err(|error| no_configuration(folder, &error.to_string()))?;
    Ok((config, task))
}

#[cfg(test)]
mod tests;
