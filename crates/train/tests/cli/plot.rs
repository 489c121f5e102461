//! `train plot`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{refused, succeed, text, train};

/// Trains a run with two layers, once for all tests, and returns its folder.
fn trained() -> &'static Path {
    static RUN: OnceLock<PathBuf> = OnceLock::new();
    RUN.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let run = folder.join("plot");
        let _ = fs::remove_dir_all(&run);
        let flags = "--steps 30 --batch-size 8 --d-model 16 --heads 2 --d-ff 16 --layers 2 \
                     --symbols 9 --max-length 5 --eval-every 10 --run-dir";
        let mut command = train(folder);
        succeed(&command.args(flags.split(' ')).arg(&run).output().unwrap());
        run
    })
}

/// Copies the run of [`trained`], adds evaluations and an incomplete last line to its
/// `metrics.jsonl`, and writes its `lengths.json`.
fn run(parent: &Path, name: &str) -> PathBuf {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &to);
            } else {
                fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    let run = parent.join(name);
    copy(trained(), &run);
    let _ = fs::remove_dir_all(run.join("pictures"));
    let metrics = run.join("metrics.jsonl");
    let mut lines = fs::read_to_string(&metrics).unwrap();
    lines += "{\"step\":10,\"valid_loss\":2.5,\"token_accuracy\":0.25}\n\
              {\"step\":30,\"valid_loss\":2.0,\"token_accuracy\":0.5,\"exact_match\":0.125}\n\
              {\"step\":31,\"lo";
    fs::write(metrics, lines).unwrap();
    let lengths = (1..=8).map(|length| {
        let (exact, trained) = (1.0 / f64::from(length), length <= 5);
        format!("{{\"length\":{length},\"sequences\":9,\"exact_match\":{exact},\"token_accuracy\":null,\"trained\":{trained}}}")
    });
    let lengths: Vec<String> = lengths.collect();
    fs::write(
        run.join("lengths.json"),
        format!("[{}]", lengths.join(",\n")),
    )
    .unwrap();
    run
}

/// Runs `plot` in a folder and returns the paths that it prints.
fn plot(folder: &Path, arguments: &[&str]) -> Vec<String> {
    let output = train(folder).arg("plot").args(arguments).output().unwrap();
    let stdout = succeed(&output);
    stdout.lines().map(str::to_owned).collect()
}

fn svg(folder: &Path, path: &str) -> String {
    let svg = fs::read_to_string(folder.join(path)).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    svg
}

#[test]
fn a_run_has_all_its_plots() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    run(folder, "mine");
    let paths = plot(folder, &["mine"]);
    let names = [
        "loss",
        "accuracy",
        "learning_rate",
        "gradient_norm",
        "throughput",
        "lengths",
        "attention-encoder",
        "attention-decoder",
        "attention-cross",
    ];
    assert_eq!(paths, names.map(|name| format!("mine/pictures/{name}.svg")));
    for (path, title) in paths.iter().zip([
        "Loss, run mine",
        "Accuracy on the validation split, run mine",
        "Learning rate, run mine",
        "Gradient norm, run mine",
        "Throughput, run mine",
        "Exact match by length, run mine",
        "Encoder self-attention, run mine, step 30",
        "Decoder self-attention, run mine, step 30",
        "Cross-attention from decoder to source, run mine, step 30",
    ]) {
        let svg = svg(folder, path);
        assert!(svg.contains(&format!("<title>{title}</title>")), "{title}");
        assert!(svg.contains(&format!("\n{title}\n")), "{title}");
    }
    for path in &paths[6..] {
        assert_eq!(svg(folder, path).matches("\nlayer ").count(), 4, "{path}");
    }
}

#[test]
fn plots_can_be_chosen_and_written_as_png() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    run(folder, "mine");
    let arguments = [
        "mine",
        "--only",
        "lengths,loss",
        "--png",
        "--output",
        "new/here",
    ];
    let paths = plot(folder, &arguments);
    let expected = ["loss.svg", "loss.png", "lengths.svg", "lengths.png"];
    assert_eq!(paths, expected.map(|name| format!("new/here/{name}")));
    for (svg_path, png_path) in [(&paths[0], &paths[1]), (&paths[2], &paths[3])] {
        let png = fs::read(folder.join(png_path)).unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
        let size = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        let svg = svg(folder, svg_path);
        let half = format!("width=\"{}\" height=\"{}\"", size(16) / 2, size(20) / 2);
        assert!(svg.contains(&half), "{half}");
    }
}

