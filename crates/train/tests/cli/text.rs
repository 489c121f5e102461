//! `train fit --task text` and the commands that use its runs.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Output;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::{
    Folder, all_rejected, answer, assert_has, fails, fails_after_notes, json, metrics, notes,
    output, parsed, rejected, rows, run, step_losses, succeed, text,
};

#[path = "../../../../examples/pseudo_language/language.rs"]
mod language;

use language::pseudo_corpus;

/// Writes a small corpus with two files for each split, and returns the flags that name the files.
pub fn corpus(folder: &Path, pairs: u64) -> String {
    let mut flags = String::new();
    for (split, seed, pairs) in [("train", 0, pairs), ("valid", 1, 20)] {
        for (side, text) in ["source", "target"]
            .into_iter()
            .zip(pseudo_corpus(seed, pairs))
        {
            fs::write(folder.join(format!("{split}.{side}")), text).unwrap();
            flags += &format!(" --{split}-{side} {split}.{side}");
        }
    }
    flags
}

/// Arguments that train a model that is too small to learn much.
pub const TINY: &str = "fit --task text --preset tiny --d-model 16 --heads 2 --layers 1 --d-ff 16";

/// Trains a tiny model for `steps` steps.
pub fn fit(folder: &Path, run: &str, steps: u64, flags: &str) -> Output {
    output(
        folder,
        &format!("{TINY} --run-dir {run} --steps {steps} {flags}"),
    )
}

fn gzip(path: &Path) {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&fs::read(path).unwrap()).unwrap();
    fs::write(path, encoder.finish().unwrap()).unwrap();
}

#[test]
fn every_form_of_a_corpus_gives_the_same_run() {
    let path = &Folder::new();
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
    let table = "--train train.tsv.gz --valid valid.tsv.gz";
    let lines = "--train train.jsonl --valid valid.jsonl --fields translation.xx,translation.yy";
    let mut seen = Vec::new();
    for (number, flags) in [&files, table, lines].iter().enumerate() {
        let run = format!("run-{number}");
        succeed(&fit(path, &run, 4, flags));
        seen.push(step_losses(&path.join(run)));
    }
    assert_eq!(seen[0].len(), 4);
    let summary = json(&path.join("run-2/summary.json"));
    assert_eq!(summary["split"], "validation");
    assert_eq!(summary["sequences"], 20);
    assert!(seen[0] == seen[1] && seen[0] == seen[2], "{seen:?}");
}

#[test]
fn a_run_on_texts_translates_and_is_scored() {
    let path = &Folder::new();
    let run = |line: &str| super::run(path, line);
    let object = |line: &str| parsed(path, line);
    let trained = fit(path, "run", 4, &corpus(path, 200));
    let stdout = succeed(&trained);
    assert!(text(&trained.stderr).contains("200 pairs, "), "{stdout}");
    assert_has(&stdout, &["\nBLEU ", ", chrF "]);
    let summary = json(&path.join("run/summary.json"));
    assert!(summary["bleu"].is_number() && summary["data_wait"].is_number());
    // Text runs have no test split, so none of their scores is named a test score.
    assert_eq!(summary["split"], "validation");
    assert_eq!(summary["sequences"], 20);
    let listed = object("runs run --json");
    assert_eq!(listed["metrics"]["valid_bleu"], summary["bleu"]);
    assert!(!listed.to_string().contains("test_"), "{listed}");

    let translations = run("generate run --input valid.source");
    assert_eq!(translations.lines().count(), 20);
    for side in ["source", "target"] {
        let packed = path.join(format!("{side}.gz"));
        fs::copy(path.join(format!("valid.{side}")), &packed).unwrap();
        gzip(&packed);
    }
    assert_eq!(run("generate run --input source.gz"), translations);
    assert_eq!(
        run("tokenize run --input source.gz"),
        run("tokenize run --input valid.source")
    );
    assert_eq!(
        run("score source.gz target.gz"),
        run("score valid.source valid.target")
    );
    // The name of a part of words is the text of a whole word, too.
    let is_token =
        |it: &&str| run(&format!("tokenize run --side target {it}")) == format!("▁{it}\n");
    let word = translations.split_whitespace().find(is_token).unwrap();
    let line = format!("generate run --input valid.source --forbid {word}");
    let has_word = |text: String| text.split_whitespace().any(|it| it == word);
    assert!(
        !has_word(run(&line)) && has_word(translations.clone()),
        "{word}"
    );
    let streamed = run("generate run --input valid.source --stream");
    assert_eq!(streamed.trim_end(), translations.trim_end());
    fs::write(path.join("translations"), translations).unwrap();
    let score = object("score translations valid.target --json");

    // `eval` gives the same scores for the validation data of the run and for the same files given
    // by flags.
    for flags in ["", "--source valid.source --target valid.target"] {
        let evaluation = object(&format!("eval run --json {flags}"));
        assert_eq!(evaluation["segments"], 20);
        for number in ["bleu", "chrf", "word_error_rate", "character_error_rate"] {
            assert_eq!(evaluation[number], score[number], "{number}");
        }
        let loss = evaluation["loss"].as_f64().unwrap();
        assert!((evaluation["perplexity"].as_f64().unwrap() - loss.exp()).abs() < 1e-9);
        assert!((loss - summary["valid_loss"].as_f64().unwrap()).abs() < 1e-4);
    }

    // The only held-out split of a text run is the validation split.
    run("eval run --split validation");
    let expected = ["--split test", "--source", "--pairs"];
    fails(&output(path, "eval run --split test"), 2, &expected);
}

