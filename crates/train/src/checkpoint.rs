//! A run read back: its settings, and the model of its newest checkpoint.

use std::fs;
use std::path::{Path, PathBuf};

use burn::module::{Module, ModuleVisitor, Param};
use burn::store::ModuleRecord;
use burn::tensor::{Bytes, Device, Tensor};
use transformer::Transformer;

use crate::config::RunConfig;
use crate::error::{UsageError, quote};
use crate::task::Task;

/// A run and what it has learned.
pub struct Trained {
    /// Its settings.
    pub config: RunConfig,
    /// Its task.
    pub task: Box<dyn Task>,
    /// The step of the checkpoint.
    pub step: usize,
    /// The model of that step.
    pub model: Transformer,
}

impl Trained {
    /// Reads the newest checkpoint of a run folder.
    ///
    /// # Errors
    ///
    /// A folder that is no run's, or whose files cannot be used; the message names the path.
    pub fn load(folder: &Path, device: &Device) -> Result<Self, UsageError> {
        let mut config = read_config(folder)?;
        let task = config
            .resolve()
            .map_err(|error| no_configuration(folder, &error.to_string()))?;
        let (step, path) = newest_checkpoint(folder)?;
        let model = config
            .model
            .init_seeded(config.seed, device)
            .map_err(|error| no_configuration(folder, &error.to_string()))?;
        Ok(Self {
            model: read_model(model, &path)?,
            config,
            task,
            step,
        })
    }
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

fn read_config(folder: &Path) -> Result<RunConfig, UsageError> {
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
    serde_json::from_slice(&json).map_err(|error| no_configuration(folder, &error.to_string()))
}

/// The largest step of `checkpoints/step-N`, and its model's file.
fn newest_checkpoint(folder: &Path) -> Result<(usize, PathBuf), UsageError> {
    let checkpoints = folder.join("checkpoints");
    let step = |entry: fs::DirEntry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("step-")?.parse::<usize>().ok()
    };
    let newest = fs::read_dir(&checkpoints)
        .ok()
        .and_then(|entries| entries.flatten().filter_map(step).max());
    let newest = newest.ok_or_else(|| {
        let what = "has no checkpoint step-N; wait until the run has saved one, or train again";
        wrong(&checkpoints, what)
    })?;
    let path = checkpoints.join(format!("step-{newest}/model.bpk"));
    Ok((newest, path))
}

fn read_model(model: Transformer, path: &Path) -> Result<Transformer, UsageError> {
    // All bytes at once: a record that reads its file later would fail later.
    let bytes = fs::read(path).map_err(|error| wrong(path, format!("cannot be read ({error})")))?;
    with_parameters(model, bytes).map_err(|what| wrong(path, what))
}

/// Puts the parameters of `model.bpk` into a model, or says what is wrong with them.
fn with_parameters(model: Transformer, bytes: Vec<u8>) -> Result<Transformer, String> {
    let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes))
        .map_err(|error| format!("is broken or cut off ({})", short(&error.to_string())))?;
    let model = model
        .try_load_record(record.cast_to_module_dtype())
        .map_err(|error| {
            let error = short(&error.to_string());
            format!("is not a model of config.json's shape ({error})")
        })?;
    if is_finite(&model) {
        Ok(model)
    } else {
        Err("is broken: it has parameters that are not finite numbers".into())
    }
}

fn is_finite(model: &Transformer) -> bool {
    struct Finite(bool);
    impl ModuleVisitor for Finite {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0 &= param.val().into_data().iter::<f32>().all(f32::is_finite);
        }
    }
    let mut finite = Finite(true);
    model.visit(&mut finite);
    finite.0
}

#[cfg(test)]
mod tests {
    use burn::tensor::Int;

    use super::*;
    use crate::run_folder::RunFolder;

    /// A run that has saved its fresh model after steps 9 and 10, the latter of another seed.
    fn run() -> (tempfile::TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let mut config = RunConfig::copy();
        config.model = config.model.with_d_model(4).with_d_ff(3);
        config.resolve().unwrap();
        let folder = RunFolder::create(Some(&path), &config).unwrap();
        let device = Device::flex().autodiff();
        for (seed, step) in [(1, 9), (2, 10)] {
            let model = config.model.init_seeded(seed, &device).unwrap();
            folder.save_model(&model, step).unwrap();
        }
        (parent, path)
    }

    fn load(path: &Path) -> Result<Trained, String> {
        Trained::load(path, &Device::flex()).map_err(|error| error.to_string())
    }

    fn refused(path: &Path) -> String {
        load(path).err().expect("it should be refused")
    }

    #[test]
    fn the_newest_checkpoint_is_read_to_the_last_bit() {
        let (_parent, path) = run();
        let checkpoints = path.join("checkpoints");
        fs::create_dir(checkpoints.join(".step-11.tmp")).unwrap();
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
        let model = path.join("checkpoints/step-10/model.bpk");
        fs::remove_file(model).unwrap();
        assert!(refused(&path).contains("step-10/model.bpk: cannot be read"));
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
                error.contains("model.bpk: is not a model of config.json's shape"),
                "{error}"
            );
        }
        fs::write(&config, &json).unwrap();
        let mut read = load(&path).unwrap();
        let bias = &mut read.model.decoder.layers[0].feed_forward.w_1.bias;
        *bias = bias.take().map(|bias| bias.map(|bias| bias / 0.0));
        let folder = path.join("checkpoints/step-10");
        fs::write(
            folder.join("model.bpk"),
            &read.model.into_record().into_bytes().unwrap()[..],
        )
        .unwrap();
        assert!(refused(&path).contains("not finite numbers"));
    }

    #[test]
    fn broken_models_are_refused_and_never_panic() {
        let (_parent, path) = run();
        let bytes = fs::read(path.join("checkpoints/step-10/model.bpk")).unwrap();
        let model = load(&path).unwrap().model;
        for length in (0..bytes.len()).step_by(97) {
            let error = with_parameters(model.clone(), bytes[..length].to_vec());
            let error = error.expect_err("it is cut off");
            assert!(error.starts_with("is broken or cut off"), "{error}");
        }
        // The header and the description of the tensors come first.
        let mut refused = 0;
        for place in (0..bytes.len().min(4096)).step_by(3) {
            let mut bytes = bytes.clone();
            bytes[place] ^= 0xff;
            refused += usize::from(with_parameters(model.clone(), bytes).is_err());
        }
        assert!(refused > 1000, "{refused}");
    }
}
