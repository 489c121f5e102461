//! `--no-repeat-ngram`, and `train eval --hypotheses`.

use std::fs;
use std::path::Path;

use super::task::{TINY, train_copy};
use super::text_task::{corpus, fit};
use super::{Folder, all_rejected, answer, objects, parsed, rejected, run, succeed};

fn generate(folder: &Path, flags: &str, input: &str) -> String {
    succeed(&answer(folder, &format!("generate run {flags}"), input))
}

fn repeats(line: &str, n: usize) -> bool {
    let symbols: Vec<&str> = line.split_whitespace().collect();
    let ngrams: Vec<&[&str]> = symbols.windows(n).collect();
    (1..ngrams.len()).any(|index| ngrams[..index].contains(&ngrams[index]))
}

#[test]
fn ngrams_are_not_repeated() {
    let folder = &Folder::new();
    let flags = format!("{TINY} --symbols 9 --max-length 18 --run-dir run");
    run(folder, &flags);
    let input = "1 1 1 1\n2 3 2 3 2\n5\n7 8 9\n";
    // Without `--no-repeat-ngram`, some targets of this length repeat bigrams.
    let long = "--min-length 16 --max-length 16 --forbid <unk> --forbid <pad> --forbid <bos>";
    assert!(
        generate(folder, long, input)
            .lines()
            .any(|line| repeats(line, 2))
    );
    for method in ["", "--beam 4", "--sample --seed 3"] {
        let flags = format!("{long} {method} --no-repeat-ngram 2");
        let output = generate(folder, &flags, input);
        assert_eq!(output.lines().count(), 4);
        assert!(
            !output.lines().any(|line| repeats(line, 2)),
            "{flags}: {output}"
        );
    }
    let table = "
        --no-repeat-ngram -1 | --no-repeat-ngram
        --no-repeat-ngram x | --no-repeat-ngram
        --score --no-repeat-ngram 2 | --no-repeat-ngram";
    all_rejected(folder, "generate run", table);
}

#[test]
fn the_hypotheses_of_a_split_are_written() {
    let folder = &Folder::new();
    train_copy(folder, "run", "");
    let eval = "eval run --no-repeat-ngram 1 --hypotheses";
    let scores = parsed(folder, &format!("{eval} hyp.jsonl --json"));
    run(folder, &format!("{eval} hyp.txt"));
    let lines = fs::read_to_string(folder.join("hyp.txt")).unwrap();
    let records = fs::read_to_string(folder.join("hyp.jsonl")).unwrap();
    let records = objects(&records);
    assert_eq!(scores["sequences"], records.len());
    assert_eq!(lines.lines().count(), records.len());
    let mut right = 0;
    for (line, record) in lines.lines().zip(&records) {
        assert_eq!(record["hypothesis"], line);
        // The task is to copy, so the reference equals the source.
        assert_eq!(record["source"], record["reference"]);
        assert!(!repeats(line, 1), "{line}");
        right += usize::from(record["hypothesis"] == record["reference"]);
    }
    let expected = right as f64 / records.len() as f64;
    assert!((scores["exact_match"].as_f64().unwrap() - expected).abs() < 1e-12);
    let table = "
        --hypotheses no/such/folder | --hypotheses no/such/folder
        --hypotheses - | --hypotheses -
        --hypotheses . | --hypotheses . | it is a folder
        --hypotheses h --eval-lengths 4 | --hypotheses
        --no-repeat-ngram 2 --eval-lengths 4 | --no-repeat-ngram";
    all_rejected(folder, "eval run", table);
    // A hard link to a checkpoint becomes a file of its own.
    let model = folder.join("run/checkpoints/step-12/model.safetensors");
    let before = fs::read(&model).unwrap();
    fs::hard_link(&model, folder.join("linked")).unwrap();
    run(folder, "eval run --no-repeat-ngram 1 --hypotheses linked");
    assert_eq!(fs::read(&model).unwrap(), before);
    assert_eq!(fs::read_to_string(folder.join("linked")).unwrap(), lines);
    // A read-only file stays.
    let mut permissions = fs::metadata(folder.join("linked")).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(folder.join("linked"), permissions).unwrap();
    let read_only = "is read-only; name another file";
    rejected(
        folder,
        "eval run --hypotheses linked",
        &["--hypotheses linked", read_only],
    );
    rejected(
        folder,
        "generate run 1 -o linked",
        &["--output linked", read_only],
    );
}

#[test]
fn the_hypotheses_of_a_corpus_can_be_scored() {
    let folder = &Folder::new();
    let flags = format!("{} --tokenizer word", corpus(folder, 60));
    succeed(&fit(folder, "run", 30, &flags));
    let flags = "eval run --source valid.source --target valid.target --json --hypotheses";
    let scores = parsed(folder, &format!("{flags} out"));
    let again = parsed(folder, "score out valid.target --json");
    for key in ["segments", "bleu", "chrf", "exact_match", "word_error_rate"] {
        assert_eq!(scores[key], again[key], "{key}");
    }
    run(folder, &format!("{flags} out.jsonl"));
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let records = objects(&read("out.jsonl"));
    assert_eq!(records.len(), 20);
    let [outputs, sources, targets] = ["out", "valid.source", "valid.target"].map(read);
    let texts = sources.lines().zip(targets.lines());
    for ((record, line), (source, target)) in records.iter().zip(outputs.lines()).zip(texts) {
        assert_eq!(record["hypothesis"], line);
        assert_eq!(record["source"], source);
        assert_eq!(record["reference"], target);
    }
    // A file of the corpus is not overwritten.
    let line = format!("{flags} ./valid.target");
    rejected(folder, &line, &["--hypotheses ./valid.target"]);
    assert_eq!(read("valid.target"), targets);
}