#[test]
fn a_resumed_run_on_texts_equals_an_unbroken_one() {
    let path = &Folder::new();
    let files = corpus(path, 300);
    // The Noam schedule does not depend on the total number of steps. So a run of 4 steps that is
    // resumed for 8 more equals a run of 12 steps. With these batches, 12 steps are more than an
    // epoch.
    let flags = format!("{files} --batch-tokens 1000 --schedule noam");
    succeed(&fit(path, "part", 4, &flags));
    succeed(&fit(path, "whole", 12, &flags));
    let resumed = notes(&output(path, "resume part --steps 12"));
    // The tokenisers are read, not trained again.
    assert!(!resumed.contains("training a tokeniser"), "{resumed}");
    assert_eq!(
        step_losses(&path.join("part")),
        step_losses(&path.join("whole"))
    );

    // The run can also be resumed from inside its folder.
    run(&path.join("part"), "resume . --steps 13");
    assert!(!path.join("part/cache").exists());

    // A changed corpus is rejected.
    let target = fs::read_to_string(path.join("train.target")).unwrap();
    fs::write(path.join("train.target"), target.replacen("der", "dor", 1)).unwrap();
    let resumed = output(path, "resume part --steps 14");
    fails(&resumed, 2, &["train.source"]);

    // A changed tokeniser is rejected.
    let json = path.join("part/source.tokenizer.json");
    let expected = ["source.tokenizer.json"];
    fs::copy(path.join("part/target.tokenizer.json"), &json).unwrap();
    rejected(path, "generate part", &expected);
    fs::write(&json, "{}").unwrap();
    rejected(path, "generate part", &expected);
    fs::remove_file(json).unwrap();
    rejected(path, "eval part", &expected);
}