#[test]
fn attention_is_drawn_for_the_given_source() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    run(folder, "mine");
    let arguments = ["mine", "--only", "attention", "--source", "7 8 9"];
    let paths = plot(folder, &arguments);
    assert_eq!(paths.len(), 3);
    let encoder = svg(folder, &paths[0]);
    assert!(encoder.contains("\nsource 7 8 9\n"), "{encoder}");
    // Each of the four maps shows each token twice: as the label of a row and as the label of a
    // column.
    assert_eq!(encoder.matches("\n8\n").count(), 8);
    let decoder = svg(folder, &paths[1]);
    assert!(decoder.contains("source 7 8 9  →  target "), "{decoder}");
    assert!(decoder.contains("&lt;bos&gt;") && decoder.contains("masked"));
    assert!(!svg(folder, &paths[2]).contains("masked"));

    let means = [&arguments[..], &["--layers", "2", "--head-mean"]].concat();
    for path in plot(folder, &means) {
        let svg = svg(folder, &path);
        assert_eq!(svg.matches("\nlayer ").count(), 1, "{svg}");
        assert!(svg.contains("\nlayer 2, mean of 2 heads\n"), "{svg}");
    }
}

#[test]
fn several_runs_share_the_plots() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    run(folder, "one");
    let two = run(folder, "two");
    let config = fs::read_to_string(two.join("config.json")).unwrap();
    fs::write(
        two.join("config.json"),
        config.replace("\"sinusoidal\"", "\"rotary\""),
    )
    .unwrap();
    let paths = plot(folder, &["one", "two"]);
    let names = [
        "loss",
        "accuracy",
        "learning_rate",
        "gradient_norm",
        "throughput",
        "lengths",
    ];
    assert_eq!(paths, names.map(|name| format!("pictures/{name}.svg")));
    for path in &paths {
        let svg = svg(folder, path);
        for text in ["of 2 runs", "sinusoidal positions", "rotary positions"] {
            assert!(svg.contains(text), "{path}: {text}");
        }
    }
    assert!(svg(folder, &paths[0]).contains("\nLoss of 2 runs: validation\n"));
}

/// Writes the folder of a run of five steps, with only the files that plots of curves need.
fn small_run(folder: &Path, name: &str, seed: usize, with_evaluation: bool) {
    let run = folder.join(name);
    fs::create_dir_all(&run).unwrap();
    let config = format!("{{\"seed\":{seed},\"model\":{{\"positions\":\"none\"}}}}");
    fs::write(run.join("config.json"), config).unwrap();
    let lines = (1..=5).map(|step| {
        let loss = 6 - step + seed;
        let evaluation = format!("{{\"step\":{step},\"valid_loss\":{loss}.5}}\n");
        format!(
            "{{\"step\":{step},\"loss\":{loss},\"tokens\":100,\"seconds\":{step}.5,\
             \"tokens_per_second\":90,\"gradient_norm\":1}}\n{}",
            if with_evaluation { &evaluation } else { "" }
        )
    });
    fs::write(run.join("metrics.jsonl"), lines.collect::<String>()).unwrap();
}

#[test]
fn runs_that_differ_in_their_seed_share_a_line_unless_each_is_asked_for() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    let names = ["a", "b", "c"];
    for (seed, name) in names.into_iter().enumerate() {
        small_run(folder, name, seed, true);
    }
    let paths = plot(folder, &["a", "b", "c", "--only", "loss"]);
    let mean = svg(folder, &paths[0]);
    assert!(mean.contains("\nLoss of 3 seeds\n"), "{mean}");
    assert!(mean.contains("opacity=\"0.18\""), "{mean}");
    let each = plot(folder, &["a", "b", "c", "--only", "loss", "--each-seed"]);
    let each = svg(folder, &each[0]);
    assert!(!each.contains("mean"), "{each}");
    for name in names {
        assert!(each.contains(&format!("\n{name}\n")), "{each}");
    }
}

#[test]
fn a_run_without_evaluations_takes_no_curve_away() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    small_run(folder, "with", 0, true);
    small_run(folder, "without", 1, false);
    let paths = plot(
        folder,
        &["with", "without", "--only", "loss", "--each-seed"],
    );
    let svg = svg(folder, &paths[0]);
    assert!(svg.contains("\nwith, validation\n"), "{svg}");
    assert!(svg.contains("\nwithout, training\n"), "{svg}");
    assert!(svg.contains("\nbest checkpoint\n"), "{svg}");
}

