use std::fs;
use std::path::PathBuf;

use burn::tensor::{Device, Int, Tensor};
use transformer::Transformer;

use super::*;
use crate::fit::Best;
use crate::run_folder::RunFolder;

fn save(config: &RunConfig, path: &Path, step: usize, seed: u64) {
    let model = config.model.init_seeded(seed, &Device::flex()).unwrap();
    let parameters = weights::to_bytes(&weights::parameters(&model)).unwrap();
    save_parameters(config, path, step, &parameters);
}

fn state(step: usize) -> Vec<u8> {
    let state = TrainingState {
        step,
        best: Some(Best {
            step: 9,
            value: 0.5,
        }),
        ..TrainingState::default()
    };
    serde_json::to_vec(&state).unwrap()
}

fn save_parameters(config: &RunConfig, path: &Path, step: usize, parameters: &[u8]) {
    let config = serde_json::to_vec(config).unwrap();
    let files = [
        (MODEL, parameters.to_vec()),
        (STATE, state(step)),
        (CONFIG, config),
    ];
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
    let fresh = fs::read(path.join("checkpoints/step-10").join(MODEL)).unwrap();
    for (name, value, other) in [
        ("d_ff", 3, 5),
        ("n_decoder_layers", 1, 2),
        ("d_model", 4, 8),
    ] {
        let field = |value| format!("\"{name}\": {value}");
        assert!(json.contains(&field(value)), "{json}");
        fs::write(&config, json.replace(&field(value), &field(other))).unwrap();
        let error = refused(&path);
        let differs = format!("was made with model.{name} {value}, but");
        assert!(error.contains(&differs), "{error}");
        // Somebody changed both.
        let changed: RunConfig = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
        save_parameters(&changed, &path, 11, &fresh);
        let error = refused(&path);
        assert!(
            error.contains("model.safetensors: does not fit the model of config.json: "),
            "{error}"
        );
        fs::remove_dir_all(path.join("checkpoints/step-11")).unwrap();
    }
    fs::write(&config, &json).unwrap();
    let config: RunConfig = serde_json::from_str(&json).unwrap();
    save_parameters(&config, &path, 11, &fresh);
    let mut parameters = parameters(&path, "last");
    let name = "decoder.layers.0.feed_forward.w_1.bias";
    parameters.insert(name.into(), TensorData::from([1.0, f32::NAN, 2.0]));
    save_parameters(&config, &path, 11, &weights::to_bytes(&parameters).unwrap());
    let error = refused(&path);
    assert!(
        error.contains(&format!("tensor {name} has numbers that are not finite")),
        "{error}"
    );
    save_parameters(
        &config,
        &path,
        12,
        b"something else, under a right checksum",
    );
    assert!(refused(&path).contains("is not a whole safetensors file"));
}

#[test]
fn the_mean_is_of_the_moving_averages_where_there_are_some() {
    let (_parent, path) = run();
    let json = fs::read(path.join(CONFIG)).unwrap();
    let config: RunConfig = serde_json::from_slice(&json).unwrap();
    let bytes = |seed| {
        let model = config.model.init_seeded(seed, &Device::flex()).unwrap();
        weights::to_bytes(&weights::parameters(&model)).unwrap()
    };
    for (step, seed) in [(11, 1), (12, 2)] {
        let files = [
            (MODEL, bytes(seed + 10)),
            (AVERAGE, bytes(seed)),
            (STATE, state(step)),
            (CONFIG, json.clone()),
        ];
        Checkpoints::of(&path).save(step, &files).unwrap();
    }
    // Steps 9 and 10 have these as their parameters.
    let averages = parameters(&path, "average:2");
    Checkpoints::of(&path).remove_after(10).unwrap();
    assert_eq!(averages, parameters(&path, "average:2"));
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
