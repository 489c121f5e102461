//! `train fit --task text` and the commands that use its runs.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Output;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{json, refused, succeed, text, train};

#[path = "../../../../examples/pseudo_language/language.rs"]
mod language;

use language::pseudo_corpus;

/// Writes a small corpus with two files for each split, and returns the flags that name the files.
pub fn corpus(folder: &Path, pairs: u64) -> Vec<String> {
    let mut flags = Vec::new();
    for (split, seed, pairs) in [("train", 0, pairs), ("valid", 1, 20)] {
        for (side, text) in ["source", "target"]
            .into_iter()
            .zip(pseudo_corpus(seed, pairs))
        {
            fs::write(folder.join(format!("{split}.{side}")), text).unwrap();
            flags.extend([format!("--{split}-{side}"), format!("{split}.{side}")]);
        }
    }
    flags
}

/// Arguments that train a model that is too small to learn much.
pub const TINY: [&str; 13] = [
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

/// Trains a tiny model for `steps` steps.
pub fn fit(folder: &Path, run: &str, steps: &str, flags: &[impl AsRef<str>]) -> Output {
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

/// Returns the training losses of a run from its `metrics.jsonl`.
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
    let size = ["--set", "evaluation.test_size=7"];
    let lines = lines.chain(fields).chain(size);
    let lines: Vec<String> = lines.map(String::from).collect();
    let mut seen = Vec::new();
    for (number, flags) in [files, table.into(), lines].iter().enumerate() {
        let run = format!("run-{number}");
        succeed(&fit(path, &run, "4", flags));
        seen.push(losses(&path.join(run)));
    }
    assert_eq!(seen[0].len(), 4);
    let summary = json(&path.join("run-2/summary.json"));
    assert_eq!(
        (&summary["split"], &summary["sequences"]),
        (&"validation".into(), &7.into())
    );
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
    // Text runs have no test split, so none of their scores is named a test score.
    assert_eq!(
        (&summary["split"], &summary["sequences"]),
        (&"validation".into(), &20.into())
    );
    let listed = succeed(
        &train(path)
            .args(["runs", "run", "--json"])
            .output()
            .unwrap(),
    );
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["metrics"]["valid_bleu"], summary["bleu"]);
    assert!(!listed.to_string().contains("test_"), "{listed}");

    let mut command = train(path);
    command.args(["generate", "run", "--input", "valid.source"]);
    let translations = succeed(&command.output().unwrap());
    assert_eq!(translations.lines().count(), 20);
    fs::write(path.join("translations"), translations).unwrap();
    let mut command = train(path);
    command.args(["score", "translations", "valid.target", "--json"]);
    let score: serde_json::Value =
        serde_json::from_str(&succeed(&command.output().unwrap())).unwrap();

    // `eval` gives the same scores for the validation data of the run and for the same files given
    // by flags.
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

    // The only held-out split of a text run is the validation split.
    let of_split = |split: &str| {
        let mut command = train(path);
        command.args(["eval", "run", "--split", split]);
        command.output().unwrap()
    };
    succeed(&of_split("validation"));
    let output = of_split("test");
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    for part in ["--split test", "--source and --target", "--pairs"] {
        assert!(stderr.contains(part), "{stderr}");
    }

    // With `--stream`, `generate` prints the same outputs as without it.
    let mut command = train(path);
    command.args(["generate", "run", "--input", "valid.source", "--stream"]);
    let streamed = succeed(&command.output().unwrap());
    let all = fs::read_to_string(path.join("translations")).unwrap();
    assert_eq!(streamed.trim_end(), all.trim_end());
}

#[test]
fn a_resumed_run_on_texts_equals_an_unbroken_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let mut flags = corpus(path, 300);
    // The Noam schedule does not depend on the total number of steps. So a run of 4 steps that is
    // resumed for 8 more equals a run of 12 steps. With these batches, 12 steps are more than an
    // epoch.
    flags.extend(["--batch-tokens", "1000", "--schedule", "noam"].map(String::from));
    succeed(&fit(path, "part", "4", &flags));
    succeed(&fit(path, "whole", "12", &flags));
    let mut command = train(path);
    command.args(["resume", "part", "--steps", "12"]);
    let output = command.output().unwrap();
    succeed(&output);
    // The tokenisers are read, not trained again.
    assert!(!text(&output.stderr).contains("training a tokeniser"));
    assert_eq!(losses(&path.join("part")), losses(&path.join("whole")));

    // The run can also be resumed from inside its folder.
    let mut command = train(&path.join("part"));
    let output = command
        .args(["resume", ".", "--steps", "13"])
        .output()
        .unwrap();
    succeed(&output);
    assert!(!path.join("part/cache").exists());

    // A changed corpus is rejected.
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

    // A changed tokeniser is rejected.
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
    refused(path, &["generate", "part"], &[what]);
    fs::remove_file(path.join("part/source.tokenizer.json")).unwrap();
    refused(
        path,
        &["eval", "part"],
        &["source.tokenizer.json", "cannot be read"],
    );
}