#[test]
fn ten_runs_have_ten_lines_with_their_labels_beside() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    let names: Vec<String> = (0..10).map(|index| format!("run-{index}")).collect();
    for (seed, name) in names.iter().enumerate() {
        small_run(folder, name, seed, true);
    }
    let mut arguments: Vec<&str> = names.iter().map(String::as_str).collect();
    arguments.extend(["--only", "loss", "--each-seed"]);
    let svg = svg(folder, &plot(folder, &arguments)[0]);
    for name in &names {
        let (before, _) = svg.split_once(&format!("\n{name}\n")).unwrap();
        let x = before
            .rsplit_once(" x=\"")
            .or(before.rsplit_once("<text x=\""))
            .unwrap()
            .1;
        let x: f64 = x.split('"').next().unwrap().parse().unwrap();
        assert!(x > 4.0 * 790.0, "{name} at {x}");
    }
}

#[test]
fn curves_can_be_drawn_by_time_and_tokens() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    small_run(folder, "mine", 0, true);
    for (axis, label) in [
        ("steps", "training step"),
        ("seconds", "training time (s)"),
        ("tokens", "target tokens trained on"),
    ] {
        let only = "loss,perplexity,gradient-norm,throughput";
        let paths = plot(folder, &["mine", "--x", axis, "--only", only]);
        assert_eq!(paths.len(), 4);
        for path in &paths {
            assert!(
                svg(folder, path).contains(&format!("\n{label}\n")),
                "{path}"
            );
        }
    }
    let metrics = folder.join("mine/metrics.jsonl");
    fs::write(metrics, "{\"step\":1,\"loss\":2}\n").unwrap();
    refused(
        folder,
        &["plot", "mine", "--x", "seconds"],
        &["--x seconds: is not in metrics.jsonl of mine; use --x steps"],
    );
}

#[test]
fn the_papers_plots_need_no_run() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    let paths = plot(folder, &["--positional-encoding", "--warmup"]);
    let names = ["pictures/positional_encoding.svg", "pictures/warmup.svg"];
    assert_eq!(paths, names);
    assert!(svg(folder, names[0]).contains("dimension 7"));
    assert!(svg(folder, names[1]).contains("d_model 256, warm-up 4000 steps"));
    let arguments = ["--warmup", "--output", "figures"];
    assert_eq!(plot(folder, &arguments), ["figures/warmup.svg"]);
}

#[test]
fn missing_data_are_reported_in_a_note() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    let mine = run(folder, "mine");
    fs::remove_dir_all(mine.join("checkpoints")).unwrap();
    fs::remove_file(mine.join("lengths.json")).unwrap();
    let old = "{\"step\":1,\"loss\":3.5,\"learning_rate\":0.001,\"tokens\":9}\n";
    fs::write(mine.join("metrics.jsonl"), old).unwrap();
    let output = train(folder).args(["plot", "mine"]).output().unwrap();
    let expected = "mine/pictures/loss.svg\nmine/pictures/learning_rate.svg\n";
    assert_eq!(succeed(&output), expected);
    let stderr = text(&output.stderr);
    let notes: Vec<&str> = stderr.lines().collect();
    assert_eq!(notes.len(), 4, "{stderr}");
    assert!(notes[0].contains("has no checkpoint"), "{stderr}");
    assert!(notes[1].starts_with("no accuracy.svg: "), "{stderr}");
    assert!(notes[2].starts_with("no gradient_norm.svg: "), "{stderr}");
    assert!(notes[3].starts_with("no lengths.svg: "), "{stderr}");
    // A run on texts has no scores by length.
    let config = fs::read_to_string(mine.join("config.json")).unwrap();
    let of_texts = config.replace("\"task\": \"copy\"", "\"task\": \"text\"");
    assert_ne!(of_texts, config);
    fs::write(mine.join("config.json"), of_texts).unwrap();
    let output = train(folder).args(["plot", "mine"]).output().unwrap();
    assert!(!text(&output.stderr).contains("no lengths.svg"));
}

