//! Text, from files to BLEU: the program learns a language of the project's own.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use flate2::read::GzDecoder;
use serde_json::Value;
use train::text::pseudo_corpus;

const FIXTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/pseudo_language"
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

/// The generator still speaks the language of the files.
#[test]
fn the_corpus_is_the_generators() {
    for (name, seed, pairs) in [("train", 0, 4000), ("valid", 1, 200), ("test", 2, 200)] {
        let read = |side: &str| {
            let file = fs::File::open(path(&format!("{name}.{side}.gz"))).unwrap();
            std::io::read_to_string(GzDecoder::new(file)).unwrap()
        };
        let generated = pseudo_corpus(seed, pairs);
        for (side, text) in ["source", "target"].into_iter().zip(generated) {
            let file = read(side);
            for (number, (line, generated)) in (1..).zip(file.lines().zip(text.lines())) {
                assert_eq!(line, generated, "{name}.{side}, line {number}");
            }
            assert!(file == text, "{name}.{side} has another end");
        }
    }
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
