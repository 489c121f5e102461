//! `train fit --task text`, as a user types it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Output;

use flate2::Compression;
use flate2::write::GzEncoder;
use train::text::pseudo_language;

use super::{json, refused, succeed, text, train};

/// A small corpus in two files a split, and its flags.
fn corpus(folder: &Path, pairs: u64) -> Vec<String> {
    let mut flags = Vec::new();
    for (split, seed, pairs) in [("train", 0, pairs), ("valid", 1, 20)] {
        let (mut sources, mut targets) = (String::new(), String::new());
        for index in 0..pairs {
            let pair = pseudo_language(seed, index);
            sources += &(pair.source + "\n");
            targets += &(pair.target + "\n");
        }
        for (side, text) in [("source", sources), ("target", targets)] {
            fs::write(folder.join(format!("{split}.{side}")), text).unwrap();
            flags.extend([format!("--{split}-{side}"), format!("{split}.{side}")]);
        }
    }
    flags
}

/// A model of no use.
const TINY: [&str; 13] = [
    "fit",
    "--task",
    "text",
    "--preset",
    "tiny",
    "--d-model",
    "16",
    "--heads",
    "2",
    "--layers",
    "1",
    "--d-ff",
    "16",
];

/// Trains it for some steps.
fn fit(folder: &Path, run: &str, steps: &str, flags: &[impl AsRef<str>]) -> Output {
    let mut command = train(folder);
    command
        .args(TINY)
        .args(["--run-dir", run, "--steps", steps]);
    command.args(flags.iter().map(AsRef::as_ref));
    command.output().unwrap()
}

fn gzip(path: &Path) {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&fs::read(path).unwrap()).unwrap();
    fs::write(path, encoder.finish().unwrap()).unwrap();
}

/// The losses of a run, as they stand in its folder.
fn losses(run: &Path) -> Vec<String> {
    let metrics = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = metrics.lines().filter(|line| line.contains("\"loss\""));
    lines
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            value["loss"].to_string()
        })
        .collect()
}

#[test]
fn every_form_of_a_corpus_gives_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let files = corpus(path, 200);
    let pairs = |split: &str| -> Vec<(String, String)> {
        let read = |side| fs::read_to_string(path.join(format!("{split}.{side}"))).unwrap();
        let (sources, targets) = (read("source"), read("target"));
        let pairs = sources.lines().zip(targets.lines());
        pairs.map(|(s, t)| (s.into(), t.into())).collect()
    };
    for split in ["train", "valid"] {
        let (mut table, mut lines) = (String::new(), String::new());
        for (source, target) in pairs(split) {
            table += &format!("{source}\t{target}\r\n");
            let object = serde_json::json!({ "translation": { "xx": source, "yy": target } });
            lines += &format!("{object}\n");
        }
        fs::write(path.join(format!("{split}.tsv.gz")), table).unwrap();
        gzip(&path.join(format!("{split}.tsv.gz")));
        fs::write(path.join(format!("{split}.jsonl")), lines).unwrap();
    }
    let table = ["--train", "train.tsv.gz", "--valid", "valid.tsv.gz"].map(String::from);
    let fields = ["--fields", "translation.xx,translation.yy"];
    let lines = ["--train", "train.jsonl", "--valid", "valid.jsonl"].into_iter();
    let lines: Vec<String> = lines.chain(fields).map(String::from).collect();
    let mut seen = Vec::new();
    for (number, flags) in [files, table.into(), lines].iter().enumerate() {
        let run = format!("run-{number}");
        succeed(&fit(path, &run, "4", flags));
        seen.push(losses(&path.join(run)));
    }
    assert_eq!(seen[0].len(), 4);
    assert!(seen[0] == seen[1] && seen[0] == seen[2], "{seen:?}");
}

