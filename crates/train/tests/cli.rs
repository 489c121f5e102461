//! Runs the program as its users do: results are on stdout, and each mistake gives one clear line.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/environment.rs"]
mod environment;
#[path = "cli/export.rs"]
mod export;
#[path = "cli/faults.rs"]
mod faults;
#[path = "cli/generate.rs"]
mod generate;
#[path = "cli/hypotheses.rs"]
mod hypotheses;
#[path = "cli/lengths.rs"]
mod lengths;
#[path = "cli/limits.rs"]
mod limits;
#[path = "cli/plot.rs"]
mod plot;
#[path = "cli/pretrained.rs"]
mod pretrained;
#[cfg(unix)]
#[path = "cli/prompt.rs"]
mod prompt;
#[path = "cli/report.rs"]
mod report;
#[path = "cli/runs.rs"]
mod runs;
#[path = "cli/score.rs"]
mod score;
#[cfg(target_os = "linux")]
#[path = "cli/screen.rs"]
mod screen;
#[path = "cli/settings.rs"]
mod settings;
#[path = "cli/sides.rs"]
mod sides;
#[path = "cli/status.rs"]
mod status;
#[path = "cli/task.rs"]
mod task;
#[path = "cli/tensorboard.rs"]
mod tensorboard;

#[path = "cli/text.rs"]
mod text_task;
#[path = "cli/tokenize.rs"]
mod tokenize;
#[path = "cli/training.rs"]
mod training;
#[path = "cli/weights.rs"]
mod weights;

fn train(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("train").unwrap();
    command.current_dir(folder).env_remove("RUST_LOG");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Flags of a run that takes at most a second.
const SMALL: [&str; 18] = [
    "--steps",
    "12",
    "--batch-size",
    "8",
    "--d-model",
    "16",
    "--heads",
    "2",
    "--d-ff",
    "16",
    "--layers",
    "1",
    "--symbols",
    "9",
    "--max-length",
    "5",
    "--dropout",
    "0.1",
];

#[cfg(unix)]
fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Returns whether this process ignores SIGHUP, as under `nohup`.
///
/// The programs that it starts then ignore it, too. Without `/proc`, as on macOS, the result is
/// `false`.
#[cfg(unix)]
fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.is_some_and(|set| {
        set.trim()
            .ends_with(['1', '3', '5', '7', '9', 'b', 'd', 'f'])
    })
}

fn succeed(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_run_prints_examples_and_leaves_a_folder_that_explains_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = train(folder.path())
        .arg("fit")
        .args(["--task", "copy"])
        .args(SMALL)
        .output()
        .unwrap();
    let stdout = succeed(&output);
    let lines: Vec<&str> = stdout.lines().collect();
    // The output has five examples, up to five further examples with wrong outputs, and a closing
    // line.
    let (last, examples) = lines.split_last().unwrap();
    assert!((15..=30).contains(&examples.len()), "{stdout}");
    assert_eq!(examples.len() % 3, 0, "{stdout}");
    for sample in examples.chunks(3) {
        assert!(sample[0].starts_with("source   "), "{stdout}");
        let pair = &sample[1..];
        assert!(pair[0].starts_with("expected "), "{stdout}");
        assert!(pair[1].starts_with("decoded "), "{stdout}");
        let is_right = pair[0].strip_prefix("expected ").unwrap().trim()
            == pair[1]
                .strip_prefix("decoded ")
                .unwrap()
                .trim()
                .strip_suffix("  (right)")
                .unwrap_or("no");
        assert!(is_right || pair[1].ends_with("(wrong)"), "{stdout}");
    }
    assert!(
        last.starts_with("exact match ")
            && last.contains("12 steps")
            && last.ends_with("s of training"),
        "{last}"
    );

    let run = folder.path().join("runs/copy-1");
    let summary = json(&run.join("summary.json"));
    for field in [
        "task",
        "backend",
        "parameters",
        "steps",
        "train_seconds",
        "exact_match",
        "token_accuracy",
        "valid_loss",
        "tokens_per_second",
        "peak_rss_bytes",
        "seed",
        "version",
    ] {
        assert!(summary.get(field).is_some(), "summary.json has no {field}");
    }
    assert_eq!(summary["task"], "copy");
    assert_eq!(summary["backend"], "flex");
    assert_eq!(summary["steps"], 12);
    assert!(summary["train_seconds"].as_f64().unwrap() > 0.0);
    assert!(last.contains(&format!("{:.4}", summary["exact_match"].as_f64().unwrap())));
    let config = json(&run.join("config.json"));
    assert_eq!(config["model"]["d_model"], 16);
    assert_eq!(config["data"]["symbols"], 9);
    let steps: Vec<u64> = losses(&run)
        .iter()
        .map(|line| line["step"].as_u64().unwrap())
        .collect();
    assert_eq!(steps, (1..=12).collect::<Vec<u64>>());
    assert!(run.join("checkpoints/step-12/model.safetensors").exists());
    for name in ["loss", "learning_rate"] {
        assert!(run.join(format!("pictures/{name}.svg")).exists(), "{name}");
    }

    // A second run has a folder of its own.
    succeed(&train(folder.path()).args(SMALL).output().unwrap());
    assert!(folder.path().join("runs/copy-2/summary.json").exists());
}

