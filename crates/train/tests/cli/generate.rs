//! `train generate` and `train eval`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use super::{
    Folder, all_rejected, answer, assert_has, fails, json, objects, refused, rejected, shell,
    succeed, text, train,
};

/// Returns the folder of a run that copies some sequences correctly and others not.
fn run() -> &'static Path {
    static RUN: OnceLock<PathBuf> = OnceLock::new();
    RUN.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let run = folder.join("generate");
        let _ = std::fs::remove_dir_all(&run);
        let flags = "--steps 250 --batch-size 16 --d-model 16 --heads 2 --d-ff 16 --layers 1 \
                     --symbols 9 --max-length 5 --dropout 0.1 --run-dir generate";
        super::run(folder, flags);
        run
    })
}

/// Runs a command on [`run`].
fn on_run(command: &str, flags: &str, input: impl Into<Vec<u8>>) -> Output {
    let mut process = train(run());
    process.arg(command).arg(run());
    let flags = flags.split(' ').filter(|flag| !flag.is_empty());
    process.args(flags).write_stdin(input).output().unwrap()
}

fn generate(flags: &str, input: &str) -> String {
    succeed(&on_run("generate", flags, input))
}

fn generate_json(flags: &str, input: &str) -> Vec<Value> {
    objects(&generate(&format!("--json {flags}"), input))
}

/// Returns the best hypothesis of each line.
fn best(flags: &str, input: &str) -> Vec<Value> {
    let lines = generate_json(flags, input);
    lines
        .iter()
        .map(|line| line["hypotheses"][0].clone())
        .collect()
}

fn numbers(values: &Value) -> Vec<f64> {
    let values = values.as_array().unwrap();
    values.iter().map(|x| x.as_f64().unwrap()).collect()
}

fn words(values: &Value) -> Vec<&str> {
    let values = values.as_array().unwrap();
    values.iter().map(|x| x.as_str().unwrap()).collect()
}

/// Sources of different lengths, a blank line among them.
const SOURCES: &str = "3 1 4 1 5\n9 2 6\n5\n\n8 9 7 9\n3 2\n3 8 4 6\n2 6 4 3 3\n1 1 1 1 1\n7\n";

#[test]
fn outputs_do_not_depend_on_the_other_lines() {
    for flags in [
        "",
        "--beam 3",
        "--beam 3 --n-best 2",
        "--sample --seed 3",
        "--sample --temperature 2 --n-best 3",
        "--repetition-penalty 1.5 --prefix 2",
    ] {
        let together = generate(flags, SOURCES);
        for size in [1, 3] {
            let flags = format!("{flags} --batch-size {size}");
            assert_eq!(generate(&flags, SOURCES), together, "{flags}");
        }
        if flags.contains("n-best") {
            continue;
        }
        assert_eq!(together.lines().count(), 10, "{together}");
        assert_eq!(together.lines().nth(3), Some(""), "{together}");
    }
    let forwards = generate("", SOURCES);
    let reversed: Vec<&str> = SOURCES.lines().rev().collect();
    let backwards = generate("", &reversed.join("\n"));
    assert_eq!(
        backwards.lines().rev().collect::<Vec<_>>(),
        forwards.lines().collect::<Vec<_>>()
    );
    let different: std::collections::HashSet<&str> = forwards.lines().collect();
    assert!(different.len() > 5, "{forwards}");
}

#[test]
fn json_has_the_same_outputs_and_consistent_scores() {
    let plain = generate("", SOURCES);
    let lines = generate_json("", SOURCES);
    assert_eq!(lines.len(), 10);
    for (index, (line, target)) in lines.iter().zip(plain.lines()).enumerate() {
        assert_eq!(line["line"], index + 1);
        assert_eq!(line["source"], SOURCES.lines().nth(index).unwrap());
        if index == 3 {
            assert_eq!(line["hypotheses"], serde_json::json!([]));
            continue;
        }
        let best = &line["hypotheses"][0];
        assert_eq!(best["target"], target);
        assert_eq!(words(&best["tokens"]).join(" "), target);
        let each = numbers(&best["token_log_probabilities"]);
        let finished = best["finished"].as_bool().unwrap();
        assert_eq!(
            each.len(),
            words(&best["tokens"]).len() + usize::from(finished)
        );
        let sum = best["log_probability"].as_f64().unwrap();
        assert!((each.iter().sum::<f64>() - sum).abs() < 1e-6);
        assert_eq!(best["score"], best["log_probability"]);
        assert!(best.get("alignment").is_none());
    }
}