#[test]
fn a_run_on_texts_translates_and_is_scored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let flags = corpus(path, 200);
    let output = fit(path, "run", "4", &flags);
    let stdout = succeed(&output);
    assert!(text(&output.stderr).contains("200 pairs, "), "{stdout}");
    assert!(
        stdout.contains("\nBLEU ") && stdout.contains(", chrF "),
        "{stdout}"
    );
    let summary = json(&path.join("run/summary.json"));
    assert!(summary["bleu"].is_number() && summary["data_wait"].is_number());

    let mut command = train(path);
    command.args(["generate", "run", "--input", "valid.source"]);
    let translations = succeed(&command.output().unwrap());
    assert_eq!(translations.lines().count(), 20);
    fs::write(path.join("translations"), translations).unwrap();
    let mut command = train(path);
    command.args(["score", "translations", "valid.target", "--json"]);
    let score: serde_json::Value =
        serde_json::from_str(&succeed(&command.output().unwrap())).unwrap();

    // The same by `eval`, of the run's own validation data and of named files.
    let named = ["--source", "valid.source", "--target", "valid.target"];
    for flags in [&[][..], &named] {
        let mut command = train(path);
        command.args(["eval", "run", "--json"]).args(flags);
        let evaluation = succeed(&command.output().unwrap());
        let evaluation: serde_json::Value = serde_json::from_str(&evaluation).unwrap();
        assert_eq!(evaluation["segments"], 20);
        for number in ["bleu", "chrf", "word_error_rate", "character_error_rate"] {
            assert_eq!(evaluation[number], score[number], "{number}");
        }
        let loss = evaluation["loss"].as_f64().unwrap();
        assert!((evaluation["perplexity"].as_f64().unwrap() - loss.exp()).abs() < 1e-9);
        assert!((loss - summary["valid_loss"].as_f64().unwrap()).abs() < 1e-4);
    }

    // What is streamed is what is written at once.
    let mut command = train(path);
    command.args(["generate", "run", "--input", "valid.source", "--stream"]);
    let streamed = succeed(&command.output().unwrap());
    let all = fs::read_to_string(path.join("translations")).unwrap();
    assert_eq!(streamed.trim_end(), all.trim_end());
}