#[test]
fn wrong_corpora_are_rejected_in_one_line() {
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
        // clap rejects a flag that is given twice, so flags of the same split are removed.
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
            &["empty: is empty"],
        ),
        (
            &["--valid-source", "blank", "--valid-target", "blank"],
            &["blank: has no pair"],
        ),
        (
            &["--valid-source", "bytes", "--valid-target", "short"],
            &["bytes: line 2 is not UTF-8", "data.lossy"],
        ),
        (
            &["--train", "no-tab.tsv"],
            &[
                "no-tab.tsv: line 2 has no tab, but must be SOURCE<TAB>TARGET: \"c d\"",
                "SOURCE<TAB>TARGET",
            ],
        ),
        (
            &["--train", "a.jsonl"],
            &[
                "a.jsonl: line 1 has no field \"target\"",
                "data.train.fields",
            ],
        ),
        (
            &["--train", "b.jsonl"],
            &["line 1 has \"3\" in its field \"target\""],
        ),
        (&["--train", "c.jsonl"], &["line 1 must be one JSON object"]),
        (&["--train", "cut.gz"], &["cut.gz: cannot be read"]),
        (
            &["--train", "folder"],
            &["folder: is a folder, but must be a file"],
        ),
        (&["--train", "nowhere"], &["nowhere: cannot be read"]),
        (&["--train-source", "short"], &["short: line 1 has no tab"]),
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
            &["short: is not a tokenizer.json"],
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
            // The corpus has too few different characters for this vocabulary size.
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
    // Other tasks reject the flags of text, and text needs its files.
    for (arguments, expected) in [
        (
            &["--task", "copy", "--train", "a.tsv"][..],
            "--train-source a.tsv: is not a setting of --task copy",
        ),
        (
            &["--preset", "small", "--task", "sort"],
            "--preset small: is for --task text, not sort",
        ),
        (
            &["--task", "text"],
            "--train-source: must name the texts to train on",
        ),
        (
            &["--task", "copy", "--epochs", "3"],
            "--epochs 3: is for --task text only",
        ),
    ] {
        refused(path, arguments, &[expected]);
    }
}