#[test]
fn n_best_lines_begin_with_the_number_of_their_source() {
    let lines = generate_json("--beam 4 --n-best 3", SOURCES);
    let mut expected = String::new();
    for line in &lines {
        let hypotheses = line["hypotheses"].as_array().unwrap();
        if line["line"] == 4 {
            assert!(hypotheses.is_empty());
            expected += "4\t\t\n";
        }
        let scores: Vec<f64> = hypotheses
            .iter()
            .map(|h| h["score"].as_f64().unwrap())
            .collect();
        assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
        for (hypothesis, score) in hypotheses.iter().zip(scores) {
            let target = hypothesis["target"].as_str().unwrap();
            expected += &format!("{}\t{score:.4}\t{target}\n", line["line"]);
        }
    }
    assert_eq!(generate("--beam 4 --n-best 3", SOURCES), expected);
    assert_eq!(expected.lines().count(), 28);
}

#[test]
fn length_penalties_divide_the_log_probability() {
    let gnmt: fn(f64) -> f64 = |n| ((5.0 + n) / 6.0).powf(0.6);
    for (flags, divisor) in [
        (
            "--beam 3 --length-penalty none",
            (|_| 1.0) as fn(f64) -> f64,
        ),
        ("--beam 3 --length-penalty average", |n| n),
        ("--beam 3 --length-penalty gnmt", gnmt),
        ("--beam 3", gnmt),
        ("--beam 1 --alpha 2", |n| ((5.0 + n) / 6.0).powi(2)),
    ] {
        for best in best(flags, "3 1 4\n5 2 6 6 1\n") {
            let length = numbers(&best["token_log_probabilities"]).len() as f64;
            let expected = best["log_probability"].as_f64().unwrap() / divisor(length);
            let score = best["score"].as_f64().unwrap();
            assert!((score - expected).abs() < 1e-9, "{flags}: {best}");
        }
    }
}

#[test]
fn samples_are_functions_of_seed_and_line() {
    let same = "3 1 4 1 5\n".repeat(20);
    let hot = "--sample --temperature 3";
    let samples = generate(hot, &same);
    assert_eq!(generate(&format!("{hot} --seed 0"), &same), samples);
    assert_ne!(generate(&format!("{hot} --seed 1"), &same), samples);
    let different: std::collections::HashSet<&str> = samples.lines().collect();
    assert!(different.len() > 10, "{samples}");
    // A sample depends on the number of its line. Blank and invalid lines count as lines, so the
    // samples of the other lines stay the same.
    let mut lines: Vec<&str> = same.lines().collect();
    (lines[2], lines[11]) = ("", "x");
    let output = on_run("generate", &format!("{hot} --keep-going"), lines.join("\n"));
    fails(&output, 2, &[]);
    let mut expected: Vec<&str> = samples.lines().collect();
    (expected[2], expected[11]) = ("", "");
    assert_eq!(text(&output.stdout).lines().collect::<Vec<_>>(), expected);
    // With these settings, sampling always draws the most likely token.
    let greedy = generate("", SOURCES);
    for cold in ["--top-k 1", "--top-p 0.000001", "--temperature 0.001"] {
        assert_eq!(
            generate(&format!("--sample {cold}"), SOURCES),
            greedy,
            "{cold}"
        );
    }
}