#[test]
fn a_run_on_texts_that_was_stopped_goes_on_as_if_nothing_had_happened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut flags = corpus(path, 300);
    // Noam's learning rate knows nothing of the last step; an epoch has fewer steps than these.
    flags.extend(["--batch-tokens", "1000", "--schedule", "noam"].map(String::from));
    succeed(&fit(path, "part", "4", &flags));
    succeed(&fit(path, "whole", "12", &flags));
    let mut command = train(path);
    command.args(["resume", "part", "--steps", "12"]);
    let output = command.output().unwrap();
    succeed(&output);
    // Nothing is tokenised again.
    assert!(!text(&output.stderr).contains("training a tokeniser"));
    assert_eq!(losses(&path.join("part")), losses(&path.join("whole")));

    // A corpus that has changed is another one.
    let target = fs::read_to_string(path.join("train.target")).unwrap();
    fs::write(path.join("train.target"), target.replacen("der", "dor", 1)).unwrap();
    let changed = ["train.source", "has changed since the run began"];
    let mut command = train(path);
    command.args(["resume", "part", "--steps", "14"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    for part in changed {
        assert!(
            text(&output.stderr).contains(part),
            "{}",
            text(&output.stderr)
        );
    }

    // And so is a tokeniser.
    let json = path.join("part/source.tokenizer.json");
    let other = path.join("part/target.tokenizer.json");
    fs::copy(other, json).unwrap();
    let what = "is not the tokeniser that the model was trained with";
    refused(
        path,
        &["generate", "part"],
        &["source.tokenizer.json", what],
    );
    fs::write(path.join("part/source.tokenizer.json"), "{}").unwrap();
    refused(path, &["generate", "part"], &["is no tokenizer.json"]);
    fs::remove_file(path.join("part/source.tokenizer.json")).unwrap();
    refused(
        path,
        &["eval", "part"],
        &["source.tokenizer.json", "cannot be read"],
    );
}

#[test]
fn wrong_corpora_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let good = corpus(path, 50);
    let good: Vec<&str> = good.iter().map(String::as_str).collect();
    fs::write(path.join("short"), "a b\nc d\n").unwrap();
    fs::write(path.join("empty"), "").unwrap();
    fs::write(path.join("blank"), "\n \n").unwrap();
    fs::write(path.join("bytes"), b"a b\nc \xff d\n").unwrap();
    fs::write(path.join("no-tab.tsv"), "a\tb\nc d\n").unwrap();
    fs::write(
        path.join("a.jsonl"),
        "{\"source\": \"a\", \"text\": \"b\"}\n",
    )
    .unwrap();
    fs::write(path.join("b.jsonl"), "{\"source\": \"a\", \"target\": 3}\n").unwrap();
    fs::write(path.join("c.jsonl"), "source\n").unwrap();
    fs::write(path.join("cut.gz"), [0x1f, 0x8b, 8, 0, 0]).unwrap();
    fs::create_dir(path.join("folder")).unwrap();
    let with = |flags: &[&'static str]| -> Vec<&str> {
        // What is said last counts for clap only if it may be said twice: take the others' away.
        let mut arguments = Vec::new();
        let mut pairs = good.chunks(2).filter(|pair| {
            let split = pair[0].split('-').nth(2).unwrap();
            !flags
                .iter()
                .any(|flag| flag.starts_with(&format!("--{split}")))
        });
        arguments.extend(pairs.by_ref().flatten());
        arguments.extend(flags);
        arguments
    };
    for (flags, expected) in [
        (
            &["--train-source", "train.source", "--train-target", "short"][..],
            &["train.source: has 50 lines, but ", "short has 2"][..],
        ),
        (
            &["--valid-source", "short", "--valid-target", "valid.target"],
            &["short: has 2 lines, but ", "valid.target has 20"],
        ),
        (
            &["--train-source", "empty", "--train-target", "empty"],
            &["empty: has no pair"],
        ),
        (
            &["--valid-source", "blank", "--valid-target", "blank"],
            &["blank: has no pair"],
        ),
        (
            &["--valid-source", "bytes", "--valid-target", "short"],
            &["bytes: line 2 is not UTF-8", "--lossy"],
        ),
        (
            &["--train", "no-tab.tsv"],
            &["no-tab.tsv: line 2 is \"c d\"", "SOURCE<TAB>TARGET"],
        ),
        (
            &["--train", "a.jsonl"],
            &["a.jsonl: line 1 has no field \"target\"", "--fields"],
        ),
        (
            &["--train", "b.jsonl"],
            &["line 1 has 3 in its field \"target\""],
        ),
        (&["--train", "c.jsonl"], &["line 1 is not JSON"]),
        (&["--train", "cut.gz"], &["cut.gz: cannot be read"]),
        (
            &["--train", "folder"],
            &["folder: is a folder, but must be a file"],
        ),
        (&["--train", "nowhere"], &["nowhere: cannot be read"]),
        (&["--train-source", "short"], &["--train-target"]),
        (
            &["--fields", "a,b"],
            &["--fields a,b: needs a file of JSON Lines"],
        ),
        (&["--fields", "a"], &["SOURCE,TARGET"]),
        (
            &["--vocab-size", "100000"],
            &["--vocab-size 100000: must be at most "],
        ),
        (&["--vocab-size", "9"], &["--vocab-size 9: is too small"]),
        (
            &["--vocab-size", "0"],
            &["--vocab-size 0: must be at least 5"],
        ),
        (
            &["--max-length", "1"],
            &["no pair of at most --max-length (1) tokens to"],
        ),
        (
            &["--batch-tokens", "0"],
            &["--batch-tokens 0: must be at least 1"],
        ),
        (
            &["--tokenizer-file", "short"],
            &["short: is no tokenizer.json"],
        ),
        (
            &["--batch-size", "8"],
            &["--batch-size 8", "use --batch-tokens"],
        ),
        (&["--target", "0.9"], &["--target 0.9"]),
        (&["--symbols", "5"], &["--symbols 5"]),
        (&["--eval-lengths", "5"], &["--eval-lengths"]),
    ] {
        let mut arguments = with(flags);
        if flags.contains(&"100000") {
            // There are fewer characters than bytes.
            arguments.extend(["--tokenizer", "char"]);
        }
        let output = fit(path, "run", "4", &arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        let last = stderr.lines().last().unwrap();
        for part in expected {
            assert!(
                last.contains(part),
                "{arguments:?}: {stderr:?} has no {part:?}"
            );
        }
        assert!(!path.join("run/config.json").exists());
    }
    // Flags of text go with no other task, and a text needs its files.
    for (arguments, expected) in [
        (
            &["fit", "--train", "a.tsv"][..],
            "--train: is a flag of --task text alone",
        ),
        (&["--preset", "small"], "--preset small: needs --task text"),
        (
            &["--task", "text"],
            "--task text: needs --train-source and --train-target",
        ),
        (
            &["--task", "copy", "--epochs", "3"],
            "--epochs: is a flag of --task text alone",
        ),
    ] {
        refused(path, arguments, &[expected]);
    }
}

#[test]
fn what_is_left_out_or_replaced_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let flags = corpus(path, 50);
    let source = fs::read(path.join("train.source")).unwrap();
    let target = fs::read(path.join("train.target")).unwrap();
    fs::write(
        path.join("train.source"),
        [&source[..], b"\nabc \xff\nabc\n"].concat(),
    )
    .unwrap();
    fs::write(
        path.join("train.target"),
        [&target[..], b"abc\ndef\n  \n"].concat(),
    )
    .unwrap();
    let with = |others: &[&str]| {
        let others = others.iter().map(ToString::to_string);
        flags.iter().cloned().chain(others).collect::<Vec<String>>()
    };
    let long = with(&["--lossy", "--max-length", "20", "--overlong", "cut"]);
    let output = fit(path, "run", "4", &long);
    succeed(&output);
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("train.source: 2 pairs left out, a side of which is empty"),
        "{stderr}"
    );
    assert!(
        stderr.contains("train.source: 1 lines that are not UTF-8, replaced"),
        "{stderr}"
    );
    assert!(
        stderr.contains(" of 51 pairs have a side of more than 20 tokens: cut"),
        "{stderr}"
    );
    assert!(stderr.contains("\n51 pairs, "), "{stderr}");
    // The same pairs, once they are in the cache.
    let again = with(&["--lossy", "--max-length", "20"]);
    let output = fit(path, "again", "4", &again);
    succeed(&output);
    let stderr = text(&output.stderr);
    assert!(!stderr.contains("training a tokeniser"), "{stderr}");
    assert!(
        stderr.contains("2 pairs left out, a side of which is empty"),
        "{stderr}"
    );
    assert!(stderr.contains(" tokens: left out"), "{stderr}");
}

