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
    let infinite = |data: &TensorData| data.iter::<f32>().any(|x| !x.is_finite());
    if let Some((name, _)) = parameters.iter().find(|(_, data)| infinite(data)) {
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
mod tests {
    use std::path::PathBuf;

    use burn::tensor::{Int, Tensor};

    use super::*;
    use crate::fit::Best;
    use crate::run_folder::RunFolder;

    fn save(config: &RunConfig, path: &Path, step: usize, seed: u64) {
        let model = config.model.init_seeded(seed, &Device::flex()).unwrap();
        let parameters = weights::to_bytes(&weights::parameters(&model)).unwrap();
        let state = TrainingState {
            step,
            best: Some(Best {
                step: 9,
                value: 0.5,
            }),
            ..TrainingState::default()
        };
        let state = serde_json::to_vec(&state).unwrap();
        let files = [(MODEL, parameters), (STATE, state)];
        Checkpoints::of(path).save(step, &files).unwrap();
    }

    /// A run that has saved its fresh model after steps 9 and 10, the latter of another seed.
    fn run() -> (tempfile::TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let mut config = RunConfig::copy();
        config.model = config.model.with_d_model(4).with_d_ff(3);
        config.resolve().unwrap();
        RunFolder::create(Some(&path), &config).unwrap();
        for (seed, step) in [(1, 9), (2, 10)] {
            save(&config, &path, step, seed);
        }
        (parent, path)
    }

    fn load_which(path: &Path, which: &str) -> Result<Trained, String> {
        let which = which.parse()?;
        Trained::load_which(path, which, &Device::flex()).map_err(|error| error.to_string())
    }

    fn load(path: &Path) -> Result<Trained, String> {
        load_which(path, "last")
    }

    fn refused(path: &Path) -> String {
        load(path).err().expect("it should be refused")
    }

    fn parameters(path: &Path, which: &str) -> Parameters {
        weights::parameters(&load_which(path, which).unwrap().model)
    }

    #[test]
    fn the_newest_checkpoint_is_read_to_the_last_bit() {
        let (_parent, path) = run();
        let checkpoints = path.join("checkpoints");
        fs::create_dir(checkpoints.join(".step-11.new")).unwrap();
        fs::create_dir(checkpoints.join("step-x")).unwrap();
        let trained = load(&path).unwrap();
        assert_eq!(trained.step, 10);
        let device = Device::flex();
        let saved = trained.config.model.init_seeded(2, &device).unwrap();
        let logits = |model: &Transformer| {
            let ids = || Tensor::<2, Int>::from_data([[5, 6, 7]], &device);
            model.forward(ids(), ids()).into_data()
        };
        assert_eq!(logits(&trained.model), logits(&saved));
        fs::remove_dir_all(checkpoints.join("step-10")).unwrap();
        let older = load(&path).unwrap();
        assert_eq!(older.step, 9);
        assert_ne!(logits(&older.model), logits(&saved));
    }

    #[test]
    fn another_checkpoint_is_read_on_request() {
        let (_parent, path) = run();
        let [nine, ten] = ["9", "10"].map(|step| parameters(&path, step));
        assert_ne!(nine, ten);
        assert_eq!(parameters(&path, "last"), ten);
        assert_eq!(parameters(&path, "best"), nine);
        for (name, mean) in parameters(&path, "average:2") {
            let both = nine[&name].iter::<f64>().zip(ten[&name].iter::<f64>());
            for (mean, (a, b)) in mean.iter::<f64>().zip(both) {
                assert!((mean - (a + b) / 2.0).abs() < 1e-7, "{name}");
            }
        }
        let error = load_which(&path, "7").err().unwrap();
        assert!(
            error.ends_with("has no checkpoint of step 7, only of 9, 10"),
            "{error}"
        );
        let error = load_which(&path, "average:3").err().unwrap();
        assert!(error.contains("has 2 checkpoints, fewer than 3"), "{error}");
        for wrong in ["", "first", "average:0", "average:", "mean:2", "-1"] {
            assert!(
                load_which(&path, wrong)
                    .err()
                    .unwrap()
                    .contains("must be last, best")
            );
        }
    }

    #[test]
    fn folders_that_are_no_run_say_what_is_missing() {
        let (parent, path) = run();
        let none = refused(&parent.path().join("none"));
        assert!(
            none.contains("none: does not exist; name the folder"),
            "{none}"
        );
        assert!(refused(parent.path()).contains("has no config.json"));
        let config = path.join("config.json");
        let error = refused(&config);
        assert!(error.contains("config.json: is not a folder"), "{error}");

        let json = fs::read_to_string(&config).unwrap();
        for broken in [
            "",
            "{}",
            "[1",
            &json.replace("copy", "fly"),
            &json[..json.len() / 2],
        ] {
            fs::write(&config, broken).unwrap();
            let error = refused(&path);
            assert!(
                error.contains("config.json: is not the configuration of a run ("),
                "{error}"
            );
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        fs::write(&config, json.replace("\"n_heads\": 2", "\"n_heads\": 3")).unwrap();
        assert!(refused(&path).contains("--heads 3: must be a divisor"));

        fs::write(&config, json).unwrap();
        assert!(load(&path).is_ok());
        fs::remove_dir_all(path.join("checkpoints")).unwrap();
        assert!(refused(&path).contains("checkpoints: has no checkpoint"));
    }

    #[test]
    fn models_that_are_not_the_runs_are_refused() {
        let (_parent, path) = run();
        let config = path.join("config.json");
        let json = fs::read_to_string(&config).unwrap();
        for (name, value, other) in [
            ("d_ff", 3, 5),
            ("n_decoder_layers", 1, 2),
            ("d_model", 4, 8),
        ] {
            let field = |value| format!("\"{name}\": {value}");
            assert!(json.contains(&field(value)), "{json}");
            fs::write(&config, json.replace(&field(value), &field(other))).unwrap();
            let error = refused(&path);
            assert!(
                error.contains("model.safetensors: does not fit the model of config.json: "),
                "{error}"
            );
        }
        fs::write(&config, &json).unwrap();
        let mut parameters = parameters(&path, "last");
        let name = "decoder.layers.0.feed_forward.w_1.bias";
        parameters.insert(name.into(), TensorData::from([1.0, f32::NAN, 2.0]));
        let files = [(MODEL, weights::to_bytes(&parameters).unwrap())];
        Checkpoints::of(&path).save(11, &files).unwrap();
        let error = refused(&path);
        assert!(
            error.contains(&format!("tensor {name} has numbers that are not finite")),
            "{error}"
        );
        let files = [(MODEL, b"something else, under a right checksum".to_vec())];
        Checkpoints::of(&path).save(12, &files).unwrap();
        assert!(refused(&path).contains("is not a whole safetensors file"));
    }

    #[test]
    fn flipped_bits_are_noticed() {
        let (_parent, path) = run();
        let model = path.join("checkpoints/step-10/model.safetensors");
        let bytes = fs::read(&model).unwrap();
        for place in (0..bytes.len()).step_by(bytes.len() / 9) {
            let mut bytes = bytes.clone();
            bytes[place] ^= 1;
            fs::write(&model, bytes).unwrap();
            assert_eq!(load(&path).unwrap().step, 9, "byte {place}");
            let error = load_which(&path, "10").err().unwrap();
            assert!(
                error.contains("model.safetensors: differs from its SHA-256"),
                "{error}"
            );
        }
    }
}