#[test]
fn outputs_obey_constraints() {
    let sources = SOURCES.replace("\n\n", "\n");
    let tokens = |flags: &str| -> Vec<Vec<String>> {
        let own = |best: &Value| {
            words(&best["tokens"])
                .into_iter()
                .map(String::from)
                .collect()
        };
        best(flags, &sources).iter().map(own).collect()
    };
    let free = tokens("");
    assert!(free.iter().any(|tokens| tokens.len() == 1), "{free:?}");
    assert!(
        free.iter().any(|tokens| tokens.contains(&"3".into())),
        "{free:?}"
    );
    for method in ["", "--beam 3", "--sample --temperature 2"] {
        let tokens = |flags: &str| tokens(&format!("{method} {flags}"));
        let long = tokens("--min-length 4 --max-length 5");
        assert!(
            long.iter().all(|tokens| (4..=5).contains(&tokens.len())),
            "{long:?}"
        );
        let short = tokens("--max-length 2");
        assert!(short.iter().all(|tokens| tokens.len() <= 2), "{short:?}");
        let without = tokens("--forbid 3 --forbid 1");
        let is_allowed = |token: &String| token != "3" && token != "1";
        assert!(without.iter().flatten().all(is_allowed), "{without:?}");
        let begun = tokens("--prefix 7\u{a0}8");
        assert!(
            begun
                .iter()
                .all(|tokens| tokens.starts_with(&["7".into(), "8".into()]))
        );
    }
    let endless = best("--forbid <eos>", &sources);
    assert!(endless.iter().all(|best| best["finished"] == false));
    assert!(endless.iter().all(|best| words(&best["tokens"]).len() == 6));
    let repeated = |targets: &[Vec<String>]| -> usize {
        let repeats =
            |t: &Vec<String>| t.len() - t.iter().collect::<std::collections::HashSet<_>>().len();
        targets.iter().map(repeats).sum()
    };
    let varied = tokens("--repetition-penalty 1000");
    assert!(repeated(&free) > 0);
    assert_eq!(repeated(&varied), 0, "{varied:?}");
}

#[test]
fn alignments_are_distributions_over_the_source() {
    let lines = generate_json("--alignments --beam 2 --n-best 2", SOURCES);
    for line in lines.iter().filter(|line| line["line"] != 4) {
        let width = line["source"].as_str().unwrap().split(' ').count();
        assert_eq!(line["hypotheses"].as_array().unwrap().len(), 2);
        for hypothesis in line["hypotheses"].as_array().unwrap() {
            let rows = hypothesis["alignment"].as_array().unwrap();
            assert_eq!(rows.len(), words(&hypothesis["tokens"]).len());
            for row in rows {
                assert_eq!(numbers(row).len(), width, "{line}");
                assert!(
                    (numbers(row).iter().sum::<f64>() - 1.0).abs() < 1e-5,
                    "{row}"
                );
            }
        }
    }
}

#[test]
fn streams_have_the_same_tokens() {
    for flags in "|--sample --temperature 2 --seed 5|--prefix 2|--max-length 3".split('|') {
        let streamed = generate(&format!("--stream {flags}"), SOURCES);
        assert_eq!(streamed, generate(flags, SOURCES), "{flags}");
    }
    let output = on_run("generate", "--stream --keep-going", "1 2\nx\n3\n");
    fails(&output, 2, &[]);
    let (stdout, whole) = (text(&output.stdout), generate("", "1 2\n\n3\n"));
    assert_eq!(stdout, whole);
}

#[test]
fn scores_are_those_of_generation() {
    let found = generate_json("", SOURCES);
    let pair = |line: &Value| match line["hypotheses"][0]["target"].as_str() {
        Some(target) => format!("{}\t{target}\n", line["source"].as_str().unwrap()),
        None => "\n".into(),
    };
    let pairs: String = found.iter().map(pair).collect();
    let scores = generate_json("--score", &pairs);
    let plain = generate("--score", &pairs);
    assert_eq!(scores.len(), 10);
    for ((score, found), plain) in scores.iter().zip(&found).zip(plain.lines()) {
        assert_eq!(score["line"], found["line"]);
        assert_eq!(score["source"], found["source"]);
        let best = &found["hypotheses"][0];
        if found["line"] == 4 {
            assert_eq!((&score["log_probability"], plain), (&Value::Null, ""));
            continue;
        }
        assert_eq!(score["target"], best["target"]);
        assert_eq!(score["tokens"], best["tokens"]);
        let sum = score["log_probability"].as_f64().unwrap();
        assert_eq!(plain, format!("{sum:.4}"));
        let each = numbers(&score["token_log_probabilities"]);
        assert_eq!(each.len(), words(&score["tokens"]).len() + 1);
        if best["finished"] == true {
            let expected = numbers(&best["token_log_probabilities"]);
            let near = each
                .iter()
                .zip(&expected)
                .all(|(a, b)| (a - b).abs() < 1e-4);
            assert!(near, "{each:?}, generated {expected:?}");
        }
    }
    // An empty target has only the end symbol.
    assert_eq!(
        numbers(&generate_json("--score", "1 2\t\n")[0]["token_log_probabilities"]).len(),
        1
    );
}