#[test]
fn a_damaged_cache_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let flags = corpus(path, 50);
    let run = |name: &str| {
        let output = fit(path, name, "4", &flags);
        succeed(&output);
        (text(&output.stderr), losses(&path.join(name)))
    };
    let (_, right) = run("run-0");
    let mut caches = fs::read_dir(path.join("cache")).unwrap();
    let cache = caches.find(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("pairs-")
    });
    let tokens = cache.unwrap().unwrap().path().join("tokens");
    let whole = fs::read(&tokens).unwrap();
    let mut wrong = whole.clone();
    wrong[10..12].fill(0xff);
    for (number, damaged) in [&whole[..20], &[], &wrong].into_iter().enumerate() {
        fs::write(&tokens, damaged).unwrap();
        let (stderr, losses) = run(&format!("run-{}", number + 1));
        assert!(
            stderr.contains("is damaged") && stderr.contains("made again"),
            "{stderr}"
        );
        assert_eq!(losses, right);
    }
    assert_eq!(fs::read(&tokens).unwrap(), whole);

    // Of what a killed process has left there, nothing stays; a tokeniser is trained again.
    let caches = fs::read_dir(path.join("cache")).unwrap().flatten();
    let tokenizers = caches.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("tokenizer-")
    });
    for folder in tokenizers {
        fs::write(folder.path().join("tokenizer.json"), "{").unwrap();
    }
    let left = path.join("cache/pairs-0123456789abcdef.77.tmp");
    fs::create_dir(&left).unwrap();
    let (stderr, losses) = run("run-4");
    assert!(stderr.contains("is no tokenizer.json"), "{stderr}");
    assert!(stderr.contains("it is trained again"), "{stderr}");
    assert_eq!(losses, right);
    assert!(!left.exists());
}
