//! Tests that write runs and read them back.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Int, Tensor, TensorData};
use serde_json::{Value, json};
use transformer::Transformer;
use transformer::weights::{self, Parameters};

use super::checkpoint::{
    AVERAGE, CONFIG, CheckpointSelector, Checkpoints, Content, MODEL, STATE, TrainedRun, load_model,
};
use super::folder::RunFolder;
use super::state::{Best, TrainingState};
use crate::config::{BestBy, RunConfig};
use crate::tests::assert_has;

fn save(config: &RunConfig, path: &Path, step: usize, seed: u64) {
    let model = config.model.init_seeded(seed, &Device::flex()).unwrap();
    let parameters = weights::to_bytes(&weights::parameters(&model)).unwrap();
    save_parameters(config, path, step, &parameters);
}

fn state(step: usize) -> Vec<u8> {
    let state = TrainingState {
        step,
        best: Some(Best {
            by: BestBy::Loss,
            step: 9,
            value: 0.5,
            loss: 0.5,
        }),
        ..TrainingState::default()
    };
    serde_json::to_vec(&state).unwrap()
}

fn save_parameters(config: &RunConfig, path: &Path, step: usize, parameters: &[u8]) {
    let (config, state) = (serde_json::to_vec(config).unwrap(), state(step));
    let files = [
        (MODEL, Content::Bytes(parameters)),
        (STATE, Content::Bytes(&state)),
        (CONFIG, Content::Bytes(&config)),
    ];
    Checkpoints::of(path).save(step, &files).unwrap();
}

/// Creates a run with checkpoints of steps 9 and 10. Their models are untrained, and initialised
/// with the seeds 1 and 2.
fn run() -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let mut config = RunConfig::copy();
    config.model = config.model.with_d_model(4).with_d_ff(3);
    config.check().unwrap();
    RunFolder::create(Some(&path), &config).unwrap();
    for (seed, step) in [(1, 9), (2, 10)] {
        save(&config, &path, step, seed);
    }
    (parent, path)
}

fn load_selected(path: &Path, selector: &str) -> Result<TrainedRun, String> {
    let selector = selector.parse()?;
    TrainedRun::load_selected(path, selector, &Device::flex()).map_err(|error| error.to_string())
}

fn load(path: &Path) -> Result<TrainedRun, String> {
    load_selected(path, "last")
}

fn error_of(path: &Path) -> String {
    load(path).err().expect("the run cannot be loaded")
}

fn parameters(path: &Path, selector: &str) -> Parameters {
    weights::parameters(&load_selected(path, selector).unwrap().model)
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
        model.forward(ids(), None, ids()).into_data()
    };
    assert_eq!(logits(&trained.model), logits(&saved));
    fs::remove_dir_all(checkpoints.join("step-10")).unwrap();
    let older = load(&path).unwrap();
    assert_eq!(older.step, 9);
    assert_ne!(logits(&older.model), logits(&saved));
}