#[test]
fn a_task_without_an_end_symbol_has_targets_of_one_length() {
    let folder = &Folder::new();
    let flags =
        "fit --preset annotated-copy --steps 2 --d-model 8 --heads 2 --d-ff 8 --run-dir run";
    let run = |line: &str, input: &str| succeed(&answer(folder, line, input));
    run(flags, "");
    let found = objects(&run(
        "generate run --json --alignments",
        "1 2 3 4 5 6 7 8 9 10\n1 2\n",
    ));
    for line in found {
        let best = &line["hypotheses"][0];
        assert_eq!(words(&best["tokens"]).len(), 9);
        assert_eq!(numbers(&best["token_log_probabilities"]).len(), 9);
        assert_eq!(best["alignment"].as_array().unwrap().len(), 9);
        assert_eq!(best["finished"], false);
    }
    assert_eq!(run("generate run --score", "1 2\t\n"), "0.0000\n");
    let summary = json(&folder.join("run/summary.json"));
    let eval = &objects(&run("eval run --json", ""))[0];
    assert_eq!(eval["token_accuracy"], summary["token_accuracy"]);
}

/// Cases in which the third line is wrong: the flags of the command, and the line.
const WRONG_LINES: [(&str, &[u8]); 8] = [
    ("", b"1 x 2"),
    ("", b"10"),
    ("", b"1 <eos>"),
    ("", b"1 \xff"),
    ("--beam 2", b"\x1b[0m"),
    ("--score", b"1 2"),
    ("--score", b"1 2\t1\t2"),
    ("--score", b"\t1 2"),
];

#[test]
fn a_wrong_line_is_named_and_the_lines_before_it_have_outputs() {
    for (flags, wrong) in WRONG_LINES {
        let good = if flags == "--score" {
            "1 2\t1 2\n"
        } else {
            "1 2\n"
        };
        let input = [good.as_bytes(), b"\n", wrong, b"\n", good.as_bytes()].concat();
        let answer = generate(flags, good);
        let fails = |more: &str| {
            let output = on_run("generate", &format!("-q {flags} {more}"), input.clone());
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{stderr}");
            assert!(stderr.contains("line 3 \""), "{stderr:?}");
            assert!(!stderr.contains('\x1b'), "{stderr:?}");
            (text(&output.stdout), stderr)
        };
        for size in ["--batch-size 1", "--batch-size 2", "--batch-size 64"] {
            let (stdout, stderr) = fails(size);
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            assert_eq!(stdout, format!("{answer}\n"), "{stderr}");
        }
        let (stdout, stderr) = fails("--keep-going");
        assert_eq!(stdout, format!("{answer}\n\n{answer}"), "{stderr}");
        assert!(stderr.contains("1 of 4 lines"), "{stderr}");
        let lines = objects(&fails("--keep-going --json").0);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[2]["line"], 3);
        assert!(lines[2]["error"].is_string() && lines[3]["error"].is_null());
    }
    let output = on_run("generate", "--keep-going --beam 2 --n-best 2", "x\n1\n");
    let stdout = text(&output.stdout);
    assert!(stdout.starts_with("1\t\t\n2\t-"), "{stdout}");
}

#[test]
fn targets_to_score_have_room_for_their_end() {
    assert_eq!(generate("--score", "1\t1 1 1 1 1 1\n").lines().count(), 1);
    // This target needs more positions than training had. Sinusoidal positions can be extended.
    assert_eq!(generate("--score", "1\t1 1 1 1 1 1 1\n").lines().count(), 1);
}

#[test]
fn generate_reads_a_file() {
    let folder = &Folder::new();
    let file = folder.join("sources.txt");
    std::fs::write(&file, SOURCES.replace('\n', "\r\n")).unwrap();
    let flags = format!("--input {} --backend flex", file.display());
    assert_eq!(generate(&flags, "9 9 9\n"), generate("", SOURCES));
    assert_eq!(generate("", ""), "");
    let none = folder.join("none");
    for path in [none.as_path(), folder] {
        let flags = format!("--input {}", path.display());
        fails(&on_run("generate", &flags, ""), 2, &[&flags]);
    }
}

