//! Control characters of hostile names and files, which no output has as they are.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::pretrained::family;
use super::task::train_copy;
use super::{Folder, copy_files, json, train};

/// A text that would colour, clear and rename a terminal, and begin a line of its own.
const HOSTILE: &str = "x\u{1b}[31m\u{9b}2J\u{7}\u{7f}\u{1b}]0;y\u{9c}\r\nINJECTED: ";

/// Whether a text has control characters other than line breaks.
fn is_raw(text: &str) -> bool {
    text.contains(|c: char| c.is_control() && c != '\n')
}

/// Runs a command on a hostile folder, and checks what it prints.
fn check(folder: &Path, line: &str) {
    let words = Vec::from_iter(line.split(' ').map(|word| word.replace("RUN", HOSTILE)));
    let mut command = train(folder);
    let output = command.args(&words).write_stdin("1 2\n").output().unwrap();
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(stream.clone()).unwrap();
        let is_injected = text.contains("\nINJECTED");
        assert!(!is_raw(&text) && !is_injected, "{words:?}: {text:?}");
    }
    assert!(
        output.status.code().is_some_and(|code| code <= 2),
        "{words:?}"
    );
}

/// Makes every text of a JSON value hostile, except those below one of `kept`.
fn poison(value: &mut Value, kept: &[&str]) {
    match value {
        Value::String(text) => *text += HOSTILE,
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, kept)),
        Value::Object(fields) => {
            let others = fields
                .iter_mut()
                .filter(|(name, _)| !kept.contains(&name.as_str()));
            others.for_each(|(_, field)| poison(field, kept));
        }
        _ => {}
    }
}

const COMMANDS: &str = "runs .
runs . --json
runs RUN
compare RUN other
compare RUN other --json
report RUN other --output page.html
plot RUN
eval RUN
eval RUN --json
generate RUN
generate RUN --json
tokenize RUN
resume RUN
fit --config RUN/config.json --dry-run
fit --config RUN/config.json --run-dir RUN/new/RUN
fit --task text --train RUN/a --valid RUN/b
inspect RUN
inspect RUN/checkpoints/step-12/model.safetensors
export RUN --layout torch-nn --output RUN.safetensors
export RUN --layout torch-nn --folder RUN-folder
import RUN --run-dir imported
fit --from RUN --train RUN/a --valid RUN/b --steps 1
score RUN/config.json RUN/status.json
presets RUN";

#[test]
fn no_output_has_the_control_characters_of_a_hostile_run() {
    let folder = &Folder::new();
    train_copy(folder, "run", "--eval-lengths 2,4");
    train_copy(folder, "other", "--seed 7");
    let path = folder.join(HOSTILE);
    fs::rename(folder.join("run"), &path).unwrap();
    let check_all = || {
        COMMANDS.lines().for_each(|line| check(folder, line));
    };
    check_all();
    let mut status = json(&path.join("status.json"));
    status["status"] = "stopped".into();
    poison(&mut status, &["status"]);
    let mut environment = json(&path.join("environment.json"));
    poison(&mut environment, &[]);
    fs::write(path.join("status.json"), status.to_string()).unwrap();
    fs::write(path.join("environment.json"), environment.to_string()).unwrap();
    check_all();
    let config = json(&path.join("config.json"));
    let [mut unknown, mut value, mut task] = [config.clone(), config.clone(), config];
    unknown["optimization"][HOSTILE] = 1.into();
    value["model"]["positions"] = HOSTILE.into();
    task["data"]["task"] = HOSTILE.into();
    for config in [
        unknown,
        value,
        task,
        json!({HOSTILE: HOSTILE}),
        json!(HOSTILE),
    ] {
        fs::write(path.join("config.json"), config.to_string()).unwrap();
        check_all();
    }
    for file in ["page.html", "other/pictures/loss.svg"] {
        assert!(
            !is_raw(&fs::read_to_string(folder.join(file)).unwrap()),
            "{file}"
        );
    }
    let pictures = fs::read_dir(path.join("pictures")).unwrap();
    for picture in pictures {
        let path = picture.unwrap().path();
        assert!(!is_raw(&String::from_utf8_lossy(&fs::read(path).unwrap())));
    }
}

#[test]
fn no_output_has_the_control_characters_of_a_hostile_pretrained_model() {
    let folder = &Folder::new();
    let path = folder.join(HOSTILE);
    let commands = [
        "generate RUN",
        "import RUN --run-dir imported",
        "inspect RUN/model.safetensors",
    ];
    for name in ["config.json", "generation_config.json", "tokenizer.json"] {
        for poisons in [false, true] {
            copy_files(family("bart"), &path);
            let mut value = json(&path.join(name));
            value[HOSTILE] = HOSTILE.into();
            if poisons {
                poison(&mut value, &["model_type"]);
            }
            fs::write(path.join(name), value.to_string()).unwrap();
            for line in commands {
                check(folder, line);
            }
            fs::remove_dir_all(folder.join("imported")).unwrap_or_default();
        }
    }
}
