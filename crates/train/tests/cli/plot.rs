//! `train plot`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use training::config::RunConfig;
use training::run::RunFolder;

use super::{
    Folder, all_rejected, assert_has, fails, notes, output, refused, rejected, rows, succeed, text,
    train,
};

/// Trains a run with two layers and two heads, once for all tests, and returns its folder.
pub(super) fn trained() -> &'static Path {
    static RUN: OnceLock<PathBuf> = OnceLock::new();
    RUN.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let run = folder.join("trained");
        let _ = fs::remove_dir_all(&run);
        let flags = "--steps 30 --batch-size 8 --d-model 16 --heads 2 --d-ff 16 --layers 2 \
                     --symbols 9 --max-length 5 --eval-every 10 --eval-lengths 1..8 \
                     --sequences 4 --label-smoothing 0.1 --tensorboard --run-dir";
        let mut command = train(folder);
        succeed(&command.args(flags.split(' ')).arg(&run).output().unwrap());
        run
    })
}

/// Creates a run of five steps without checkpoints.
pub(super) fn small_run(
    folder: &Path,
    name: &str,
    with_evaluation: bool,
    change: impl FnOnce(&mut RunConfig),
) {
    let run = folder.join(name);
    let mut config = RunConfig::copy();
    config.check().unwrap();
    change(&mut config);
    drop(RunFolder::create(Some(&run), &config).unwrap());
    let lines = (1..=5).map(|step| {
        let loss = 6 - step + config.seed;
        let evaluation = format!("{{\"step\":{step},\"valid_loss\":{loss}.5}}\n");
        format!(
            "{{\"step\":{step},\"loss\":{loss},\"learning_rate\":0.1,\"tokens\":100,\
             \"seconds\":{step}.5,\"tokens_per_second\":90,\"gradient_norm\":1}}\n{}",
            if with_evaluation { &evaluation } else { "" }
        )
    });
    fs::write(run.join("metrics.jsonl"), lines.collect::<String>()).unwrap();
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
    let folder = &Folder::new();
    let run = trained().to_str().unwrap();
    let paths = plot(folder, &[run, "--output", "new/here"]);
    let table = "
        loss | Loss, run trained
        accuracy | Accuracy on the validation split, run trained
        learning_rate | Learning rate, run trained
        gradient_norm | Gradient norm, run trained
        throughput | Throughput, run trained
        lengths | Exact match by length, run trained, step 30, test split
        attention-encoder | Encoder self-attention, run trained, step 30
        attention-decoder | Decoder self-attention, run trained, step 30
        attention-cross | Cross-attention from decoder to source, run trained, step 30";
    assert_eq!(paths.len(), 9);
    for (path, (name, title)) in paths.iter().zip(rows(table)) {
        assert_eq!(path, &format!("new/here/{name}.svg"));
        let svg = svg(folder, path);
        let title = format!("<title>{}</title>", title[0]);
        assert!(svg.contains(&title), "{title}");
        let maps = if name.contains("attention") { 4 } else { 0 };
        assert_eq!(svg.matches("\nlayer ").count(), maps, "{path}");
    }
    let loss = svg(folder, &paths[0]);
    assert!(loss.contains("best checkpoint (step "));
    // `fit` has drawn the same plots.
    let drawn = fs::read_to_string(trained().join("pictures/loss.svg")).unwrap();
    assert_eq!(loss, drawn);
    let paths = plot(folder, &[run, "--only", "lengths", "--output", "only"]);
    assert_eq!(paths, ["only/lengths.svg"]);
}

#[test]
fn attention_is_drawn_for_the_given_source() {
    let folder = &Folder::new();
    let run = trained().to_str().unwrap();
    let mut arguments = vec![run, "--source", "7 8 9"];
    arguments.extend("--only attention --output o".split(' '));
    let paths = plot(folder, &arguments);
    let encoder = svg(folder, &paths[0]);
    assert!(encoder.contains("\nsource 7 8 9\n"), "{encoder}");
    // Each of the four maps shows each token twice: as the label of a row and as the label of a
    // column.
    assert_eq!(encoder.matches("\n8\n").count(), 8);
    let decoder = svg(folder, &paths[1]);
    assert!(decoder.contains("source 7 8 9  →  target "), "{decoder}");
    assert!(decoder.contains("&lt;bos&gt;") && decoder.contains("masked"));
}

#[test]
fn runs_share_a_plot_and_seeds_a_line() {
    let folder = &Folder::new();
    for (seed, name) in (0..).zip(["a", "b", "c"]) {
        small_run(folder, name, true, |config| config.seed = seed);
    }
    small_run(folder, "other", false, |config| config.model.d_model = 8);
    let loss = |arguments: &[&str]| {
        let arguments = [arguments, &["--only", "loss"]].concat();
        svg(folder, &plot(folder, &arguments)[0])
    };
    let mean = loss(&["a", "b", "c"]);
    let curve = "\nvalidation, mean ± SD of 3 seeds\n";
    assert_has(&mean, &["\nLoss of 3 seeds\n", curve, "opacity=\"0.18\""]);
    // A run without evaluations takes no curve away.
    let both = loss(&["a", "other"]);
    assert_has(&both, &["\na, validation\n", "\nother, training\n"]);
}