/// Returns the lines of `metrics.jsonl`.
fn metrics(run: &Path) -> Vec<serde_json::Value> {
    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    metrics
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the lines of `metrics.jsonl` without times, which differ from run to run.
fn losses(run: &Path) -> Vec<serde_json::Value> {
    let mut lines = metrics(run);
    for line in &mut lines {
        let fields = line.as_object_mut().unwrap();
        fields.retain(|name, _| !["seconds", "tokens_per_second"].contains(&name.as_str()));
    }
    lines
}

#[test]
fn the_same_seed_gives_the_same_losses_and_another_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, seed: &str| {
        let arguments = ["--seed", seed, "--run-dir", name];
        succeed(
            &train(folder.path())
                .args(SMALL)
                .args(arguments)
                .output()
                .unwrap(),
        );
        let run = folder.path().join(name);
        (
            losses(&run),
            std::fs::read(run.join("checkpoints/step-12/model.safetensors")).unwrap(),
        )
    };
    let once = run("a", "5");
    assert_eq!(once, run("b", "5"));
    assert_ne!(once.0, run("c", "6").0);
}

/// Trains with the default settings, and checks that the copy task is solved.
fn assert_solves(backend: &str) {
    let folder = tempfile::tempdir().unwrap();
    let stdout = succeed(
        &train(folder.path())
            .args(["--backend", backend])
            .output()
            .unwrap(),
    );
    let summary = json(&folder.path().join("runs/copy-1/summary.json"));
    assert_eq!(
        (&summary["split"], &summary["sequences"]),
        (&"test".into(), &1000.into())
    );
    assert!(
        summary["exact_match"].as_f64().unwrap() >= 0.999,
        "{stdout}"
    );
}

#[test]
fn the_default_settings_solve_the_copy_task() {
    assert_solves("flex");
}

#[test]
#[cfg(feature = "ndarray")]
fn the_default_settings_solve_the_copy_task_on_ndarray() {
    assert_solves("ndarray");
}

#[test]
fn training_stops_at_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--steps",
        "2000",
        "--batch-size",
        "32",
        "--d-model",
        "32",
        "--heads",
        "2",
        "--d-ff",
        "64",
        "--layers",
        "1",
        "--symbols",
        "12",
        "--max-length",
        "4",
        "--target",
        "0.9",
        "--eval-every",
        "50",
    ];
    let stdout = succeed(&train(folder.path()).args(arguments).output().unwrap());
    let summary = json(&folder.path().join("runs/copy-1/summary.json"));
    assert!(summary["steps"].as_u64().unwrap() < 2000, "{stdout}");
    assert!(summary["exact_match"].as_f64().unwrap() > 0.5, "{stdout}");
    let reached = stdout
        .lines()
        .filter_map(|line| line.split_once(", exact match "))
        .next_back();
    assert!(
        reached.unwrap().1.parse::<f64>().unwrap() >= 0.9,
        "{stdout}"
    );
}

