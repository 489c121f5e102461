//! Trains on an invented language, and checks with BLEU that the model learns to translate it.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

const FIXTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../training/tests/fixtures/pseudo_language"
);

fn train(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::cargo_bin("train").unwrap();
    let output = command
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn path(name: &str) -> String {
    format!("{FIXTURE}/{name}")
}

#[test]
fn a_language_is_learned() {
    let folder = tempfile::tempdir().unwrap();
    let [source, target, valid_source, valid_target] = [
        "train.source.gz",
        "train.target.gz",
        "valid.source.gz",
        "valid.target.gz",
    ]
    .map(path);
    let flags = [
        "--train-source",
        &source,
        "--train-target",
        &target,
        "--valid-source",
        &valid_source,
        "--valid-target",
        &valid_target,
    ];
    let settings = [
        "fit",
        "--task",
        "text",
        "--preset",
        "tiny",
        "--run-dir",
        "run",
    ];
    train(folder.path(), &[&settings[..], &flags].concat());
    let test = [path("test.source.gz"), path("test.target.gz")];
    let arguments = [
        "eval", "run", "--json", "--source", &test[0], "--target", &test[1],
    ];
    for beam in ["1", "5"] {
        let evaluation = train(folder.path(), &[&arguments[..], &["--beam", beam]].concat());
        let evaluation: Value = serde_json::from_str(&evaluation).unwrap();
        let bleu = evaluation["bleu"].as_f64().unwrap();
        assert!(bleu >= 90.0, "{evaluation}");
    }
}