#[test]
fn curves_can_be_drawn_by_time_and_tokens() {
    let folder = &Folder::new();
    small_run(folder, "mine", true, |_| {});
    for (axis, label) in [
        ("steps", "training step"),
        ("seconds", "training time (s)"),
        ("tokens", "target tokens trained on"),
    ] {
        let only = "loss,gradient-norm,throughput";
        let paths = plot(folder, &["mine", "--x", axis, "--only", only]);
        assert_eq!(paths.len(), 3);
        for path in &paths {
            let svg = svg(folder, path);
            assert!(svg.contains(&format!("\n{label}\n")), "{path}");
        }
    }
    // What was asked for and has no data is named. So is the reason for which the default plots
    // lack attention.
    let notes = |line: &str| notes(&output(folder, line));
    assert!(notes("plot mine --only lengths,loss").starts_with("no lengths.svg"));
    let alone = output(folder, "plot mine --only lengths");
    fails(&alone, 2, &["--only lengths: there are no data for it"]);
    let without = notes("plot mine");
    assert_has(&without, &["has no checkpoint"]);
    assert_eq!(without.lines().count(), 1, "{without}");
}

#[test]
fn wrong_flags_and_damaged_runs_are_rejected_in_one_line() {
    let folder = &Folder::new();
    let one = trained().to_str().unwrap();
    small_run(folder, "two", true, |_| {});
    rejected(folder, "plot", &["RUN"]);
    let table = "
        none | RUN none: does not exist
        . | RUN .: has no config.json
        ONE --only los | --only | los | learning-rate
        ONE --only loss --source 1 | --source 1: needs attention among --only
        ONE two --source 1 | --source 1: needs a single RUN
        ONE --x hours | --x | hours | seconds
        ONE two --only attention | --only attention: needs a single RUN
        ONE --backend steam | --backend steam | one of";
    all_rejected(folder, "plot", &table.replace("ONE", one));
    let long = ["1"; 30].join(" ");
    for (words, expected) in [
        ("1 2 six", "--source \"1 2 six\": \"six\" is not a symbol"),
        (" ", "--source \"\": must have at least one symbol"),
        (long.as_str(), "30"),
    ] {
        // The whole command is rejected, so the output folder does not exist.
        let arguments = ["plot", one, "--source", words, "--output", "o"];
        refused(folder, &arguments, &[expected]);
    }
    assert!(!folder.join("o").exists());
    fs::write(folder.join("two/lengths.json"), "{}").unwrap();
    rejected(folder, "plot two", &["two/lengths.json: is damaged"]);
    fs::remove_file(folder.join("two/lengths.json")).unwrap();
    fs::write(
        folder.join("two/metrics.jsonl"),
        "{\"step\":1}\n{\"st\n{}\n",
    )
    .unwrap();
    let damaged = "two/metrics.jsonl: line 2 is damaged";
    rejected(folder, "plot two", &[damaged]);
    fs::remove_file(folder.join("two/metrics.jsonl")).unwrap();
    let unread = "two/metrics.jsonl: cannot be read";
    rejected(folder, "plot two", &[unread]);
}

#[test]
fn plots_that_cannot_be_written_are_errors() {
    let folder = &Folder::new();
    small_run(folder, "run", true, |_| {});
    fs::write(folder.join("file"), "mine").unwrap();
    let arguments = ["plot", "run", "--only", "loss", "--output", "file/below"];
    let expected = ["--output file/below: cannot be written", "folder that can"];
    refused(folder, &arguments, &expected);
    fs::write(folder.join("loss.svg"), "<svg>").unwrap();
    let line = "plot run --only loss --output .";
    let expected = ["--output ./loss.svg: exists and is another file", "--force"];
    rejected(folder, line, &expected);
    super::run(folder, &format!("{line} --force"));
    super::run(folder, line);
    // The temporary file is a link to a device that is always full. Its name contains the process
    // id, which stays the same after `exec`.
    #[cfg(target_os = "linux")]
    {
        fs::create_dir(folder.join("full")).unwrap();
        let script = "ln -s /dev/full full/loss.svg.$$.tmp && exec \"$0\" \"$@\"";
        let output = std::process::Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_train")])
            .args(["plot", "run", "--only", "loss", "--output", "full"])
            .current_dir(folder)
            .output()
            .unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("cannot write full/loss.svg"), "{stderr}");
        assert_eq!(fs::read_dir(folder.join("full")).unwrap().count(), 0);
    }
}