#[test]
fn incomplete_checkpoints_and_those_of_another_step_are_skipped() {
    let (_parent, path) = run();
    let checkpoints = path.join("checkpoints");
    let config = fs::read(checkpoints.join("step-10").join(CONFIG)).unwrap();
    let of_eleven = state(11);
    let files = [
        (STATE, Content::Bytes(&of_eleven)),
        (CONFIG, Content::Bytes(&config)),
    ];
    Checkpoints::of(&path).save(11, &files).unwrap();
    assert_eq!(load(&path).unwrap().step, 10);
    let error = load_selected(&path, "11").err().unwrap();
    assert!(error.ends_with("model.safetensors is missing"), "{error}");
    fs::rename(checkpoints.join("step-10"), checkpoints.join("step-12")).unwrap();
    assert_eq!(load(&path).unwrap().step, 9);
    let error = load_selected(&path, "12").err().unwrap();
    let expected = "state.json is of step 10, but its folder says 12";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn errors_say_whether_checkpoints_are_missing_or_damaged() {
    let (_parent, path) = run();
    let checkpoints = path.join("checkpoints");
    for step in ["step-9", "step-10"] {
        fs::write(checkpoints.join(step).join(MODEL), "x").unwrap();
    }
    assert_has(&error_of(&path), &["model.safetensors: "]);
    fs::remove_dir_all(&checkpoints).unwrap();
    let expected = "checkpoints: has no checkpoint step-N; train again, or wait for the first";
    assert_has(&error_of(&path), &[expected]);
    fs::write(&checkpoints, "x").unwrap();
    let error = error_of(&path);
    assert!(error.ends_with("checkpoints: is not a folder"), "{error}");
}

#[test]
fn the_selected_checkpoint_is_read() {
    let (_parent, path) = run();
    let [nine, ten] = ["9", "10"].map(|step| parameters(&path, step));
    assert_ne!(nine, ten);
    assert_eq!(parameters(&path, "last"), ten);
    assert_eq!(parameters(&path, "best"), nine);
    let device = Device::flex();
    assert_eq!(TrainedRun::load(&path, &device).unwrap().step, 9);
    for (name, mean) in parameters(&path, "average:2") {
        let both = nine[&name].iter::<f64>().zip(ten[&name].iter::<f64>());
        for (mean, (a, b)) in mean.iter::<f64>().zip(both) {
            assert!((mean - (a + b) / 2.0).abs() < 1e-7, "{name}");
        }
    }
    let error = load_selected(&path, "7").err().unwrap();
    assert_has(&error, &["has no checkpoint of step 7, only of 9, 10"]);
    let error = load_selected(&path, "average:3").err().unwrap();
    assert_has(&error, &["has the newest 2 checkpoints, fewer than 3"]);
    for wrong in ["", "first", "average:0", "average:", "mean:2", "-1"] {
        let error = load_selected(&path, wrong).err().unwrap();
        assert_has(&error, &["must be best, last"]);
    }
}

#[test]
fn folders_without_a_run_say_what_is_missing() {
    let (parent, path) = run();
    let none = error_of(&parent.path().join("none"));
    assert_has(&none, &["none: does not exist; name the folder"]);
    assert_has(&error_of(parent.path()), &["has no config.json"]);
    let config = path.join("config.json");
    assert_has(&error_of(&config), &["config.json: is not a folder"]);

    let json = fs::read_to_string(&config).unwrap();
    let (half, other) = (&json[..json.len() / 2], json.replace("copy", "fly"));
    for broken in ["", "{}", "[1", "[1]", half, &other] {
        fs::write(&config, broken).unwrap();
        let error = error_of(&path);
        assert_has(&error, &["config.json: "]);
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    fs::write(&config, json.replace("\"n_heads\": 2", "\"n_heads\": 3")).unwrap();
    assert_has(&error_of(&path), &["model.n_heads 3"]);

    fs::write(&config, json).unwrap();
    assert!(load(&path).is_ok());
    fs::remove_dir_all(path.join("checkpoints")).unwrap();
    assert_has(&error_of(&path), &["checkpoints: has no checkpoint"]);
}

#[test]
fn models_of_other_runs_are_rejected() {
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
        let differs = format!("was made with model.{name} {value}, but");
        assert_has(&error_of(&path), &[&differs]);
        // This saves a checkpoint with the changed configuration and the old parameters. The
        // checkpoint no longer differs from `config.json`, but the parameters do not fit the
        // changed model.
        let changed: RunConfig = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
        save_parameters(&changed, &path, 11, &fresh);
        let expected = "model.safetensors: does not fit the model of config.json: ";
        assert_has(&error_of(&path), &[expected]);
        fs::remove_dir_all(path.join("checkpoints/step-11")).unwrap();
    }
    fs::write(&config, &json).unwrap();
    let config: RunConfig = serde_json::from_str(&json).unwrap();
    save_parameters(&config, &path, 11, &fresh);
    let mut parameters = parameters(&path, "last");
    let name = "decoder.layers.0.feed_forward.w_1.bias";
    parameters.insert(name.into(), TensorData::from([1.0, f32::NAN, 2.0]));
    save_parameters(&config, &path, 11, &weights::to_bytes(&parameters).unwrap());
    let expected = format!("tensor {name} has numbers that are not finite");
    assert_has(&error_of(&path), &[&expected]);
    save_parameters(
        &config,
        &path,
        12,
        b"something else, under a right checksum",
    );
    assert_has(&error_of(&path), &["is not a whole safetensors file"]);
}

#[test]
fn an_average_of_no_checkpoints_is_an_error() {
    let (_parent, path) = run();
    let config: RunConfig = serde_json::from_slice(&fs::read(path.join(CONFIG)).unwrap()).unwrap();
    let none = CheckpointSelector::Average(0);
    let loaded = load_model(&path, &config, none, &Device::flex());
    assert_has(&loaded.err().unwrap(), &["at least one checkpoint"]);
}

#[test]
fn settings_that_the_checkpoint_depends_on_are_fixed() {
    let (_parent, path) = run();
    let json = fs::read(path.join(CONFIG)).unwrap();
    let run: Value = serde_json::from_slice(&json).unwrap();
    let load = |changes: &[(&str, Value)]| {
        let mut config = run.clone();
        for (setting, value) in changes {
            let pointer = format!("/{}", setting.replace('.', "/"));
            *config.pointer_mut(&pointer).expect("it is there") = value.clone();
        }
        let config: RunConfig = serde_json::from_value(config).unwrap();
        load_model(&path, &config, CheckpointSelector::Last, &Device::flex())
            .map(|(step, _)| step)
            .map_err(|error| error.to_string())
    };
    for (setting, value) in [
        ("data.symbols", json!(7)),
        ("model.dropout", json!(0.5)),
        ("seed", json!(9)),
        ("optimization.batch_size", json!(9)),
        ("optimization.accumulate", json!(9)),
        ("optimization.optimizer.clip_norm", json!(0.5)),
        ("optimization.ema", json!(0.5)),
        ("optimization.label_smoothing", json!(0.5)),
        ("optimization.lora", json!({"rank": 1, "alpha": 1.0})),
        ("evaluation.best_by", json!("exact_match")),
        ("evaluation.validation_size", json!(9)),
        ("execution.precision", json!("bf16")),
        ("execution.fused", json!(false)),
        ("execution.loss_chunk", json!(9)),
    ] {
        let expected = format!("step-10/config.json: was made with {setting} ");
        let says = format!("says {value}: ");
        assert_has(&load(&[(setting, value)]).unwrap_err(), &[&expected, &says]);
    }
    let free = [
        ("optimization.steps", json!(9)),
        ("optimization.epochs", json!(3)),
        ("optimization.schedule.warmup", json!(9)),
        ("evaluation.test_size", json!(9)),
        ("checkpointing.keep", json!(9)),
        ("execution.backend", json!("ndarray")),
        ("execution.gradient_checkpointing", json!(true)),
    ];
    assert_eq!(load(&free), Ok(10));
}

#[test]
fn the_mean_uses_moving_averages_if_the_run_has_them() {
    let (_parent, path) = run();
    let json = fs::read(path.join(CONFIG)).unwrap();
    let config: RunConfig = serde_json::from_slice(&json).unwrap();
    let of_seed = |seed| {
        let model = config.model.init_seeded(seed, &Device::flex()).unwrap();
        weights::parameters(&model)
    };
    for (step, seed) in [(11, 1), (12, 2)] {
        let (other, state) = (of_seed(seed + 10), state(step));
        let average = of_seed(seed);
        let files = [
            (MODEL, Content::Parameters(&other)),
            (AVERAGE, Content::Parameters(&average)),
            (STATE, Content::Bytes(&state)),
            (CONFIG, Content::Bytes(&json)),
        ];
        Checkpoints::of(&path).save(step, &files).unwrap();
    }
    // The parameters at steps 9 and 10 equal the moving averages at steps 11 and 12.
    let averages = parameters(&path, "average:2");
    Checkpoints::of(&path).remove_after(10).unwrap();
    assert_eq!(averages, parameters(&path, "average:2"));
}

#[test]
fn flipped_bits_are_detected() {
    let (_parent, path) = run();
    let model = path.join("checkpoints/step-10/model.safetensors");
    let bytes = fs::read(&model).unwrap();
    for place in (0..bytes.len()).step_by(bytes.len() / 9) {
        let mut bytes = bytes.clone();
        bytes[place] ^= 1;
        fs::write(&model, bytes).unwrap();
        assert_eq!(load(&path).unwrap().step, 9, "byte {place}");
        let error = load_selected(&path, "10").err().unwrap();
        assert_has(&error, &["model.safetensors differs from its SHA-256"]);
    }
}