#[test]
fn texts_may_stand_in_the_command_line() {
    let folder = &Folder::new();
    let on_texts = |texts: &[&str], flags: &str| {
        let mut process = train(folder);
        process.arg("generate").arg(run()).args(texts);
        process.args(flags.split_whitespace()).output().unwrap()
    };
    let expected = generate("--beam 2", "3 1 4\n\n5\n");
    for texts in [&["3 1 4", "", "5"][..], &["3 1 4\n\n5"]] {
        assert_eq!(succeed(&on_texts(texts, "--beam 2")), expected);
    }
    fails(&on_texts(&["1", "x"], ""), 2, &["error: line 2 \"x\": "]);
    std::fs::write(folder.join("file"), "1\n").unwrap();
    let wrong = text(&on_texts(&["file"], "").stderr);
    assert!(wrong.contains("TEXT file: is a file; to read it, use --input file"));
    fails(
        &on_texts(&["-"], ""),
        2,
        &["TEXT -: standard input is read without a TEXT"],
    );
    assert!(text(&on_texts(&["1"], "--input file").stderr).contains("--input"));
}

#[test]
fn outputs_are_written_to_a_file_whole_or_not_at_all() {
    let folder = &Folder::new();
    let file = folder.join("out");
    let flags = |more: &str| format!("--output {} {more}", file.display());
    std::fs::write(&file, "old").unwrap();
    fails(&on_run("generate", &flags(""), "1 2\nx\n"), 2, &[]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    assert_eq!(generate(&flags("--batch-size 2"), SOURCES), "");
    let read = || std::fs::read_to_string(&file).unwrap();
    assert_eq!(read(), generate("", SOURCES));
    let partly = on_run("generate", &flags("--keep-going"), "1 2\nx\n");
    fails(&partly, 2, &[]);
    assert_eq!(read(), generate("", "1 2\n\n"));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
    let table = format!(
        "
        --output - | --output -: must be a file
        --output a.gz | --output a.gz: must be a name without .gz
        --output a.jsonl | --output a.jsonl: needs --json
        --output {0} --input {0} | would be lost
        --output {1}/config.json | config.json: is in the folder of the run
        --output {1}/checkpoints/new | checkpoints/new: is in the folder of the run
        --output a --stream | --stream",
        file.display(),
        run().display()
    );
    for unwritable in [".", "no/such/file"] {
        let output = on_run("generate", &format!("--output {unwritable}"), "1\n");
        let expected = format!("error: --output {unwritable}: cannot be written");
        assert!(text(&output.stderr).contains(&expected));
    }
    let before = format!("generate {}", run().display());
    all_rejected(folder, &before, &table);
    let line = format!("TRAIN generate {} -o out < out", run().display());
    let own = shell(folder, &line);
    fails(&own, 2, &["--output out: ", "would be lost"]);
    std::fs::write(folder.join("both"), "1 2\n3 4\n").unwrap();
    std::fs::hard_link(folder.join("both"), folder.join("other")).unwrap();
    for input in ["--input both", "< both", "--input other"] {
        let line = format!("TRAIN generate {} {input} >> both", run().display());
        let expected = "--input ";
        fails(
            &shell(folder, &line),
            2,
            &[expected, "is the file of standard output"],
        );
    }
}

#[test]
fn outputs_do_not_wait_for_the_end_of_the_input() {
    let mut process = std::process::Command::new(env!("CARGO_BIN_EXE_train"))
        .args(["generate", "--batch-size", "2"])
        .arg(run())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let mut answers = BufReader::new(process.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        stdin.write_all(b"1 2\n\n").unwrap();
        stdin.flush().unwrap();
        assert_ne!(answers.next().unwrap().unwrap(), "");
        assert_eq!(answers.next().unwrap().unwrap(), "");
    }
    drop(stdin);
    assert!(answers.next().is_none());
    assert!(process.wait().unwrap().success());
}

#[test]
fn generate_succeeds_if_stdout_is_closed_early() {
    for flags in ["", "--stream", "--json --batch-size 1"] {
        let line = format!("yes '1 2 3' | TRAIN generate -q . {flags} | head -n 2");
        let output = shell(run(), &format!("{line}; echo ${{PIPESTATUS[1]}}"));
        let stdout = text(&output.stdout);
        assert_eq!(stdout.lines().count(), 3, "{stdout}");
        assert!(stdout.ends_with("\n0\n"), "{stdout}");
        assert_eq!(text(&output.stderr), "", "{flags}");
    }
}

#[test]
fn impossible_flags_are_rejected_in_one_line() {
    // The unit tests of the arguments have more; these are found with the model at hand.
    let folder = &Folder::new();
    let run = run().to_str().unwrap();
    let table = "
        --beam 10001 | --beam 10001: must be at most 10000, for the time
        --beam 2 --n-best 3 | --n-best 3
        --n-best 2 | --n-best 2
        --alpha 1 | --alpha 1
        --sample --beam 2 | --beam
        --sample --temperature nan | --temperature NaN
        --top-k 2 | --sample --top-k
        --max-length 10001 | --max-length 10001
        --min-length 7 | --min-length 7
        --forbid 10 | --forbid \"10\"
        --prefix x | --prefix \"x\"
        --batch-size 99999999999 | --batch-size 99999999999
        --alignments | --json --alignments
        --stream --n-best 2 | --stream
        --score --prefix 1 | --score
        --backend nonsense | --backend nonsense
        --frob | --frob";
    all_rejected(folder, &format!("generate {run}"), table);
    let prefix = ["generate", run, "--prefix", "7 8", "--max-length", "1"];
    refused(folder, &prefix, &["--prefix", "--max-length (1)"]);
    let everything = (1..=9).map(|n| format!("--forbid {n}"));
    let special = ["<pad>", "<bos>", "<eos>", "<unk>"].map(|name| format!("--forbid {name}"));
    let flags: Vec<String> = everything.chain(special).collect();
    let output = on_run("generate", &flags.join(" "), "1\n");
    fails(&output, 2, &["--forbid"]);
    let table = "
        --beam 0 | --beam 0
        --beam 2000000000 | --beam 2000000000
        --alpha 1 | --alpha 1
        --split train | --split";
    all_rejected(folder, &format!("eval {run}"), table);
    rejected(folder, "generate", &["<RUN>", "train generate --help"]);
}

#[test]
fn eval_has_the_scores_of_the_summary() {
    let eval = |flags: &str| -> Value {
        serde_json::from_str(&succeed(&on_run("eval", &format!("--json {flags}"), ""))).unwrap()
    };
    let summary = json(&run().join("summary.json"));
    let exact_match = summary["exact_match"].as_f64().unwrap();
    assert!(0.0 < exact_match && exact_match < 1.0, "{summary}");
    let test = eval("");
    assert_eq!(test["step"], summary["steps"]);
    assert_eq!(test["beam"], 1);
    for field in "task backend sequences exact_match token_accuracy split".split(' ') {
        assert_eq!(test[field], summary[field], "{field}");
    }
    assert!(test["seconds"].as_f64().unwrap() > 0.0);
    let validation = eval("--split validation");
    assert_eq!(validation["loss"], summary["valid_loss"]);
    assert_eq!(validation["sequences"], 500);
    assert_ne!(validation["loss"], test["loss"]);

    let small = eval("--batch-size 7 --backend flex");
    assert_eq!(small["exact_match"], test["exact_match"]);
    let near = |a: &Value, b: &Value| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-5;
    assert!(near(&small["loss"], &test["loss"]));
    let beam = eval("--beam 4 --length-penalty average");
    assert_eq!(beam["beam"], 4);
    assert_ne!(beam["exact_match"], test["exact_match"]);

    let line = succeed(&on_run("eval", "", ""));
    assert_has(&line, &[&format!("exact match {exact_match:.4}")]);
    assert!(line.contains(" on 1,000 test sequences"), "{line}");
}

#[test]
fn folders_without_a_run_are_rejected() {
    let parent = &Folder::new();
    let path = parent.join("run");
    std::fs::create_dir(&path).unwrap();
    for command in ["generate run", "eval run"] {
        rejected(parent, command, &["RUN run", "config.json"]);
    }
    std::fs::copy(run().join("config.json"), path.join("config.json")).unwrap();
    std::fs::create_dir_all(path.join("checkpoints/step-250")).unwrap();
    for command in ["generate run", "eval run"] {
        rejected(parent, command, &["manifest.json"]);
    }
    rejected(parent, "generate none", &["RUN none", "runs/copy-1"]);
}