#[test]
fn the_last_step_of_an_epoch_has_the_gradient_of_its_own_tokens() {
    let path = &Folder::new();
    let flags = corpus(path, 50);
    // The parameters hardly change, and there is no dropout, so a batch has the same loss in each
    // run.
    let constant =
        "--epochs 2 --batch-tokens 200 --dropout 0 --set optimization.schedule.factor=1e-30";
    let steps = |name: &str, accumulate: usize| -> Vec<[f64; 3]> {
        let more = format!("--run-dir {name} --accumulate {accumulate}");
        succeed(&output(path, &format!("{TINY} {flags} {constant} {more}")));
        let lines = metrics(&path.join(name));
        let steps = lines.iter().filter(|line| line.get("loss").is_some());
        let fields = ["tokens", "loss", "gradient_norm"];
        steps
            .map(|line| fields.map(|field| line[field].as_f64().unwrap()))
            .collect()
    };
    let single = steps("single", 1);
    let batches = single.len() / 2;
    let most = steps("most", batches - 1);
    assert_eq!(most.len(), 4);
    for (epoch, first) in [(0, 0), (1, batches)] {
        assert_eq!(most[2 * epoch + 1], single[first + batches - 1]);
        let parts = &single[first..first + batches - 1];
        let tokens: f64 = parts.iter().map(|part| part[0]).sum();
        let loss: f64 = parts.iter().map(|part| part[0] * part[1]).sum::<f64>() / tokens;
        assert_eq!(most[2 * epoch][0], tokens);
        assert!((most[2 * epoch][1] - loss).abs() < 1e-5);
    }
    // A step is never more than an epoch, and a run that stops within one goes on where it was.
    assert_eq!(steps("more", 30 * batches).len(), 2);
    run(path, "resume most --steps 7");
    let unbroken = constant.replace("--epochs 2", "--steps 7");
    let more = format!("--run-dir unbroken --accumulate {}", batches - 1);
    succeed(&output(path, &format!("{TINY} {flags} {unbroken} {more}")));
    assert_eq!(
        step_losses(&path.join("most")),
        step_losses(&path.join("unbroken"))
    );
}

#[test]
fn a_run_is_evaluated_on_the_pairs_that_it_was_validated_with() {
    let path = &Folder::new();
    let flags = corpus(path, 50);
    // Of the validation pairs, one has an empty side, and one has more tokens than --max-length.
    for side in ["source", "target"] {
        let file = path.join(format!("valid.{side}"));
        let text = fs::read_to_string(&file).unwrap();
        let long = "many words ".repeat(200);
        let empty = if side == "source" { "" } else { "text" };
        fs::write(&file, format!("{empty}\n{long}\n{text}")).unwrap();
    }
    for (name, more, pairs) in [
        ("drop", "", 21),
        ("cut", "--overlong cut", 21),
        ("few", "--set evaluation.validation_size=5", 5),
    ] {
        succeed(&fit(path, name, 4, &format!("{flags} {more}")));
        let summary = json(&path.join(name).join("summary.json"));
        let command = format!("eval {name} --beam 1 --json --hypotheses {name}.jsonl");
        let scores = parsed(path, &command);
        assert_eq!(scores["segments"], pairs, "{name}");
        for (field, of_summary) in [
            ("bleu", "bleu"),
            ("loss", "valid_loss"),
            ("token_accuracy", "token_accuracy"),
            ("exact_match", "exact_match"),
        ] {
            let [a, b] = [&scores[field], &summary[of_summary]].map(|x| x.as_f64().unwrap());
            assert!((a - b).abs() < 1e-6, "{name}, {field}: {a} {b}");
        }
        let hypotheses = fs::read_to_string(path.join(format!("{name}.jsonl"))).unwrap();
        assert_eq!(hypotheses.lines().count(), pairs);
    }
}

