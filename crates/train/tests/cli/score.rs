//! `train score`.

use std::path::Path;

use serde_json::Value;

use super::task::run;
use super::{refused, succeed, train};

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../training/tests/fixtures/scores");
    folder.join(name).to_str().unwrap().into()
}

#[test]
fn texts_are_scored() {
    let folder = tempfile::tempdir().unwrap();
    let (hypotheses, references) = (fixture("odd.hyp"), fixture("odd.ref"));
    let text = run(folder.path(), &format!("score {hypotheses} {references}"));
    for expected in [
        "BLEU 58.28  82.5/69.0/58.8/49.4, brevity penalty 0.914, 724 tokens against 789",
        "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
        "chrF 65.14  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0",
        "exact match 0.",
        "on 60 segments",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let flags = "--lower-case --tokenize none --json";
    let json = run(
        folder.path(),
        &format!("score {hypotheses} {references} {flags}"),
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    let signature = "nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:2.6.0";
    assert_eq!(json["bleu_signature"], signature);
    // The references are scored against themselves, through a pipe.
    let text = std::fs::read(&references).unwrap();
    let mut command = train(folder.path());
    command.args(["score", "-", &references]).write_stdin(text);
    let text = succeed(&command.output().unwrap());
    assert!(
        text.starts_with("BLEU 100.00") && text.contains("WER 0.0000"),
        "{text}"
    );
}

#[test]
fn wrong_files_are_rejected_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    write("two", b"a\nb\n");
    write("three", b"a\nb\nc");
    write("empty", b"");
    write("latin", b"a\ncaf\xe9\n");
    for (files, expected) in [
        ("two three", "HYPOTHESES two: has 2 lines, but three has 3"),
        ("empty empty", "REFERENCES empty: is empty"),
        ("two latin", "REFERENCES latin: line 2 is not UTF-8"),
        ("two nowhere", "REFERENCES nowhere: cannot be read"),
        (". two", "HYPOTHESES .: is a folder"),
        (
            "two two three",
            "REFERENCES three: has 3 lines, but two has 2",
        ),
        (
            "two two --compare three",
            "--compare three: has 3 lines, but two has 2",
        ),
        (
            "- two --compare -",
            "-: is standard input, which only one of the files can be",
        ),
        ("two", "<REFERENCES>..."),
        ("two two --paired-bs", "--paired-bs: needs --compare"),
        (
            "two two --paired-bs-n 5",
            "--paired-bs-n 5: needs --paired-bs",
        ),
        ("two two --seed 5", "--seed 5: needs --paired-bs"),
        (
            "two two --compare two --paired-bs --paired-bs-n 0",
            "--paired-bs-n 0: must be at least 1 and at most 1000000",
        ),
    ] {
        let arguments: Vec<&str> = ["score"].into_iter().chain(files.split(' ')).collect();
        refused(folder, &arguments, &[expected]);
    }
}

#[test]
fn several_references_and_systems_are_scored_like_sacrebleu() {
    let folder = tempfile::tempdir().unwrap();
    let expected = std::fs::read(fixture("paired.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let systems = ["base", "equal", "near", "far"];
    for case in expected.as_array().unwrap() {
        let references = case["references"].as_array().unwrap().iter();
        let references: Vec<String> = references
            .map(|name| fixture(&format!("paired.{}", name.as_str().unwrap())))
            .collect();
        let mut command = format!("score {} {}", fixture("paired.base"), references.join(" "));
        let plain = run(folder.path(), &command);
        let signature = case["mixed.13a"]["signatures"][0].as_str().unwrap();
        assert!(plain.contains(signature), "{plain}");
        for system in &systems[1..] {
            command += &format!(" --compare {}", fixture(&format!("paired.{system}")));
        }
        for paired in case["paired"].as_array().unwrap() {
            let (samples, seed) = (&paired["samples"], &paired["seed"]);
            let flags = format!("--paired-bs --paired-bs-n {samples} --seed {seed}");
            let json = run(folder.path(), &format!("{command} {flags} --json"));
            let text = run(folder.path(), &format!("{command} {flags}"));
            for index in [0, 1] {
                let signature = paired["signatures"][index].as_str().unwrap();
                assert!(text.contains(signature), "{text}");
            }
            assert_eq!(json.lines().count(), 4);
            for (system, line) in systems.iter().zip(json.lines()) {
                let line: Value = serde_json::from_str(line).unwrap();
                assert!(line["system"].as_str().unwrap().ends_with(system));
                for metric in ["bleu", "chrf"] {
                    let expected = &paired["systems"][system][metric];
                    let found = &line[format!("{metric}_bootstrap")];
                    assert_eq!(found["p_value"], expected["p_value"]);
                    for (found, key) in [
                        (&line[metric], "score"),
                        (&found["mean"], "mean"),
                        (&found["interval"], "interval"),
                    ] {
                        let [found, expected] =
                            [found, &expected[key]].map(|x| x.as_f64().unwrap());
                        assert!((found - expected).abs() < 1e-4, "{system} {metric} {key}");
                    }
                }
            }
        }
    }
}

#[test]
fn systems_are_listed_with_their_scores() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["base", "near", "ref1"] {
        std::fs::copy(fixture(&format!("paired.{name}")), folder.path().join(name)).unwrap();
    }
    let text = run(
        folder.path(),
        "score base ref1 --compare near --compare ref1",
    );
    let names: Vec<&str> = text
        .split("\n\n")
        .map(|part| part.lines().next().unwrap())
        .collect();
    assert_eq!(names, ["base", "near", "ref1"]);
    assert!(
        text.contains("\nBLEU 41.81 ") && text.contains("\nBLEU 100.00 "),
        "{text}"
    );
    let text = run(folder.path(), "score base ref1 --compare near --paired-bs");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[1..3],
        [
            "base (baseline)  41.81   41.98 ± 5.50            55.53   55.75 ± 4.37",
            "near             50.06   49.89 ± 5.11  0.0160 *  62.23   62.18 ± 3.77  0.0090 *",
        ]
    );
}
