//! Damaged folders of Hugging Face models.
//!
//! The files have no checksums, so a command may read a changed model without an error. It must not
//! panic or run without end, and its error must say where the damage is.

use std::fs;
use std::path::Path;

use rand::RngExt;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use crate::attacks::damage::{damage, pointers};
use crate::attacks::program::Program;
use crate::attacks::rounds::{Random, make_attacks};
use crate::attacks::runs::copy;

const FAMILIES: [&str; 3] = ["bart", "m2m_100", "t5"];

const COMMANDS: [&str; 3] = [
    "generate model --max-length 8",
    "import model --run-dir run",
    "fit --from model --train pairs.tsv --valid pairs.tsv --steps 1 --run-dir run",
];

const LINES: &str = "w10 w17 w11\nw12\n";

/// Copies the fixture of a model family to the folder `model`, and writes pairs to train on.
fn prepare(folder: &Path, family: &str) {
    let fixtures = "../transformer/tests/fixtures/families";
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join(fixtures);
    copy(&fixtures.join(family), &folder.join("model"));
    fs::write(folder.join("pairs.tsv"), "w10 w17\tw10\nw12\tw12\n").unwrap();
}

/// Returns a value that is invalid in most places, or that demands much memory or time.
fn hostile_value(random: &mut Random) -> Value {
    let values = [
        json!(null),
        json!(true),
        json!(false),
        json!(-1),
        json!(0),
        json!(1),
        json!(3),
        json!(100_000),
        json!(4_294_967_295_u64),
        json!(u64::MAX),
        json!(0.5),
        json!(-1e300),
        json!(1e300),
        json!(""),
        json!("w10"),
        json!("..\\/\0"),
        json!([]),
        json!([-1, "x"]),
        json!(vec![0; 10_000]),
        json!({}),
        json!({"w10": 10}),
    ];
    values.choose(random).expect("it is not empty").clone()
}

/// Replaces a value of a JSON file, and returns a description.
fn replace_value(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let mut whole: Value = serde_json::from_slice(bytes).expect("a file of JSON");
    let mut paths = Vec::new();
    pointers(&whole, "", &mut paths);
    let path = paths.choose(random).expect("it has a value");
    let value = hostile_value(random);
    let how = format!("{path} set to {value:.60}");
    *whole.pointer_mut(path).expect("it was found") = value;
    *bytes = serde_json::to_vec(&whole).expect("it is JSON");
    how
}

fn attack(case: u64, random: &mut Random) -> Result<&'static str, String> {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let family = FAMILIES[case as usize % FAMILIES.len()];
    prepare(folder, family);
    let names = [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "model.safetensors",
    ];
    // More than half of the attacks are on the configuration, which has the most settings.
    let name = if random.random() {
        names[0]
    } else {
        names.choose(random).expect("it is not empty")
    };
    let path = folder.join("model").join(name);
    let mut bytes = fs::read(&path).unwrap();
    let how = if name.ends_with(".json") && random.random_range(0..4) > 0 {
        replace_value(&mut bytes, random)
    } else {
        damage(&mut bytes, random)
    };
    fs::write(&path, bytes).unwrap();
    let command = COMMANDS.choose(random).expect("it is not empty");
    let answer = Program::new(folder, command).reading(LINES).run();
    let wrong = |what: String| format!("{family}, {name}: {how}\n    {what}");
    answer.check().map_err(wrong)?;
    // The error may name any of the files, because two files can contradict each other. Instead of
    // a file, it may name a tensor, or say that outputs are not finite.
    let words = [&names[..], &["has no tensor", "has a tensor", "not finite"]].concat();
    match answer.code {
        Some(0) => Ok("a model"),
        _ if answer.names(&words) => Ok("an error that says where"),
        _ => Err(wrong(answer.fault("the error does not say where"))),
    }
}

#[test]
fn damaged_folders_of_pretrained_models_are_noticed_or_give_a_model() {
    make_attacks("folders", 80, attack);
}