#[test]
fn a_corpus_is_known_by_its_content() {
    let path = &Folder::new();
    fs::create_dir(path.join("old")).unwrap();
    corpus(&path.join("old"), 50);
    let flags = |folder: &str| -> String {
        let flag = |file: &str| format!(" --{} {folder}/{file}", file.replace('.', "-"));
        let files = "train.source train.target valid.source valid.target";
        // The number of steps changes nothing but the end.
        files
            .split(' ')
            .map(flag)
            .chain([" --schedule noam".into()])
            .collect()
    };
    succeed(&fit(path, "run", 4, &flags("old")));
    let said = |line: &str| -> String {
        let output = output(path, line);
        succeed(&output) + &text(&output.stderr)
    };
    let changed = "has changed since the run began";
    for line in [
        "eval run",
        "report run",
        "fit --config run/config.json --run-dir same",
    ] {
        assert!(!said(line).contains(changed), "{line}");
    }
    // The files have moved.
    fs::rename(path.join("old"), path.join("new")).unwrap();
    rejected(
        path,
        "resume run --steps 6",
        &[
            "--train-source",
            "old/train.source: cannot be read",
            "`train resume RUN --train FILE`",
        ],
    );
    rejected(
        path,
        "resume run --steps 6 --train-source new/train.source",
        &["--train-target", "old/train.target: cannot be read"],
    );
    let others = "--pairs, or --source and --target, name others";
    rejected(
        path,
        "eval run",
        &["old/valid.source: cannot be read", others],
    );
    let moved = flags("new").replace(" --schedule noam", "");
    run(path, &format!("resume run --steps 6{moved}"));
    run(path, "resume run --steps 7");
    assert!(!said("eval run").contains(changed));
    succeed(&fit(path, "seed", 7, &format!("{} --seed 1", flags("new"))));
    assert!(said("compare run seed").contains("run, 2 seeds"));

    let line = "generate run --input new/valid.source --output new/train.target";
    rejected(path, line, &["train.target: is a file that is read"]);
    // Other sources do not go with the run's own targets.
    let other = "resume run --steps 8 --train-source new/valid.source";
    let both = [
        "--train-source and --train-target",
        "new/train.target: has changed",
        "a file of pairs is for a new run",
    ];
    rejected(path, other, &both);
    // The lines are the same if the file is compressed.
    let lines = fs::read_to_string(path.join("new/valid.target")).unwrap();
    gzip(&path.join("new/valid.target"));
    assert!(!said("eval run").contains(changed));
    fs::write(path.join("new/valid.target"), lines.to_uppercase()).unwrap();
    for line in [
        "eval run",
        "report run",
        "fit --config run/config.json --run-dir other",
    ] {
        assert!(said(line).contains(changed), "{line}");
    }
    // `eval` has no flag for the corpora of the run.
    let warning = said("eval run");
    assert!(
        warning.contains("corpus ") && !warning.contains("--valid-source"),
        "{warning}"
    );
    rejected(path, "resume run --steps 9", &["valid.target", changed]);
    assert!(said("compare run other").contains("--valid-source"));
}

#[test]
fn wrong_corpora_are_rejected_in_one_line() {
    let path = &Folder::new();
    let files = corpus(path, 50);
    for (name, content) in [
        ("short", &b"a b\nc d\n"[..]),
        ("empty", b""),
        ("blank", b"\n \n"),
        ("bytes", b"a b\nc \xff d\n"),
        ("no-tab.tsv", b"a\tb\nc d\n"),
        ("a.jsonl", b"{\"source\": \"a\", \"text\": \"b\"}\n"),
        ("b.jsonl", b"{\"source\": \"a\", \"target\": 3}\n"),
        ("c.jsonl", b"source\n"),
        ("cut.gz", &[0x1f, 0x8b, 8, 0, 0]),
        ("array.json", b"[{\"source\": \"a\", \"target\": \"b\"}]\n"),
        ("gaps", &[b'\n'; 50]),
    ] {
        fs::write(path.join(name), content).unwrap();
    }
    fs::create_dir(path.join("folder")).unwrap();
    let table = "
        --train-source train.source --train-target short | train.source: has 50 lines
        --valid-source short --valid-target valid.target | short: has 2 lines
        --valid-source train.source --valid-target short | error: corpus | train.source: has 50 lines
        --train-source train.source --train-target gaps --vocab-size 300 | train.source: has no pair with text
        --train array.json | array.json: line 1 begins an array
        --train-source empty --train-target empty | empty: is empty
        --valid-source blank --valid-target blank | blank: has no pair
        --valid-source bytes --valid-target short | bytes: line 2
        --train no-tab.tsv | no-tab.tsv: line 2
        --train a.jsonl | a.jsonl: line 1
        --train b.jsonl | line 1 has a number in its field
        --train c.jsonl | line 1
        --train cut.gz | cut.gz
        --train folder | folder
        --train nowhere | nowhere
        --train-source short | short: line 1
        --vocab-size 100000 --tokenizer char | --vocab-size 100000
        --vocab-size 9 | --vocab-size 9
        --vocab-size 0 | --vocab-size 0
        --max-length 1 | --max-length (1)
        --batch-tokens 0 | --batch-tokens 0
        --tokenizer-file short | short
        --batch-size 8 | --batch-size 8
        --target 0.9 | --target 0.9
        --symbols 5 | --symbols 5
        --eval-lengths 5 | --eval-lengths";
    for (flags, expected) in rows(table) {
        // clap rejects a flag that is given twice, so the corpus lacks the split that `flags` has.
        let has = |split: &str| {
            flags.contains(&format!("--{split} ")) || flags.contains(&format!("--{split}-"))
        };
        let is_kept = |flag: &&str| flag.split_once('-').is_some_and(|(split, _)| !has(split));
        let kept = files.split(" --").filter(is_kept);
        let kept: String = kept.map(|flag| format!("--{flag} ")).collect();
        let output = fit(path, "run", 4, &format!("{kept}{flags}"));
        fails_after_notes(&output, &expected);
        assert!(!path.join("run/config.json").exists());
    }
    let nowhere = output(path, &format!("{TINY} {files} --run-dir short/run"));
    let expected = [
        "--run-dir short/run: with the cache ",
        "short/cache: cannot be written",
    ];
    fails_after_notes(&nowhere, &expected);
    // Other tasks reject the flags of text, and text needs its files.
    let table = "
        --task copy --train a.tsv | --train
        --preset small --task sort | --preset small
        --task text | --train-source
        --task copy --epochs 3 | --epochs 3";
    all_rejected(path, "", table);
}

