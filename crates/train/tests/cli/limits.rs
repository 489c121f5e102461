//! Sequences longer than those of training, which `generate` and `eval` treat in the same way.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::task::train_tiny;
use super::text_task::{corpus, fit};
use super::{Folder, answer, assert_has, output, parsed, run, succeed, text};

/// Runs `generate` with flags on an input, and returns stdout, stderr and the exit code.
fn generate(folder: &Path, flags: &str, input: &str) -> (String, String, Option<i32>) {
    let output = answer(folder, &format!("generate -q {flags}"), input);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    (stdout, stderr, output.status.code())
}

#[test]
fn generate_takes_the_lengths_that_eval_takes() {
    let folder = &Folder::new();
    // This model learns to copy. Its sinusoidal positions extend beyond the trained lengths of 1 to
    // 5.
    let size = "--layers 1 --batch-size 32 --d-model 32 --heads 2 --d-ff 64 --steps 600";
    let command = format!("fit {size} --symbols 9 --max-length 5 --run-dir copy");
    run(folder, &command);
    train_tiny(folder, "rotary", "--positions rotary");
    train_tiny(folder, "learned", "--positions learned");
    let line = |length: usize| vec!["4"; length].join(" ") + "\n";
    for name in ["copy", "rotary"] {
        let evaluation = run(folder, &format!("eval {name} --eval-lengths 8 --json"));
        assert!(evaluation.contains("\"length\":8"), "{evaluation}");
        let input: String = [3, 8, 30, 2, 8].map(line).concat();
        let (together, stderr, code) = generate(folder, name, &input);
        assert_eq!((code, &stderr[..]), (Some(0), ""), "{name}");
        let alone: String = input
            .lines()
            .map(|line| generate(folder, name, line).0)
            .collect();
        assert_eq!(together, alone);
        let (streamed, ..) = generate(folder, &format!("{name} --stream"), &input);
        assert_eq!(streamed, together);
        // Without an end symbol, an output is one symbol longer than its source, but has at least 6
        // symbols: the length of the longest targets of training, end symbol included. With
        // `--max-length`, every output has the given length.
        let endless = format!("{name} --forbid <eos>");
        let words = |flags: &str| -> Vec<usize> {
            let (stdout, ..) = generate(folder, flags, &input);
            let words = |line: &str| line.split(' ').count();
            stdout.lines().map(words).collect()
        };
        assert_eq!(words(&endless), [6, 9, 31, 6, 9]);
        assert_eq!(words(&format!("{endless} --max-length 20")), [20; 5]);
        let pairs = format!("{}\t{}", line(8).trim(), line(40));
        let (score, ..) = generate(folder, &format!("{name} --score"), &pairs);
        assert!(score.trim().parse::<f64>().unwrap() < 0.0, "{score}");
    }
    // Learned positions are a table of 7 rows, so longer sequences are rejected.
    let (stdout, stderr, code) = generate(folder, "learned", &(line(7) + &line(8)));
    assert_eq!((stdout.lines().count(), code), (1, Some(2)));
    assert_has(&stderr, &["line 2 ", " 7 "]);
    let (_, stderr, _) = generate(folder, "learned --score", "1\t1 1 1 1 1 1 1\n");
    assert!(stderr.contains("its target has 7 symbols"), "{stderr}");
    let (_, stderr, _) = generate(folder, "learned --max-length 8", "1\n");
    assert!(stderr.contains("(7)"), "{stderr}");
}

#[test]
fn long_texts_are_truncated_alike() {
    let folder = &Folder::new();
    let flags = corpus(folder, 200);
    // The models below have 42 positions if positions are learned. Two of these lines have more
    // tokens than that.
    let sources = fs::read_to_string(folder.join("valid.source")).unwrap();
    let lines: Vec<&str> = sources.lines().take(9).collect();
    let long = format!("{}\n{}\n{}\n", lines[0], lines.join(" "), lines.join(" x "));
    fs::write(folder.join("long.source"), &long).unwrap();
    fs::write(folder.join("long.target"), "a\nb\nc\n").unwrap();
    for (name, positions, truncated) in [("sine", "sinusoidal", 0), ("learned", "learned", 2)] {
        let more = format!("{flags} --positions {positions} --max-length 40 --overlong cut");
        succeed(&fit(folder, name, 3, &more));
        let named = "--source long.source --target long.target";
        let output = output(folder, &format!("eval {name} {named} --json"));
        let evaluation: Value = serde_json::from_str(&succeed(&output)).unwrap();
        let stderr = text(&output.stderr);
        let expected = format!("{truncated} pairs with a side of");
        assert_eq!(stderr.contains(&expected), truncated > 0, "{stderr}");

        let (outputs, stderr, code) = generate(folder, name, &long);
        assert_eq!(code, Some(0), "{stderr}");
        let warnings = stderr
            .lines()
            .filter(|line| line.starts_with("warning: line "));
        assert_eq!(warnings.count(), truncated, "{stderr}");
        fs::write(folder.join("outputs"), &outputs).unwrap();
        let score = parsed(folder, "score outputs long.target --json");
        for number in ["bleu", "chrf", "character_error_rate"] {
            assert_eq!(
                evaluation[number], score[number],
                "{name} {number}: {outputs}"
            );
        }
    }
}