#[test]
fn wrong_flags_and_damaged_runs_are_rejected_in_one_line() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    let refused = |arguments: &[&str], expected: &[&str]| {
        let arguments: Vec<&str> = ["plot"].iter().chain(arguments).copied().collect();
        refused(folder, &arguments, expected);
    };
    run(folder, "one");
    run(folder, "two");
    refused(&[], &["RUN: is missing", "runs/copy-1", "--warmup"]);
    refused(
        &["none"],
        &["RUN none: does not exist; name the folder of a run"],
    );
    refused(&["."], &["RUN .: has no config.json"]);
    refused(&["one/config.json"], &["one/config.json: is not a folder"]);
    refused(&["--warmup", "--source", "1"], &["--source 1: needs a RUN"]);
    refused(
        &["--warmup", "--only", "loss"],
        &["--only loss: needs a RUN"],
    );
    refused(
        &["one", "--only", "los"],
        &["--only", "los", "learning-rate"],
    );
    refused(
        &["one", "--only", "loss", "--source", "1"],
        &["--source 1: needs attention among --only"],
    );
    refused(
        &["one", "two", "--source", "1"],
        &["--source 1: needs a single RUN"],
    );
    refused(
        &["one", "--only", "loss", "--head-mean"],
        &["--head-mean: needs attention among --only"],
    );
    refused(
        &["one", "two", "--layers", "1"],
        &["--layers 1: needs a single RUN"],
    );
    refused(
        &["one", "--layers", "3"],
        &["--layers 3: must be from 1 to 2, the number of layers"],
    );
    refused(&["one", "--x", "hours"], &["--x", "hours", "seconds"]);
    refused(&["--warmup", "--x", "tokens"], &["--x tokens: needs a RUN"]);
    refused(&["--warmup", "--each-seed"], &["--each-seed: needs a RUN"]);
    refused(
        &["one", "two", "--only", "loss,attention"],
        &["--only attention: needs a single RUN"],
    );
    refused(
        &["one", "--backend", "steam"],
        &["--backend steam", "one of"],
    );
    let attention = |words| ["one", "--only", "attention", "--source", words];
    refused(
        &attention("1 2 six"),
        &["--source \"1 2 six\": \"six\" is not a symbol, which are 1 to 9 in this run"],
    );
    refused(
        &attention(" "),
        &["--source \"\": must have at least one symbol"],
    );
    let long = ["1"; 30].join(" ");
    refused(&attention(&long), &["--source", "30"]);
    // With an invalid source, the whole command is rejected: plots that do not depend on the source
    // are not written, so the output folder does not exist.
    refused(
        &["one", "--source", "x", "--output", "o"],
        &["--source \"x\""],
    );
    assert!(!folder.join("o").exists());

    fs::write(folder.join("two/lengths.json"), "[{\"length\":1}]").unwrap();
    refused(&["two"], &["two/lengths.json: is damaged, must be a list"]);
    fs::remove_file(folder.join("two/lengths.json")).unwrap();
    fs::write(
        folder.join("two/metrics.jsonl"),
        "{\"step\":1}\n{\"st\n{}\n",
    )
    .unwrap();
    refused(&["two"], &["two/metrics.jsonl: line 2 is damaged"]);
    fs::remove_file(folder.join("two/metrics.jsonl")).unwrap();
    refused(&["two"], &["RUN two: has no metrics.jsonl"]);
    fs::remove_dir_all(folder.join("one/checkpoints")).unwrap();
    refused(
        &["one", "--only", "attention"],
        &["checkpoints: has no checkpoint"],
    );
    assert!(!folder.join("one/pictures").exists());
}

#[test]
fn plots_that_cannot_be_written_are_errors() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path();
    fs::write(folder.join("file"), "mine").unwrap();
    super::refused(
        folder,
        &["plot", "--warmup", "--output", "file"],
        &["--output file: cannot be written", "folder that can"],
    );
    // The temporary file is a link to a device that is always full. Its name contains the process
    // id, which stays the same after `exec`.
    #[cfg(target_os = "linux")]
    {
        fs::create_dir(folder.join("full")).unwrap();
        let script = "ln -s /dev/full full/warmup.svg.$$.tmp && exec \"$0\" \"$@\"";
        let program = env!("CARGO_BIN_EXE_train");
        let output = std::process::Command::new("sh")
            .args(["-c", script])
            .arg(program)
            .args(["plot", "--warmup", "--output", "full"])
            .current_dir(folder)
            .output()
            .unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains("cannot write full/warmup.svg"), "{stderr}");
        assert_eq!(fs::read_dir(folder.join("full")).unwrap().count(), 0);
    }
}