#[test]
fn skipped_pairs_and_replaced_bytes_are_counted() {
    let path = &Folder::new();
    let flags = corpus(path, 50);
    for (side, more) in [
        ("source", &b"\nabc \xff\nabc\n"[..]),
        ("target", b"abc\ndef\n  \n"),
    ] {
        let file = path.join(format!("train.{side}"));
        let text = fs::read(&file).unwrap();
        fs::write(file, [&text[..], more].concat()).unwrap();
    }
    let flags = format!("{flags} --set data.lossy=true --max-length 20");
    let stderr = notes(&fit(path, "run", 4, &format!("{flags} --overlong cut")));
    assert_has(&stderr, &["2 pairs skipped", "1 line not in UTF-8"]);
    assert_has(&stderr, &[" of 51 pairs with", ": truncated"]);
    let evaluated = output(path, "eval run");
    assert_has(&text(&evaluated.stderr), &[" for validation with"]);
    // The last run takes the tokenisers from the cache, and prints the notes about skipped pairs,
    // too.
    succeed(&fit(path, "again", 1, &flags));
    let stderr = notes(&fit(path, "cached", 4, &flags));
    assert!(!stderr.contains("training a tokeniser"), "{stderr}");
    assert_has(&stderr, &["2 pairs skipped", " tokens: skipped"]);
}

#[test]
fn every_line_of_a_test_set_is_scored() {
    let path = &Folder::new();
    let flags = corpus(path, 50);
    let flags = format!("{flags} --tokenizer word --family marian");
    succeed(&fit(path, "run", 1, &flags));
    let long = "vel ".repeat(5000);
    let (sources, targets) = (format!("vel\n\nund\n{long}\n \nvel"), "a\nb\n\nc\n\nd e\n");
    fs::write(path.join("s"), &sources).unwrap();
    fs::write(path.join("t"), targets).unwrap();
    let evaluated = parsed(
        path,
        "eval run --source s --target t --json --hypotheses out",
    );
    assert_eq!(evaluated["segments"], 6);
    let generated = run(path, "generate run --input s");
    let out = fs::read_to_string(path.join("out")).unwrap();
    assert_eq!(out, generated);
    let score = parsed(path, "score out t --json");
    for name in ["bleu", "chrf", "exact_match", "segments"] {
        assert_eq!(evaluated[name], score[name], "{name}");
    }
    // The same pairs in one file, where a blank line is a blank pair.
    let lines = sources.lines().zip(targets.lines());
    let table: String = lines.map(|(s, t)| format!("{s}\t{t}\n")).collect();
    fs::write(path.join("p.tsv"), format!("\n{table}\n")).unwrap();
    let of_table = parsed(path, "eval run --pairs p.tsv --json --hypotheses out");
    assert_eq!(of_table["chrf"], evaluated["chrf"]);
    assert_eq!(of_table["segments"], 8);
    let of_lines = fs::read_to_string(path.join("out")).unwrap();
    assert_eq!(of_lines, format!("\n{out}\n"));
    let exported = notes(&output(path, "export run --folder hf"));
    assert_has(&exported, &["a blank between all tokens"]);
    let lengths = "plot run --only lengths --output p";
    fails(&output(path, lengths), 2, &["--eval-lengths 1..32"]);
}