#[test]
fn the_annotated_preset_prints_its_loss_after_each_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "fit",
        "--preset",
        "annotated-copy",
        "--steps",
        "40",
        "--d-model",
        "16",
        "--heads",
        "2",
        "--d-ff",
        "16",
    ];
    let stdout = succeed(&train(folder.path()).args(arguments).output().unwrap());
    let epochs: Vec<&str> = stdout
        .lines()
        .filter(|line| line.contains("evaluation loss"))
        .collect();
    assert_eq!(epochs.len(), 2, "{stdout}");
    assert!(
        epochs[0].starts_with("step 20: ") && epochs[1].starts_with("step 40: "),
        "{stdout}"
    );
    assert!(stdout.contains("expected 2 3 4 5 6 7 8 9 10"), "{stdout}");
    let config = json(&folder.path().join("runs/annotated-copy-1/config.json"));
    assert_eq!(config["optimization"]["schedule"]["kind"], "noam");
    assert_eq!(config["optimization"]["schedule"]["warmup"], 400);
    assert_eq!(config["optimization"]["batch_size"], 30);
}

#[test]
fn other_models_train_too() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        [
            "--norm",
            "post",
            "--positions",
            "rotary",
            "--activation",
            "swiglu",
            "--weight-tying",
            "all",
        ],
        [
            "--norm",
            "pre",
            "--positions",
            "learned",
            "--activation",
            "gelu",
            "--weight-tying",
            "decoder",
        ],
        [
            "--schedule",
            "noam",
            "--positions",
            "none",
            "--label-smoothing",
            "0.1",
            "--warmup",
            "5",
        ],
    ] {
        succeed(
            &train(folder.path())
                .args(SMALL)
                .args(arguments)
                .output()
                .unwrap(),
        );
    }
}

#[test]
fn backends_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let stdout = succeed(&train(folder.path()).arg("backends").output().unwrap());
    assert_eq!(stdout.lines().count(), 8);
    assert!(stdout.contains("this CPU has scalar"), "{stdout}");
    let default: Vec<&str> = stdout
        .lines()
        .filter(|line| line.contains("the default"))
        .collect();
    assert_eq!(default.len(), 1, "{stdout}");
    #[cfg(not(any(feature = "ndarray", feature = "wgpu")))]
    assert!(default[0].starts_with("flex"), "{stdout}");
    assert!(
        stdout.contains("add --features cuda") || cfg!(feature = "cuda"),
        "{stdout}"
    );
}

#[test]
fn help_and_version_are_printed_on_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let help = train(folder.path())
        .args(["fit", "--help"])
        .output()
        .unwrap();
    assert!(succeed(&help).contains("--run-dir"));
    let version = succeed(&train(folder.path()).arg("--version").output().unwrap());
    assert_eq!(
        version.trim(),
        format!("train {}", env!("CARGO_PKG_VERSION"))
    );
}

/// Checks that a wrong command ends with code 2 and leaves no folder `runs`.
///
/// Stdout must be empty, and stderr must be one line with all `expected` texts.
fn refused(folder: &Path, arguments: &[&str], expected: &[&str]) {
    let output = train(folder).args(arguments).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    for part in expected {
        assert!(
            stderr.contains(part),
            "{arguments:?}: {stderr:?} has no {part:?}"
        );
    }
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    assert!(
        !folder.join("runs").exists(),
        "{arguments:?} left a run folder"
    );
}