#[test]
fn skipped_pairs_and_replaced_bytes_are_counted() {
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
    let long = with(&[
        "--set",
        "data.lossy=true",
        "--max-length",
        "20",
        "--overlong",
        "cut",
    ]);
    let output = fit(path, "run", "4", &long);
    succeed(&output);
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("train.source: 2 pairs skipped: a side is empty"),
        "{stderr}"
    );
    assert!(
        stderr.contains("train.source: 1 lines are not UTF-8: invalid bytes were replaced"),
        "{stderr}"
    );
    assert!(
        stderr.contains(" of 51 pairs have a side of more than 20 tokens: truncated"),
        "{stderr}"
    );
    assert!(stderr.contains("\n51 pairs, "), "{stderr}");
    // The second run takes the tokenisers from the cache, and prints the notes about skipped pairs,
    // too.
    let again = with(&["--set", "data.lossy=true", "--max-length", "20"]);
    let output = fit(path, "again", "4", &again);
    succeed(&output);
    let stderr = text(&output.stderr);
    assert!(!stderr.contains("training a tokeniser"), "{stderr}");
    assert!(
        stderr.contains("2 pairs skipped: a side is empty"),
        "{stderr}"
    );
    assert!(stderr.contains(" tokens: skipped"), "{stderr}");
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
    let folder_of_pairs = tokens.parent().unwrap();
    let index = folder_of_pairs.join("index");
    let manifest = folder_of_pairs.join("manifest.json");
    let whole = fs::read(&tokens).unwrap();
    let changed = |path: &Path, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(path).unwrap();
        change(&mut bytes);
        (path.to_owned(), bytes)
    };
    let narrow = |bytes: &mut Vec<u8>| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        *bytes = text.replace("\"width\": 2", "\"width\": 4").into_bytes();
    };
    for (number, (path, damaged)) in [
        changed(&tokens, &|bytes| bytes.truncate(20)),
        changed(&tokens, &|bytes| bytes.clear()),
        changed(&tokens, &|bytes| bytes[10..12].fill(0xff)),
        // The next two changes give another valid token id and another valid length.
        changed(&tokens, &|bytes| bytes[20] ^= 1),
        changed(&index, &|bytes| bytes[8] ^= 1),
        changed(&index, &|bytes| bytes[..8].fill(0xff)),
        changed(&index, &|bytes| bytes[8..16].fill(0xff)),
        changed(&manifest, &narrow),
        changed(&manifest, &|bytes| bytes.truncate(30)),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(path, damaged).unwrap();
        let (stderr, losses) = run(&format!("run-{}", number + 1));
        assert!(
            stderr.contains("is damaged") && stderr.contains("made again"),
            "{stderr}"
        );
        assert_eq!(losses, right);
    }
    assert_eq!(fs::read(&tokens).unwrap(), whole);

    // A temporary folder that a killed process left in the cache is removed, and a damaged
    // tokeniser is trained again.
    let caches = fs::read_dir(path.join("cache")).unwrap().flatten();
    let tokenizers = caches.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("tokenizer-")
    });
    for (number, folder) in tokenizers.enumerate() {
        let file = folder.path().join("tokenizer.json");
        let json = fs::read_to_string(&file).unwrap();
        // The first file cannot be parsed. The other one is valid, but two of its ids are swapped.
        let swapped = json.replacen(":4,", ":X,", 1).replacen(":5,", ":4,", 1);
        let swapped = swapped.replacen(":X,", ":5,", 1);
        assert_ne!(swapped, json);
        fs::write(file, if number == 0 { "{" } else { &swapped }).unwrap();
    }
    let left = path.join("cache/pairs-0123456789abcdef.77.tmp");
    fs::create_dir(&left).unwrap();
    let (stderr, losses) = run("run-last");
    assert_eq!(
        stderr
            .matches("differs from its SHA-256); it is made again")
            .count(),
        2,
        "{stderr}"
    );
    assert_eq!(losses, right);
    assert!(!left.exists());
}

#[test]
fn outputs_on_texts_are_single_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let flags = corpus(path, 50);
    succeed(&fit(path, "run", "4", &flags));
    for arguments in [&["--sample", "--seed", "1"][..], &["--sample", "--stream"]] {
        let mut command = train(path);
        command.args(["generate", "run", "--input", "valid.source"]);
        let answers = succeed(&command.args(arguments).output().unwrap());
        assert_eq!(answers.lines().count(), 20);
        assert!(!answers.contains(|c: char| c.is_control() && c != '\n'));
    }
}

#[test]
fn pairs_of_the_same_tokens_have_their_own_references() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let flags = corpus(path, 50);
    // Half of the targets are in capital letters, which `--lower-case` makes equal to the others.
    for (side, capital) in [("source", false), ("target", true)] {
        let text = fs::read_to_string(path.join(format!("valid.{side}"))).unwrap();
        let other = if capital {
            text.to_uppercase()
        } else {
            text.clone()
        };
        fs::write(path.join(format!("valid.{side}")), text + &other).unwrap();
    }
    let lower = ["--lower-case", "--joint-vocabulary"].map(String::from);
    let flags = [&flags[..], &lower].concat();
    succeed(&fit(path, "run", "30", &flags));
    let summary = json(&path.join("run/summary.json"));
    let evaluate = |flags: &[&str]| -> serde_json::Value {
        let mut command = train(path);
        command.args(["eval", "run", "--json"]).args(flags);
        serde_json::from_str(&succeed(&command.output().unwrap())).unwrap()
    };
    let cased = evaluate(&[]);
    assert_eq!(cased["segments"], 40);
    assert_eq!(cased["chrf"], summary["chrf"]);
    let uncased = evaluate(&["--lower-case"]);
    assert!(uncased["chrf"].as_f64() > cased["chrf"].as_f64());
    assert!(
        uncased["bleu_signature"]
            .as_str()
            .unwrap()
            .contains("case:lc")
    );
}