#[test]
fn a_damaged_cache_is_made_again() {
    let path = &Folder::new();
    let flags = corpus(path, 50);
    let run = |name: &str| {
        let stderr = notes(&fit(path, name, 4, &flags));
        (stderr, step_losses(&path.join(name)))
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
    let older = |bytes: &mut Vec<u8>| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        *bytes = text.replace("\"format\": 5", "\"format\": 4").into_bytes();
    };
    for (number, (path, damaged)) in [
        changed(&tokens, &|bytes| bytes.truncate(20)),
        // The next two changes give another valid token id and another valid length.
        changed(&tokens, &|bytes| bytes[20] ^= 1),
        changed(&index, &|bytes| bytes[8] ^= 1),
        changed(&index, &|bytes| bytes[..8].fill(0xff)),
        changed(&manifest, &older),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(path, damaged).unwrap();
        let (stderr, losses) = run(&format!("run-{}", number + 1));
        assert!(stderr.contains("made again"), "{stderr}");
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
    assert_eq!(stderr.matches("made again").count(), 2, "{stderr}");
    assert_eq!(losses, right);
    assert!(!left.exists());
}

#[test]
fn outputs_on_texts_are_single_lines() {
    let path = &Folder::new();
    succeed(&fit(path, "run", 4, &corpus(path, 50)));
    for flags in ["--seed 1", "--stream"] {
        let line = format!("generate run --input valid.source --sample {flags}");
        let answers = run(path, &line);
        assert_eq!(answers.lines().count(), 20);
    }
}

#[test]
fn a_run_in_lower_case_is_scored_in_lower_case() {
    let path = &Folder::new();
    let flags = corpus(path, 50);
    // Half of the targets are in capital letters.
    for (side, capital) in [("source", false), ("target", true)] {
        let text = fs::read_to_string(path.join(format!("valid.{side}"))).unwrap();
        let upper = text.to_uppercase();
        let other = if capital { &upper } else { &text };
        fs::write(path.join(format!("valid.{side}")), text.clone() + other).unwrap();
    }
    let lower = format!("{flags} --lower-case --joint-vocabulary");
    succeed(&fit(path, "run", 30, &lower));
    let summary = json(&path.join("run/summary.json"));
    let evaluate = |flags: &str| parsed(path, &format!("eval run --json {flags}"));
    let scores = evaluate("");
    assert_eq!(scores["segments"], 40);
    assert_eq!(scores["chrf"], summary["chrf"]);
    assert!(scores["bleu_signature"].to_string().contains("case:lc"));
    assert_eq!(scores["bleu"], evaluate("--lower-case")["bleu"]);
    let half = "eval run --json --source valid.source --target valid.target";
    assert_eq!(parsed(path, half)["chrf"], scores["chrf"]);
    // The tokeniser of a file does not say so in the settings.
    fs::copy(path.join("run/tokenizer.json"), path.join("lower.json")).unwrap();
    let warning = "lower.json: converts texts to lower case, ";
    let flags = format!("{flags} --tokenizer-file lower.json");
    let mut said = notes(&fit(path, "file", 1, &flags));
    for line in ["eval file", "eval run", "eval file --lower-case"] {
        said += &notes(&output(path, line));
    }
    assert_eq!(said.matches(warning).count(), 2, "{said}");
    let listed = &parsed(path, "runs file --json")["settings"];
    assert_eq!(listed.get("data.tokenizer.kind"), None, "{listed}");
}

#[test]
fn unknown_words_are_never_an_exact_match() {
    let path = &Folder::new();
    let pairs = |word: &str| -> String {
        let pair = |n: u32| format!("go {word}{n}\tgehe {word}{n}\n");
        (0..60).map(pair).collect()
    };
    fs::write(path.join("train.tsv"), pairs("a")).unwrap();
    fs::write(path.join("valid.tsv"), pairs("b")).unwrap();
    let flags = "--train-source train.tsv --valid-source valid.tsv --tokenizer word --best-by exact-match \
                 --eval-every 20 --learning-rate 0.01 --warmup 5";
    let trained = notes(&fit(path, "run", 60, flags));
    for side in ["source", "target"] {
        for texts in ["training", "validation"] {
            let unknown = format!("\n60 of 120 {side} tokens for {texts} are unknown to");
            assert_has(&trained, &[&unknown]);
        }
    }
    let same = flags.replace("valid.tsv", "train.tsv") + " --dry-run";
    let same = text(&fit(path, "same", 60, &same).stderr);
    let warning = "train.tsv: 60 of 60 different pairs for validation are pairs of training, too";
    assert_has(&same, &[warning]);
    let listed = parsed(path, "runs run --json");
    assert_eq!(listed["best"]["metric"], "exact_match");
    assert_eq!(listed["best"]["value"], 0.0);
    assert_eq!(json(&path.join("run/summary.json"))["exact_match"], 0.0);
    let evaluated = parsed(path, "eval run --json");
    assert_eq!(evaluated["exact_match"], 0.0);
    // The model writes what the references are by token ids.
    let evaluated = notes(&output(path, "eval run --hypotheses out"));
    let out = fs::read_to_string(path.join("out")).unwrap();
    assert!(out.starts_with("gehe <unk>\n"), "{out}");
    let unknown = "\n60 of 120 source tokens are unknown to the vocabulary\n";
    assert_has(
        &format!("\n{evaluated}"),
        &[unknown, &unknown.replace("source", "target")],
    );
    let sources = "go b1\n".repeat(60) + "go a1\n";
    fs::write(path.join("sources"), sources).unwrap();
    let generated = notes(&output(path, "generate run --input sources"));
    assert_has(&generated, &["61 of 122 source tokens are unknown"]);
    assert!(!generated.contains("target tokens"), "{generated}");
    let scored = answer(path, "generate run --score", "go a1\tgehe b1\n");
    assert_has(&notes(&scored), &["1 of 2 target tokens are unknown"]);
    let quiet = output(path, "generate run --input sources --quiet");
    assert_eq!(notes(&quiet), "");
    let table = "
        generate run x --prefix gans | --prefix \"gans\": has text that the vocabulary lacks
        generate run x --prefix <unk> | --prefix \"<unk>\": has text that the vocabulary lacks";
    all_rejected(path, "", table);
}

#[test]
fn tokenizer_files_are_used_unless_they_lack_something() {
    let path = &Folder::new();
    let flags = corpus(path, 50);
    succeed(&fit(path, "first", 4, &flags));
    fs::copy(
        path.join("first/target.tokenizer.json"),
        path.join("mine.json"),
    )
    .unwrap();
    // An epoch ends with a smaller step where its number of batches is odd.
    let more = "--run-dir run --epochs 2 --accumulate 2 --tokenizer-file mine.json --batch-tokens 1000 --cache elsewhere";
    let first = notes(&output(path, &format!("{TINY} {flags} {more}")));
    assert!(path.join("run/tokenizer.json").exists() && path.join("elsewhere").is_dir());
    let line = "eval run --hypotheses mine.json";
    rejected(path, line, &["mine.json: is a file that is read"]);
    // A tokeniser file that has changed is noticed.
    let mut json = fs::read(path.join("mine.json")).unwrap();
    json.push(b'\n');
    fs::write(path.join("mine.json"), json).unwrap();
    let again = notes(&output(path, "fit --config run/config.json --dry-run"));
    assert_has(&again, &["mine.json: has changed since the run began"]);
    let batches = first.split(" batches an epoch").next().unwrap();
    let batches: usize = batches.rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(
        step_losses(&path.join("run")).len(),
        2 * batches.div_ceil(2)
    );
    run(
        path,
        "eval run --beam 3 --source valid.source --target valid.target",
    );

    // A tokeniser that has no token for some texts, and one that has none for any.
    let few = |token: &str| {
        format!(
            r#"{{"version": "1.0", "model": {{"type": "BPE", "merges": [],
            "vocab": {{"<pad>": 0, "<bos>": 1, "<eos>": 2, "{token}": 3}}}}}}"#
        )
    };
    for (name, token) in [("some", "d"), ("none", "\u{e000}")] {
        fs::write(path.join("few.json"), few(token)).unwrap();
        let said = fit(path, name, 4, &format!("{flags} --tokenizer-file few.json"));
        let said = text(&said.stderr);
        let warning = "pairs skipped: a side has no token of the tokeniser ";
        assert_has(&said, &[warning, "few.json\n"]);
        let is_refused = said.contains("has no pair with tokens on both sides");
        assert_eq!(is_refused, name == "none", "{said}");
    }
    // What is switched off in training is so in the exported tokeniser, too.
    let mut off: Value = serde_json::from_str(&few("d")).unwrap();
    off["truncation"] =
        json!({"direction": "Right", "max_length": 9, "strategy": "LongestFirst", "stride": 0});
    off["padding"] = json!({"strategy": "BatchLongest", "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"});
    off["model"]["dropout"] = json!(0.5);
    fs::write(path.join("off.json"), off.to_string()).unwrap();
    let flags_of_t5 = format!("{flags} --tokenizer-file off.json --family t5");
    let said = notes(&fit(path, "off", 1, &flags_of_t5));
    let expected = "off.json: switched off here: truncation, padding, dropout\n";
    assert_has(&said, &[expected, "off.json: has no decoder"]);
    run(path, "export off --folder hf");
    let exported = super::json(&path.join("hf/tokenizer.json"));
    assert_eq!(exported["truncation"], Value::Null);
    assert_eq!(exported["padding"], Value::Null);
    assert_eq!(exported["model"]["dropout"], Value::Null);
    // The unknown token of this tokeniser, `<unk>`, is not in its vocabulary.
    let words = r#"{"version": "1.0", "model": {"type": "WordLevel", "unk_token": "<unk>",
        "vocab": {"<pad>": 0, "<bos>": 1, "<eos>": 2, "der": 3}}}"#;
    fs::write(path.join("words.json"), words).unwrap();
    let output = fit(
        path,
        "none",
        4,
        &format!("{flags} --tokenizer-file words.json"),
    );
    fails(&output, 2, &["words.json"]);
    assert_eq!(text(&output.stderr).lines().count(), 1);
}