#[test]
fn wrong_values_are_rejected_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["--heads", "3", "--d-model", "512"],
            &["--heads 3", "divisor of d_model (512)"],
        ),
        (
            &["--dropout", "1.5"],
            &["--dropout 1.5", "at least 0 and less than 1"],
        ),
        (
            &["--dropout", "-0.1"],
            &["--dropout -0.1", "at least 0 and less than 1"],
        ),
        (&["--dropout", "much"], &["--dropout", "much"]),
        (
            &["--min-length", "9", "--max-length", "4"],
            &["--min-length 9", "at most data.max_length (4)"],
        ),
        (&["--min-length", "0"], &["--min-length 0", "at least 1"]),
        (&["--max-length", "0"], &["--max-length 0", "at least 1"]),
        (&["--steps", "1e3"], &["--steps", "1e3", "whole number"]),
        (
            &["--task", "copy", "--preset", "annotated-copy"],
            &[
                "--preset annotated-copy",
                "is for --task annotated-copy, not copy",
            ],
        ),
        (
            &["--backend", "nonsense"],
            &[
                "--backend nonsense",
                "one of cuda, rocm, metal, vulkan, wgpu, ndarray, flex",
            ],
        ),
        (
            &["--backend", "flex:3"],
            &["--backend flex:3", "one device"],
        ),
        (&["--steps", "0"], &["--steps 0", "at least 1"]),
        (&["--symbols", "0"], &["--symbols 0", "at least 1"]),
        (
            &["--symbols", "1", "--max-length", "1"],
            &["--symbols 1", "raise it or data.max_length"],
        ),
        (&["--batch-size", "0"], &["--batch-size 0", "at least 1"]),
        (&["--layers", "0"], &["--layers 0", "at least 1"]),
        (&["--d-model", "0"], &["--d-model 0", "at least 1"]),
        (&["--d-ff", "0"], &["--d-ff 0", "at least 1"]),
        (&["--heads", "0"], &["--heads 0", "at least 1"]),
        (&["--target", "1.5"], &["--target 1.5", "at most 1"]),
        (
            &["--set", "optimization.schedule.factor=-1"],
            &["optimization.schedule.factor -1", "positive"],
        ),
        (&["--warmup", "0"], &["--warmup 0", "at least 1"]),
        (&["--eval-every", "0"], &["--eval-every 0", "at least 1"]),
        (
            &["--label-smoothing", "1"],
            &["--label-smoothing 1", "less than 1"],
        ),
        (
            &["--preset", "annotated-copy", "--symbols", "5"],
            &["--symbols 5", "is not a setting of --task annotated-copy"],
        ),
        (&["--norm", "middle"], &["--norm", "middle", "post, pre"]),
        (&["--task", "fly"], &["--task", "fly", "copy"]),
        (&["--seed", "-1"], &["--seed", "-1"]),
        (&["--steps"], &["--steps", "value is required"]),
        (&["--stepz", "4"], &["--stepz", "--steps"]),
        (&["--nothing-like-it"], &["--nothing-like-it", "--help"]),
        (&["fly"], &["fly", "--help"]),
    ];
    for (arguments, expected) in cases {
        refused(folder, arguments, expected);
        if arguments[0].starts_with("--") {
            let spelled_out: Vec<&str> = ["fit"].iter().chain(*arguments).copied().collect();
            refused(folder, &spelled_out, expected);
        }
    }
}

#[test]
fn sizes_beyond_any_machine_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let huge = usize::MAX.to_string();
    for flag in [
        "--max-length",
        "--batch-size",
        "--d-model",
        "--d-ff",
        "--layers",
        "--symbols",
        "--steps",
    ] {
        for value in [&huge, "1000000000000", "1000000000"] {
            if (flag, value) == ("--steps", "1000000000") {
                continue; // long, but possible
            }
            let arguments = ["--heads", "1", flag, value];
            // The message names the value, even if the value is wrong only together with another
            // flag.
            refused(folder.path(), &arguments, &["must be at", value]);
        }
    }
}

#[test]
fn a_closed_stdout_or_stderr_does_not_stop_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_train");
    let run = |line: &str| {
        let arguments = format!("{} --eval-every 2", SMALL.join(" "));
        let line = line.replace("TRAIN", program).replace("SMALL", &arguments);
        let shell = std::process::Command::new("bash")
            .args(["-o", "pipefail", "-c", &line])
            .current_dir(folder.path())
            .output()
            .unwrap();
        (shell.status.code(), text(&shell.stderr))
    };
    for line in [
        "TRAIN SMALL | true",
        "TRAIN SMALL 2>/dev/full",
        "TRAIN SMALL 2>&- >/dev/null",
    ] {
        assert_eq!(run(line).0, Some(0), "{line}");
    }
    assert_eq!(run("TRAIN --heads 3 2>/dev/full").0, Some(2));
    for line in ["TRAIN SMALL >/dev/full", "TRAIN backends >/dev/full"] {
        let (code, stderr) = run(line);
        assert_eq!(code, Some(1), "{line}: {stderr}");
        assert!(
            stderr.contains("cannot write to standard output"),
            "{line}: {stderr}"
        );
        assert!(!stderr.contains("panicked"), "{line}: {stderr}");
    }
}