#[test]
fn tokenizer_files_are_used_unless_they_lack_something() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let flags = corpus(path, 50);
    succeed(&fit(path, "first", "4", &flags));
    fs::copy(
        path.join("first/target.tokenizer.json"),
        path.join("mine.json"),
    )
    .unwrap();
    let with = |file: &str, others: &[&str]| {
        let mut flags = flags.clone();
        flags.extend(["--tokenizer-file".into(), file.into()]);
        flags.extend(others.iter().map(ToString::to_string));
        flags
    };
    // With two batches per step, two epochs have as many steps as one epoch has batches.
    let mut command = train(path);
    command
        .args(TINY)
        .args(["--run-dir", "run", "--epochs", "2", "--accumulate", "2"]);
    command.args(with(
        "mine.json",
        &["--batch-tokens", "1000", "--cache", "elsewhere"],
    ));
    let output = command.output().unwrap();
    succeed(&output);
    assert!(path.join("run/tokenizer.json").exists() && path.join("elsewhere").is_dir());
    let batches = text(&output.stderr);
    let batches = batches.split(" batches an epoch").next().unwrap();
    let batches: usize = batches.rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(losses(&path.join("run")).len(), batches);
    let mut command = train(path);
    let pairs = ["eval", "run", "--beam", "3", "--source", "valid.source"];
    succeed(
        &command
            .args(pairs)
            .args(["--target", "valid.target"])
            .output()
            .unwrap(),
    );

    // The unknown token of this tokeniser, `<unk>`, is not in its vocabulary.
    let words = r#"{"version": "1.0", "model": {"type": "WordLevel", "unk_token": "<unk>",
        "vocab": {"<pad>": 0, "<bos>": 1, "<eos>": 2, "der": 3}}}"#;
    fs::write(path.join("words.json"), words).unwrap();
    let output = fit(path, "none", "4", &with("words.json", &[]));
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("words.json: cannot encode every text"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn files_of_the_user_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let flags = corpus(path, 50);
    fs::create_dir(path.join("mine")).unwrap();
    fs::write(path.join("mine/tokenizer.json"), "mine").unwrap();
    let output = fit(path, "mine", "4", &flags);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("mine: is not empty"));
    assert_eq!(
        fs::read_to_string(path.join("mine/tokenizer.json")).unwrap(),
        "mine"
    );
    // The lock file shows that a killed process left the tokeniser. `fit` then accepts the folder,
    // and removes the tokeniser.
    fs::write(path.join("mine/lock"), "").unwrap();
    succeed(&fit(path, "mine", "4", &flags));
    assert!(!path.join("mine/tokenizer.json").exists());
    let mut command = train(path);
    command.args(["generate", "mine", "--input", "valid.source"]);
    succeed(&command.output().unwrap());

    let output = fit(path, "cache", "4", &flags);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is where tokenised corpora are kept"));
}

#[test]
fn a_file_of_settings_can_set_steps_for_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    corpus(path, 50);
    let toml = r#"
        [optimization]
        steps = 3
        [model]
        d_model = 16
        n_heads = 2
        [data]
        task = "text"
        train = { source = "train.source", target = "train.target" }
        valid = { source = "valid.source", target = "valid.target" }
    "#;
    fs::write(path.join("run.toml"), toml).unwrap();
    let mut command = train(path);
    let arguments = ["fit", "--config", "run.toml", "--run-dir", "run"];
    succeed(&command.args(arguments).output().unwrap());
    assert_eq!(losses(&path.join("run")).len(), 3);
    // The run's paths are absolute, so that it can be resumed from another folder.
    let config = json(&path.join("run/config.json"));
    let source = config["data"]["train"]["source"].as_str().unwrap();
    assert!(Path::new(source).is_absolute(), "{source}");
}

#[cfg(unix)]
#[test]
fn pipes_are_rejected_as_corpora_and_in_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let flags = corpus(path, 50);
    let fifo = path.join("fifo");
    super::make_pipe(&fifo);
    let mut refused = flags.clone();
    refused[1] = "fifo".into();
    let output = fit(path, "run", "4", &refused);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("fifo: is not a regular file"));
    let with = ["--tokenizer-file", "fifo"].map(String::from);
    let output = fit(path, "run", "4", &[&flags[..], &with].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("fifo: cannot be read (it is not a regular file)"));
    let lock = path.join("cache/lock");
    fs::remove_file(&lock).unwrap();
    super::make_pipe(&lock);
    let output = fit(path, "run", "4", &flags);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cache: its file lock cannot be written"));
}