/// Checks that `fit` ends with code 2 and a message that has this part.
fn fit_fails(path: &Path, run: &str, flags: &str, part: &str) {
    fails(&fit(path, run, 4, flags), 2, &[part]);
}

#[test]
fn files_of_the_user_are_not_overwritten() {
    let path = &Folder::new();
    let flags = corpus(path, 50);
    let file = path.join("mine/tokenizer.json");
    fs::create_dir(path.join("mine")).unwrap();
    fs::write(&file, "mine").unwrap();
    fit_fails(path, "mine", &flags, "mine: is not empty");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    // The lock file shows that a killed process left the tokeniser. `fit` then accepts the folder,
    // and removes the tokeniser.
    fs::write(path.join("mine/lock"), "").unwrap();
    succeed(&fit(path, "mine", 4, &flags));
    assert!(!file.exists());
    run(path, "generate mine --input valid.source");
    fit_fails(path, "cache", &flags, "cache");
}

#[test]
fn a_file_of_settings_can_set_steps_for_text() {
    let path = &Folder::new();
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
    run(path, "fit --config run.toml --run-dir run");
    assert_eq!(step_losses(&path.join("run")).len(), 3);
    // The run's paths are absolute, so that it can be resumed from another folder.
    let config = json(&path.join("run/config.json"));
    let source = config["data"]["train"]["source"].as_str().unwrap();
    assert!(Path::new(source).is_absolute(), "{source}");
}

#[cfg(unix)]
#[test]
fn pipes_are_rejected_as_corpora_and_in_the_cache() {
    let path = &Folder::new();
    let flags = corpus(path, 50);
    super::make_pipe(&path.join("fifo"));
    let piped = flags.replacen("train.source", "fifo", 1);
    fit_fails(path, "run", &piped, "fifo: is not a regular file");
    let with = format!("{flags} --tokenizer-file fifo");
    fit_fails(path, "run", &with, "fifo: cannot be read");
    let lock = path.join("cache/lock");
    fs::remove_file(&lock).unwrap();
    super::make_pipe(&lock);
    fit_fails(
        path,
        "run",
        &flags,
        "cache: its file lock cannot be written",
    );
}
