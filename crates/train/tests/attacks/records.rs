//! Hostile settings, and hostile records of a run: its metrics, states and checkpoints.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use training::run::checkpoint::{Checkpoints, Content};

use super::damage::pointers;
use super::hostile::{Hostile, nested};

/// Returns values that are invalid or extreme for most settings and records.
fn values() -> Vec<Value> {
    vec![
        json!(u64::MAX),
        json!(1e300),
        json!(-1),
        json!(0),
        json!(null),
        json!("x".repeat(100_000)),
        json!([]),
    ]
}

/// Returns copies of the JSON file `good`, each with a different one of its numbers, texts, booleans
/// and nulls replaced.
///
/// Each entry has a description of the change, and the contents of the copy.
fn changed(good: &Value) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    pointers(good, "", &mut found);
    found.retain(|path| !matches!(good.pointer(path), Some(Value::Object(_) | Value::Array(_))));
    let mut all = Vec::new();
    for (index, pointer) in found.iter().enumerate() {
        let values = values();
        // The replacements are used in turn, one for each copy.
        let value = values[index % values.len()].clone();
        let mut text = value.to_string();
        text.truncate(30);
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).expect("it is there") = value;
        all.push((
            format!("{pointer} is {text}"),
            serde_json::to_vec(&bad).unwrap(),
        ));
    }
    all
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns path and contents of the two files of a checkpoint that depend on its state:
/// `manifest.json`, with correct checksums, and `state.json`, whose contents are `state`.
fn with_state(scene: &Path, state: Vec<u8>) -> Vec<(String, Vec<u8>)> {
    let good = scene.join("run/checkpoints/step-4");
    let names = "config.json model.safetensors average.safetensors optimizer.safetensors";
    let file = |name| (name, fs::read(good.join(name)).unwrap());
    let mut files: Vec<(&str, Vec<u8>)> = names.split(' ').map(file).collect();
    files.push(("state.json", state));
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = files
        .iter()
        .map(|(name, bytes)| (*name, Content::Bytes(bytes)))
        .collect();
    let saved = Checkpoints::of(folder.path()).save(4, &files).unwrap();
    let changed = ["manifest.json", "state.json"].into_iter();
    let read = |name| fs::read(saved.join(name)).unwrap();
    changed
        .map(|name| (format!("run/checkpoints/step-4/{name}"), read(name)))
        .collect()
}

/// Returns all hostile records and settings.
pub fn all(scene: &Path) -> Vec<Hostile> {
    let mut all = Vec::new();
    let deep = nested(100_000);
    let line = r#"{"step":1,"loss":1.5,"learning_rate":0.1,"gradient_norm":1.0,"tokens":8,"padding":0.0,"seconds":0.1,"tokens_per_second":10.0}"#;
    let metrics = [
        (
            "a field of 100,000 nested arrays",
            format!("{{\"step\":1,\"x\":{deep}}}\n"),
        ),
        (
            "a step of 2^64 - 1",
            line.replace(":1,", ":18446744073709551615,") + "\n",
        ),
        (
            "endless numbers",
            line.replace("1.5", "1e308").replace("0.1", "-1e308") + "\n",
        ),
        (
            "a line of 10 MB",
            format!("{{\"step\":1,\"x\":\"{}\"}}\n", "x".repeat(10_000_000)),
        ),
        (
            "steps that go back",
            format!("{}\n{line}\n", line.replace(":1,", ":9,")),
        ),
        ("NULs", "\0".repeat(5000)),
    ];
    for (what, text) in metrics {
        for command in "plot run|report run --examples 0|runs .|compare run text".split('|') {
            let bytes = text.clone();
            all.push(Hostile::new(what, "run/metrics.jsonl", bytes, command).or_success());
        }
    }
    for (name, command) in [
        ("status.json", "runs . --json"),
        ("summary.json", "report run --examples 0"),
        ("lengths.json", "plot run --only lengths"),
        ("environment.json", "report run --examples 0"),
    ] {
        let path = format!("run/{name}");
        for (what, bytes) in changed(&read(&scene.join(&path))) {
            all.push(Hostile::new(&what, &path, bytes, command).or_success());
        }
        all.push(Hostile::new("nested", &path, deep.clone(), command).or_success());
    }
    let config = read(&scene.join("run/config.json"));
    for (what, bytes) in changed(&config) {
        let path = "settings.json";
        let command = "fit --config settings.json --dry-run";
        let hostile = Hostile::new(&what, path, bytes.clone(), command).or_success();
        // An error about a setting names the flag or the path of the setting.
        let setting = what.split(' ').next().unwrap_or_default()[1..].replace('/', ".");
        all.push(hostile.or_naming("error: --").or_naming(&setting));
        let path = "run/config.json";
        all.push(Hostile::new(&what, path, bytes, "eval run").or_success());
    }
    let long_key = "a.".repeat(100_000) + "a";
    for (path, what, text) in [
        ("a.toml", "nested", format!("a = {deep}")),
        ("a.toml", "nested keys", format!("{long_key} = 1")),
        ("a.toml", "nested tables", format!("[{long_key}]\n")),
        (
            "a.toml",
            "an endless number",
            "[optimization]\nsteps = inf\n".into(),
        ),
        ("a.json", "nested", deep.clone()),
        (
            "a.json",
            "a number beyond all",
            r#"{"optimization":{"steps":1e999}}"#.into(),
        ),
    ] {
        let command = format!("fit --config {path} --dry-run");
        all.push(Hostile::new(what, path, text, &command));
    }
    let state = read(&scene.join("run/checkpoints/step-4/state.json"));
    for (what, bytes) in changed(&state) {
        for command in ["resume run --steps 6 --threads 1", "generate run"] {
            let mut files = with_state(scene, bytes.clone());
            let (path, state) = files.pop().expect("the state is the last");
            let hostile = Hostile::new(&what, &path, state, command).or_success();
            let hostile = hostile.or_naming("run/checkpoints: has no checkpoint");
            all.push(hostile.beside(files));
        }
    }
    all
}
