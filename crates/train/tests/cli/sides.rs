//! Separate settings for sources and targets in `train fit --task text`.

use std::fs;

use serde_json::{Value, json};

use super::text_task::{corpus, fit};
use super::{Folder, answer, fails_after_notes, output, parsed, rows, run, succeed, text};

#[test]
fn each_side_has_its_own_lengths_and_vocabulary() {
    let folder = &Folder::new();
    let flags = corpus(folder, 200);
    let with = |more: &str| format!("{flags} {more}");
    let config = |name: &str| -> Value { super::json(&folder.join(name).join("config.json")) };
    let sides = "--vocab-size 300,280 --max-length 90,60 --overlong cut";
    succeed(&fit(folder, "sides", 2, &with(sides)));
    let found = config("sides");
    assert_eq!(found["model"]["source_vocab_size"], 300);
    assert_eq!(found["model"]["target_vocab_size"], 280);
    assert_eq!(found["model"]["max_len"], 91);
    assert_eq!(
        found["data"]["max_length"],
        json!({"source": 90, "target": 60})
    );
    let stderr = text(&fit(folder, "again", 2, &with("--max-length 256,3")).stderr);
    let expected = "with a source of more than 256 tokens or a target of more than 3: skipped";
    assert!(stderr.contains(expected), "{stderr}");

    let table = "
        --max-length 0,9 | --max-length 0,9
        --vocab-size 300,3 | --vocab-size 300,3
        --vocab-size 9,300 | --vocab-size 9,300
        --vocab-size 300,299 --joint-vocabulary | --vocab-size 300,299
        --joint-vocabulary --source-tokenizer-file first/source.tokenizer.json | same file for both sides
        --max-length 2,1 | no pair of at most
        --max-length x | --max-length x
        --max-length 3, | --max-length";
    for (more, expected) in rows(table) {
        fails_after_notes(&fit(folder, "wrong", 2, &with(more)), &expected);
    }
}

#[test]
fn each_side_has_its_own_padding() {
    let folder = &Folder::new();
    let flags = format!("{} --vocab-size 400,280", corpus(folder, 200));
    succeed(&fit(folder, "first", 2, &flags));
    // A source tokeniser without a padding token gets one as its last token. The id of this token,
    // 400, is larger than all ids of targets.
    let json = fs::read_to_string(folder.join("first/source.tokenizer.json")).unwrap();
    fs::write(folder.join("mine.json"), json.replace("<pad>", "<none>")).unwrap();
    let flags = format!("{flags} --source-tokenizer-file mine.json");
    succeed(&fit(folder, "run", 20, &flags));
    let config = super::json(&folder.join("run/config.json"));
    assert_eq!(config["model"]["pad_id"], 400);
    assert_eq!(config["model"]["target_vocab_size"], 280);
    // Padding changes nothing: a line has the same output alone and in a batch.
    for flags in ["", "--beam 3", "--score"] {
        let input = match flags {
            "--score" => {
                let files = ["source", "target"]
                    .map(|side| fs::read_to_string(folder.join(format!("valid.{side}"))).unwrap());
                let pairs = files[0].lines().zip(files[1].lines());
                pairs
                    .map(|(source, target)| format!("{source}\t{target}\n"))
                    .collect()
            }
            _ => fs::read_to_string(folder.join("valid.source")).unwrap(),
        };
        let generate = |size: &str| {
            let line = format!("generate run --batch-size {size} {flags}");
            succeed(&answer(folder, &line, input.clone()))
        };
        let (together, alone) = (generate("20"), generate("1"));
        if flags == "--score" {
            for (a, b) in together.lines().zip(alone.lines()) {
                let (a, b): (f64, f64) = (a.parse().unwrap(), b.parse().unwrap());
                assert!((a - b).abs() < 1e-3, "{a} {b}");
            }
            continue;
        }
        assert_eq!(together, alone, "{flags}");
    }
    let summary = super::json(&folder.join("run/summary.json"));
    let evaluation = parsed(folder, "eval run --json");
    let loss = |value: &Value, name: &str| value[name].as_f64().unwrap();
    let difference = loss(&evaluation, "loss") - loss(&summary, "valid_loss");
    assert!(difference.abs() < 1e-4, "{difference}");
}

#[test]
fn the_tiny_preset_is_not_advised_to_who_uses_it() {
    let folder = &Folder::new();
    let flags = corpus(folder, 50);
    let warning = |more: &str| {
        let output = output(folder, &format!("fit --task text --steps 2 {flags} {more}"));
        let stderr = text(&output.stderr);
        let mut lines = stderr.lines().map(String::from);
        lines
            .find(|line| line.starts_with("warning: "))
            .expect("a warning")
    };
    assert!(warning("--d-ff 8 --layers 1").contains("--preset tiny"));
    let line = format!("fit --steps 2 --preset tiny {flags} --run-dir run");
    run(folder, &line);
    let resumed = text(&output(folder, "resume run --steps 3").stderr);
    assert!(resumed.contains("rises for the whole run of 3 steps"));
    let again = output(folder, "fit --config run/config.json --run-dir again");
    assert!(!text(&again.stderr).contains("--preset"));
    let warning = warning("--preset tiny");
    assert!(
        warning.contains("--warmup 200") && !warning.contains("--preset"),
        "{warning}"
    );
}