#[test]
fn stderr_has_plain_lines_without_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let output = train(folder.path()).args(SMALL).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("training copy on "), "{stderr}");
    assert!(!stderr.contains(['\r', '\u{1b}']), "{stderr:?}");
    // `RUST_LOG` shows internal events.
    let output = train(folder.path())
        .args(SMALL)
        .env("RUST_LOG", "info")
        .output()
        .unwrap();
    assert!(text(&output.stderr).contains("saved a checkpoint"));
}

#[test]
fn a_run_with_a_target_evaluates_at_its_last_step() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--target", "0.5", "--eval-every", "7"];
    let output = train(folder.path())
        .args(SMALL)
        .args(arguments)
        .output()
        .unwrap();
    let stdout = succeed(&output);
    assert!(
        stdout.contains("step 7: ") && stdout.contains("step 12: "),
        "{stdout}"
    );
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_backend_that_is_not_built_in_says_which_feature_to_add() {
    let folder = tempfile::tempdir().unwrap();
    refused(
        folder.path(),
        &["--backend", "cuda"],
        &[
            "--backend cuda",
            "this build has",
            "flex",
            "`--features cuda`",
        ],
    );
}

#[test]
fn unusable_run_folders_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("mine");
    let name = run.to_str().unwrap();
    let arguments: Vec<&str> = SMALL.into_iter().chain(["--run-dir", name]).collect();
    succeed(&train(folder.path()).args(&arguments).output().unwrap());
    let before = std::fs::read(run.join("summary.json")).unwrap();
    refused(
        folder.path(),
        &arguments,
        &["--run-dir", name, "already holds a run", "another folder"],
    );
    assert_eq!(std::fs::read(run.join("summary.json")).unwrap(), before);

    // `train` cannot create the run folder if a file has the name of this folder or of its parent.
    // A folder without write permission would not do, because root can write to it.
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    for (name, what) in [
        (file.clone(), "is not a folder"),
        (file.join("below"), "cannot be written"),
    ] {
        let name = name.to_str().unwrap();
        refused(
            folder.path(),
            &["--run-dir", name],
            &["--run-dir", name, what],
        );
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

/// Checks that the losses of 20 steps without dropout on `backend` differ by at most `tolerance`
/// from those on flex.
#[cfg(any(feature = "ndarray", feature = "wgpu"))]
fn assert_losses_of(backend: &str, tolerance: f64) {
    let folder = tempfile::tempdir().unwrap();
    let run = |backend: &str| {
        let arguments = [
            "--steps",
            "20",
            "--dropout",
            "0",
            "--batch-size",
            "8",
            "--max-length",
            "6",
            "--backend",
            backend,
            "--run-dir",
            backend,
        ];
        let output = train(folder.path())
            .env("XDG_RUNTIME_DIR", folder.path())
            .args(arguments)
            .output()
            .unwrap();
        succeed(&output);
        let loss = |line: &serde_json::Value| line["loss"].as_f64().unwrap();
        losses(&folder.path().join(backend))
            .iter()
            .map(loss)
            .collect::<Vec<f64>>()
    };
    let (flex, other) = (run("flex"), run(backend));
    assert_eq!((flex.len(), other.len()), (20, 20));
    assert!(flex[19] < flex[0], "nothing was learned");
    for (step, (a, b)) in (1..).zip(flex.iter().zip(&other)) {
        assert!(
            (a - b).abs() <= tolerance,
            "step {step}: flex {a}, {backend} {b}"
        );
    }
}

#[test]
#[cfg(feature = "ndarray")]
fn ndarray_has_flexs_losses() {
    assert_losses_of("ndarray", 1e-3);
}

#[test]
#[cfg(feature = "wgpu")]
fn wgpu_has_flexs_losses() {
    assert_losses_of("wgpu", 1e-3);
}
