//! The model of a run folder.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use burn::tensor::{Device, TensorData};
use transformer::Transformer;
use transformer::weights::Parameters;

use super::{
    AVERAGE, CONFIG, Checkpoints, Files, MODEL, at_step, check_config, newest, read_parameters,
    read_state, with_parameters, wrong,
};
use crate::config::RunConfig;
use crate::error::UsageError;
use crate::run_folder::read_config;
use crate::task::Task;

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
    /// The mean of the parameters of so many newest ones that the folder has.
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
        let (step, model) = load_model(folder, &config, which, device)?;
        Ok(Self {
            config,
            task,
            step,
            model,
        })
    }
}

/// Reads the model of a run folder whose configuration is known, as of a task of your own; and the
/// step of its checkpoint.
///
/// # Errors
///
/// If the files cannot be used; the message names the path.
pub fn load_model(
    folder: &Path,
    config: &RunConfig,
    which: Which,
    device: &Device,
) -> Result<(usize, Transformer), UsageError> {
    let model = config
        .model
        .init_seeded(config.seed, device)
        .map_err(|error| wrong(&folder.join(CONFIG), error.to_string()))?;
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
            let (step, parameters) = mean_of_last(&checkpoints, config, k)?;
            let model = with_parameters(&model, parameters, &checkpoints.path(step))?;
            return Ok((step, model));
        }
    };
    check_config(&files, config)?;
    let (path, parameters) = learned(&files)?;
    Ok((step, with_parameters(&model, parameters, &path)?))
}

/// The moving average where there is one, and its path.
fn learned(files: &Files) -> Result<(PathBuf, Parameters), UsageError> {
    let name = if files.has(AVERAGE) { AVERAGE } else { MODEL };
    Ok((files.path(name), read_parameters(files, name)?))
}

/// The mean of the newest `k` checkpoints' parameters, and the newest of their steps.
fn mean_of_last(
    checkpoints: &Checkpoints,
    config: &RunConfig,
    k: usize,
) -> Result<(usize, Parameters), UsageError> {
    let steps = checkpoints.steps();
    if steps.len() < k {
        let what = format!(
            "has {} checkpoints, fewer than {k} (fit --keep)",
            steps.len()
        );
        return Err(wrong(checkpoints.folder(), what));
    }
    let mut sums = BTreeMap::<String, (Vec<usize>, Vec<f64>)>::new();
    for &step in &steps[steps.len() - k..] {
        let (_, files) = at_step(checkpoints, step)?;
        check_config(&files, config)?;
        for (name, data) in learned(&files)?.1 {
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
