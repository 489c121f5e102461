//! Runs that are stopped, killed, damaged and resumed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use super::{SMALL, json, losses, refused, succeed, text, train};

fn spawn(folder: &Path, arguments: &[&str]) -> Child {
    Process::new(assert_cmd::cargo::cargo_bin("train"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns the step of the newest checkpoint, or 0 if there is none.
fn newest(run: &Path) -> usize {
    let entries = std::fs::read_dir(run.join("checkpoints"));
    let steps = entries.into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("step-")?.parse().ok()
    });
    steps.max().unwrap_or(0)
}

/// Waits until there is a checkpoint of this step or a later one.
fn wait_for(run: &Path, step: usize, child: &mut Child) {
    let begun = Instant::now();
    while newest(run) < step {
        assert!(begun.elapsed() < Duration::from_secs(120), "no step {step}");
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before step {step}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the bytes of the parameters and of the optimizer state, and the logged metrics without
/// times.
fn everything(run: &Path, step: usize) -> ([Vec<u8>; 2], Vec<serde_json::Value>) {
    let checkpoint = run.join(format!("checkpoints/step-{step}"));
    let bytes = ["model.safetensors", "optimizer.safetensors"].map(|name| {
        let path = checkpoint.join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    });
    (bytes, losses(run))
}

fn assert_survives_kills(backend: &str) {
    const STEPS: usize = 200;
    const KILLS: usize = 10;
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["fit", "--backend", backend];
    arguments.extend(SMALL);
    arguments.extend([
        "--checkpoint-every",
        "3",
        "--eval-every",
        "40",
        "--ema",
        "0.9",
    ]);
    let place = arguments.iter().position(|a| *a == "--steps").unwrap();
    arguments[place + 1] = "200";
    let begin = |name| [&arguments[..], &["--run-dir", name]].concat();
    succeed(&train(folder.path()).args(begin("whole")).output().unwrap());

    let run = folder.path().join("broken");
    // State of a pseudo-random generator, which gives the delay before each kill.
    let mut random = 20_261_123_u32;
    for kill in 1..=KILLS {
        let mut child = match kill {
            1 => spawn(folder.path(), &begin("broken")),
            _ => spawn(folder.path(), &["resume", "broken"]),
        };
        wait_for(&run, kill * (STEPS - 30) / KILLS, &mut child);
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        std::thread::sleep(Duration::from_micros(u64::from(random >> 8) % 20_000));
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before kill {kill}"
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }
    succeed(
        &train(folder.path())
            .args(["resume", "broken"])
            .output()
            .unwrap(),
    );
    let whole = folder.path().join("whole");
    assert!(everything(&run, STEPS) == everything(&whole, STEPS));
    let steps = losses(&run);
    let steps = steps.iter().filter(|line| line.get("loss").is_some());
    let steps: Vec<u64> = steps.map(|line| line["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, (1..=STEPS as u64).collect::<Vec<_>>());
    let names = ["exact_match", "valid_loss", "token_accuracy"];
    let summary = |run: &Path| {
        let summary = json(&run.join("summary.json"));
        names.map(|name| summary[name].clone())
    };
    assert_eq!(summary(&run), summary(&whole));
}

#[test]
fn a_run_killed_ten_times_equals_an_unbroken_one() {
    assert_survives_kills("flex");
}

#[test]
#[cfg(feature = "ndarray")]
fn a_run_killed_ten_times_ends_as_if_nothing_had_happened_on_ndarray() {
    assert_survives_kills("ndarray");
}

/// Trains a run of 12 steps with checkpoints at 4, 8 and 12, in a folder named `run`.
fn small_run(more: &[&str]) -> (tempfile::TempDir, PathBuf) {
    run_of(&SMALL, more)
}

fn run_of(small: &[&str], more: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--checkpoint-every", "4", "--run-dir", "run"];
    let output = train(folder.path())
        .args(small)
        .args(arguments)
        .args(more)
        .output();
    succeed(&output.unwrap());
    let run = folder.path().join("run");
    (folder, run)
}

#[test]
fn damaged_checkpoints_are_skipped() {
    type Damage = fn(&Path);
    let damages: [Damage; 4] = [
        |step| std::fs::write(step.join("optimizer.safetensors"), b"").unwrap(),
        |step| std::fs::remove_file(step.join("model.safetensors")).unwrap(),
        |step| std::fs::write(step.join("state.json"), b"{}").unwrap(),
        |step| std::fs::write(step.join("manifest.json"), b"PK").unwrap(),
    ];
    for damage in damages {
        let (folder, run) = small_run(&[]);
        let whole = everything(&run, 12);
        damage(&run.join("checkpoints/step-12"));
        let output = train(folder.path())
            .args(["resume", "run"])
            .output()
            .unwrap();
        succeed(&output);
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("warning: ")
                && stderr.contains("step-12")
                && stderr.contains("going back to step 8"),
            "{stderr}"
        );
        assert!(everything(&run, 12) == whole);
    }
    let (folder, run) = small_run(&[]);
    for step in [4, 8, 12] {
        damages[3](&run.join(format!("checkpoints/step-{step}")));
    }
    for command in ["resume", "generate", "eval"] {
        refused(
            folder.path(),
            &[command, "run"],
            &["no checkpoint that is whole", "manifest.json"],
        );
    }
}

#[test]
fn a_run_killed_before_its_first_checkpoint_starts_again() {
    let (folder, run) = small_run(&[]);
    let whole = everything(&run, 12);
    std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
    // A finished run without checkpoints does not start again, because its checkpoints may have
    // been moved elsewhere.
    refused(
        folder.path(),
        &["resume", "run"],
        &["has no checkpoint step-N"],
    );
    assert_eq!(losses(&run).len(), 12);
    std::fs::remove_file(run.join("summary.json")).unwrap();
    let output = train(folder.path())
        .args(["resume", "run"])
        .output()
        .unwrap();
    succeed(&output);
    assert!(text(&output.stderr).contains("has no checkpoint yet"));
    assert!(everything(&run, 12) == whole);
}

#[test]
fn checkpoints_of_other_programs_and_models_are_rejected() {
    let (folder, run) = small_run(&[]);
    let manifest = run.join("checkpoints/step-12/manifest.json");
    let json = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, json.replace("\"format\": 1", "\"format\": 7")).unwrap();
    for command in ["resume", "generate", "eval"] {
        refused(
            folder.path(),
            &[command, "run"],
            &["manifest.json", "newer version", "format 7"],
        );
    }
    std::fs::write(&manifest, json).unwrap();
    let config = run.join("config.json");
    let json = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, json.replace("\"d_ff\": 16", "\"d_ff\": 8")).unwrap();
    let before = std::fs::read(&config).unwrap();
    for command in [
        &["resume", "run", "--steps", "20"][..],
        &["generate", "run"],
    ] {
        refused(
            folder.path(),
            command,
            &["step-12/config.json", "made with model.d_ff 16", "says 8"],
        );
    }
    // The rejected commands have not changed `config.json`.
    assert_eq!(std::fs::read(&config).unwrap(), before);
    assert!(run.join("summary.json").exists());
    // A changed setting is also detected if it does not change the shapes of parameters.
    let heads = json.replace("\"n_heads\": 2", "\"n_heads\": 4");
    std::fs::write(&config, heads).unwrap();
    refused(
        folder.path(),
        &["eval", "run"],
        &["made with model.n_heads 2", "says 4"],
    );
}

#[test]
fn a_finished_run_resumes_with_more_steps() {
    let (folder, run) = small_run(&["--schedule", "noam"]);
    refused(
        folder.path(),
        &["resume", "run"],
        &["has ended after step 12", "--steps"],
    );
    refused(
        folder.path(),
        &["resume", "run", "--steps", "9"],
        &["has ended after step 12", "--steps must be more than 12"],
    );
    let more = ["resume", "run", "--steps", "20"];
    succeed(&train(folder.path()).args(more).output().unwrap());
    let longer = ["--steps", "20", "--run-dir", "longer", "--schedule", "noam"];
    let mut arguments = SMALL.to_vec();
    arguments.drain(..2);
    succeed(
        &train(folder.path())
            .args(arguments)
            .args(longer)
            .output()
            .unwrap(),
    );
    assert!(everything(&run, 20) == everything(&folder.path().join("longer"), 20));
    assert_eq!(json(&run.join("config.json"))["optimization"]["steps"], 20);
}

#[test]
fn only_the_newest_checkpoints_and_the_best_are_kept() {
    let more = [
        "--checkpoint-every",
        "1",
        "--eval-every",
        "3",
        "--keep",
        "2",
    ];
    let folder = tempfile::tempdir().unwrap();
    let arguments = [&SMALL[..], &more, &["--run-dir", "run"]].concat();
    succeed(&train(folder.path()).args(arguments).output().unwrap());
    let run = folder.path().join("run");
    let state = json(&run.join("checkpoints/step-12/state.json"));
    let best = state["best"]["step"].as_u64().unwrap();
    let evaluations = losses(&run);
    let losses = evaluations
        .iter()
        .filter_map(|line| Some((line.get("valid_loss")?.as_f64()?, line["step"].as_u64()?)));
    let smallest = losses.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    assert_eq!(best, smallest.1);
    let mut expected = vec![11, 12, best];
    expected.sort_unstable();
    expected.dedup();
    let mut steps: Vec<u64> = std::fs::read_dir(run.join("checkpoints"))
        .unwrap()
        .map(|entry| {
            entry.unwrap().file_name().to_str().unwrap()[5..]
                .parse()
                .unwrap()
        })
        .collect();
    steps.sort_unstable();
    assert_eq!(steps, expected);
    for which in ["last", "best", "11", "average:2"] {
        let arguments = ["eval", "run", "--checkpoint", which];
        succeed(&train(folder.path()).args(arguments).output().unwrap());
    }
    refused(
        folder.path(),
        &["eval", "run", "--checkpoint", "first"],
        &["--checkpoint", "first", "average:K"],
    );
}

#[test]
#[cfg(unix)]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["fit", "--run-dir", "run", "--checkpoint-every", "5"];
    arguments.extend(&SMALL[2..]);
    arguments.extend(["--steps", "100000"]);
    let mut child = Process::new(assert_cmd::cargo::cargo_bin("train"))
        .args(&arguments)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let run = folder.path().join("run");
    wait_for(&run, 5, &mut child);
    refused(
        folder.path(),
        &["resume", "run"],
        &[
            "RUN run",
            "in use by another process",
            &format!("process {}", child.id()),
        ],
    );
    let interrupt = Process::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.trim_end().ends_with("train resume run"), "{stderr}");
    // Every step before the interrupt is in the checkpoint.
    let step = newest(&run);
    assert!(
        stderr.contains(&format!("stopped after step {step} by SIGINT")),
        "{stderr}"
    );
    assert_eq!(losses(&run).len(), step);
    let more = (step + 3).to_string();
    succeed(
        &train(folder.path())
            .args(["resume", "run", "--steps", &more])
            .output()
            .unwrap(),
    );
    assert_eq!(losses(&run).len(), step + 3);
}

#[test]
#[cfg(unix)]
fn a_full_disk_leaves_the_last_checkpoint_good() {
    let (folder, run) = small_run(&["--schedule", "noam"]);
    // `ulimit` limits the size of files, which acts like a full disk.
    let program = assert_cmd::cargo::cargo_bin("train");
    let limited = |blocks: usize| {
        let script = format!(
            "trap '' XFSZ; ulimit -f {blocks}; exec '{}' resume run --steps 20",
            program.display()
        );
        let mut shell = Process::new("sh");
        shell.args(["-c", &script]).current_dir(folder.path());
        shell.output().unwrap()
    };
    for (blocks, file) in [(8, "step-16"), (1, "config.json")] {
        let output = limited(blocks);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(
            stderr.contains("error: cannot write") && stderr.contains(file),
            "{stderr}"
        );
        assert_eq!(newest(&run), 12);
    }
    let more = ["resume", "run", "--steps", "20"];
    succeed(&train(folder.path()).args(more).output().unwrap());
    let (other, whole) = small_run(&["--schedule", "noam"]);
    succeed(&train(other.path()).args(more).output().unwrap());
    assert!(everything(&run, 20) == everything(&whole, 20));
}

#[test]
fn a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--checkpoint-every",
        "1",
        "--set",
        "optimization.schedule.factor=1e30",
        "--norm",
        "post",
    ];
    let output = train(folder.path())
        .args(SMALL)
        .args(arguments)
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    for part in [
        "the loss is",
        "at step",
        "learning rate",
        "gradient norm",
        "no checkpoint is known to have a finite loss",
    ] {
        assert!(stderr.contains(part), "{stderr}");
    }
    // `eval` fails on the checkpoint whose loss was not finite.
    let output = train(folder.path()).args(["eval", "runs/copy-1"]).output();
    assert_eq!(output.unwrap().status.code(), Some(3));
}

#[test]
fn training_ends_when_patience_runs_out() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--set",
        "optimization.schedule.factor=1e-9",
        "--eval-every",
        "2",
        "--patience",
        "3",
    ];
    let mut small = SMALL.to_vec();
    small[1] = "500";
    let arguments = [&small[..], &arguments, &["--best-by", "exact-match"]].concat();
    let output = train(folder.path()).args(arguments).output().unwrap();
    succeed(&output);
    let summary = json(&folder.path().join("runs/copy-1/summary.json"));
    assert_eq!(summary["steps"], 8);
    let resume = train(folder.path())
        .args(["resume", "runs/copy-1"])
        .output();
    let error = text(&resume.unwrap().stderr);
    assert!(error.contains("has ended after step 8"), "{error}");
    // Without its summary, the run looks as if it was killed after the last checkpoint. When it is
    // resumed, it ends at the same step as before.
    std::fs::remove_file(folder.path().join("runs/copy-1/summary.json")).unwrap();
    let resume = train(folder.path())
        .args(["resume", "runs/copy-1"])
        .output();
    succeed(&resume.unwrap());
    let again = json(&folder.path().join("runs/copy-1/summary.json"));
    assert_eq!(again["steps"], 8);
    assert_eq!(again["exact_match"], summary["exact_match"]);
    assert!(text(&output.stderr).contains("no better evaluation since step 2"));
}

/// Trains a run whose loss soon grows, because its learning rate is far too large.
fn grown_worse(folder: &Path) -> PathBuf {
    let arguments = [
        "--set",
        "optimization.schedule.factor=40",
        "--eval-every",
        "2",
        "--patience",
        "4",
    ];
    let mut small = SMALL.to_vec();
    small[1] = "2000";
    let arguments = [&small[..], &arguments].concat();
    succeed(&train(folder).args(arguments).output().unwrap());
    folder.join("runs/copy-1")
}

#[test]
fn the_best_model_is_evaluated_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let run = grown_worse(folder.path());
    let valid: Vec<f64> = losses(&run)
        .iter()
        .filter_map(|line| line.get("valid_loss")?.as_f64())
        .collect();
    let best = valid.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(valid.last().unwrap() > &best, "{valid:?}");
    let judged = json(&run.join("summary.json"))["valid_loss"]
        .as_f64()
        .unwrap();
    assert!((judged - best).abs() < 1e-6, "{judged}, not {best}");
}

#[test]
fn a_run_ends_even_if_its_best_checkpoint_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let run = grown_worse(folder.path());
    let best = losses(&run)
        .iter()
        .filter_map(|line| Some((line.get("valid_loss")?.as_f64()?, line["step"].as_u64()?)))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap()
        .1;
    std::fs::remove_file(run.join("summary.json")).unwrap();
    std::fs::remove_file(run.join(format!("checkpoints/step-{best}/model.safetensors"))).unwrap();
    let output = train(folder.path())
        .args(["resume", "runs/copy-1"])
        .output()
        .unwrap();
    succeed(&output);
    let error = text(&output.stderr);
    assert!(
        error.contains("the last model takes the place of the best one"),
        "{error}"
    );
    assert!(run.join("summary.json").exists());
}

#[test]
fn wrong_edits_of_a_run_are_named_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--checkpoint-every", "3", "--keep", "9"];
    let arguments = [&SMALL[..], &arguments].concat();
    succeed(&train(folder.path()).args(arguments).output().unwrap());
    let run = folder.path().join("runs/copy-1");
    let config = std::fs::read_to_string(run.join("config.json")).unwrap();
    let resume = || {
        let more = ["resume", "runs/copy-1", "--steps", "15"];
        let output = train(folder.path()).args(more).output().unwrap();
        assert!(!output.status.success());
        text(&output.stderr)
    };
    for (from, to, message) in [
        (
            "\"keep\"",
            "\"kep\"",
            "unknown key \"checkpointing.kep\"; the nearest known key is checkpointing.keep",
        ),
        (
            "\"d_ff\": 16",
            "\"d_ff\": \"x\"",
            "model.d_ff is \"x\", but must be a number",
        ),
    ] {
        let edited = config.replace(from, to);
        assert_ne!(edited, config);
        std::fs::write(run.join("config.json"), &edited).unwrap();
        let error = resume();
        assert!(error.contains(message), "{error}");
        let after = std::fs::read_to_string(run.join("config.json")).unwrap();
        assert_eq!(after, edited);
        assert!(run.join("checkpoints/step-3").exists());
    }
    std::fs::write(run.join("config.json"), &config).unwrap();
    // Two damaged checkpoints are skipped: a renamed folder, and one with an empty manifest.
    let checkpoints = run.join("checkpoints");
    std::fs::rename(checkpoints.join("step-6"), checkpoints.join("step-99")).unwrap();
    let list = "{\"format\": 1, \"files\": {}}";
    std::fs::write(checkpoints.join("step-12/manifest.json"), list).unwrap();
    let output = train(folder.path())
        .args(["resume", "runs/copy-1", "--steps", "15"])
        .output()
        .unwrap();
    succeed(&output);
    let error = text(&output.stderr);
    assert!(
        error.contains("is of step 6, but its folder says 99; going back to step 9"),
        "{error}"
    );
    assert!(
        error.contains("step-12/config.json: is missing; going back to step 9"),
        "{error}"
    );
    assert_eq!(json(&run.join("summary.json"))["steps"], 15);
}

#[test]
fn fewer_steps_than_were_taken_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    succeed(&train(folder.path()).args(SMALL).output().unwrap());
    let run = folder.path().join("runs/copy-1");
    std::fs::remove_file(run.join("summary.json")).unwrap();
    let fewer = ["resume", "runs/copy-1", "--steps", "10"];
    let output = train(folder.path()).args(fewer).output().unwrap();
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(
        error.contains("is at step 12, past --steps 10; ask for more"),
        "{error}"
    );
}

#[test]
fn a_configuration_is_read_and_overridden() {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = SMALL.to_vec();
    arguments.extend([
        "--optimizer",
        "adamw",
        "--clip-norm",
        "1",
        "--accumulate",
        "2",
    ]);
    arguments.extend(["--schedule", "cosine", "--gradient-checkpointing"]);
    let by_flags = [&arguments[..], &["--run-dir", "flags"]].concat();
    succeed(&train(folder.path()).args(by_flags).output().unwrap());
    let by_file = ["--config", "flags/config.json", "--run-dir", "file"];
    succeed(&train(folder.path()).args(by_file).output().unwrap());
    let [flags, file] = ["flags", "file"].map(|run| folder.path().join(run));
    assert!(everything(&flags, 12) == everything(&file, 12));
    assert_eq!(
        json(&flags.join("config.json")),
        json(&file.join("config.json"))
    );
    // The config.json of a run repeats the run. A further flag changes one setting.
    let again = [
        "--config",
        "file/config.json",
        "--run-dir",
        "again",
        "--steps",
        "5",
    ];
    succeed(&train(folder.path()).args(again).output().unwrap());
    assert_eq!(losses(&folder.path().join("again")).len(), 5);

    std::fs::write(
        folder.path().join("b.toml"),
        "[optimization]\nbach_size = 5",
    )
    .unwrap();
    refused(
        folder.path(),
        &["--config", "b.toml"],
        &[
            "--config b.toml",
            "bach_size",
            "nearest known key is optimization.batch_size",
        ],
    );
    refused(
        folder.path(),
        &["--config", "none"],
        &["--config none", "cannot be read"],
    );
}

#[test]
fn impossible_training_settings_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    for (flag, value) in [
        ("--clip-norm", "0"),
        ("--clip-norm", "nan"),
        // The optimizer is Adam, which has no weight decay.
        ("--weight-decay", "0.1"),
        ("--accumulate", "0"),
        ("--ema", "1"),
        ("--ema", "0"),
        ("--patience", "0"),
        ("--checkpoint-every", "0"),
        ("--checkpoint-seconds", "0"),
        ("--keep", "0"),
        ("--optimizer", "sgd"),
        ("--best-by", "luck"),
    ] {
        refused(folder.path(), &["fit", flag, value], &[flag]);
    }
    let decay = ["--optimizer", "adamw", "--weight-decay", "-1"];
    refused(folder.path(), &decay, &["--weight-decay -1: must be 0"]);
    assert!(!folder.path().join("runs").exists());
}

#[test]
fn half_precision_learns_and_resumes_exactly() {
    let loss_of = |run: &Path| -> Vec<f64> {
        let lines = losses(run);
        lines
            .iter()
            .map(|line| line["loss"].as_f64().unwrap())
            .collect()
    };
    // Dropout is off, because its masks depend on the precision.
    let mut without_dropout = SMALL;
    let flag = SMALL.iter().position(|&flag| flag == "--dropout");
    without_dropout[flag.unwrap() + 1] = "0";
    let (_folder, single) = run_of(&without_dropout, &[]);
    let single = loss_of(&single);
    for precision in ["bf16", "f16"] {
        let (_folder, run) = run_of(&without_dropout, &["--precision", precision]);
        let half = loss_of(&run);
        // Without bfloat16 instructions, bf16 computes in f32 on flex.
        let is_rounded = precision == "f16" || fused::has_bf16_instructions();
        assert_eq!(half != single, is_rounded, "{precision}");
        for (half, single) in half.iter().zip(&single) {
            assert!(
                (half - single).abs() < 0.02,
                "{precision}: {half}, in f32 {single}"
            );
        }
        if precision == "bf16" {
            let chunked = ["--precision", "bf16", "--set", "execution.loss_chunk=16"];
            let (_folder, run) = run_of(&without_dropout, &chunked);
            for (chunked, whole) in loss_of(&run).iter().zip(&half) {
                // Matmuls of a few rows are computed in f32, so chunks round differently.
                assert!((chunked - whole).abs() < 0.01, "{chunked}, not {whole}");
            }
        }
        let (folder, run) = small_run(&["--precision", precision]);
        let whole = everything(&run, 12);
        std::fs::remove_dir_all(run.join("checkpoints/step-12")).unwrap();
        let again = train(folder.path())
            .args(["resume", "run"])
            .output()
            .unwrap();
        succeed(&again);
        assert!(everything(&run, 12) == whole, "{precision}");
        succeed(&train(folder.path()).args(["eval", "run"]).output().unwrap());
    }
}

#[test]
fn a_damaged_checkpoint_never_outlives_good_ones() {
    let (folder, run) = small_run(&["--keep", "1", "--schedule", "noam"]);
    assert_eq!(newest(&run), 12);
    let (other, _) = small_run(&["--keep", "3", "--schedule", "noam"]);
    let [from, to] = [&other, &folder].map(|folder| folder.path().join("run/checkpoints/step-8"));
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    // The copied checkpoint records the length of `metrics.jsonl` of its own run. The times in that
    // file make its length different, so the file is copied as well.
    let metrics = other.path().join("run/metrics.jsonl");
    std::fs::copy(metrics, run.join("metrics.jsonl")).unwrap();
    std::fs::write(run.join("checkpoints/step-12/state.json"), "?").unwrap();
    let resume = ["resume", "run", "--steps", "11"];
    succeed(&train(folder.path()).args(resume).output().unwrap());
    assert_eq!(newest(&run), 11);
    succeed(&train(folder.path()).args(["eval", "run"]).output().unwrap());
}

#[test]
fn steps_that_f16_skips_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "--precision f16 --steps 20 --warmup 20 --schedule noam --set optimization.schedule.factor=8 --norm post \
        --batch-size 1 --symbols 9 --max-length 2 --d-model 16 --heads 2 --d-ff 16 --run-dir run \
        --checkpoint-every 1 --keep 100";
    let arguments = arguments.split_whitespace();
    succeed(&train(folder.path()).args(arguments).output().unwrap());
    let run = folder.path().join("run");
    assert_eq!(losses(&run)[0]["skipped"], true);
    let whole = everything(&run, 20);
    for step in 2..=20 {
        std::fs::remove_dir_all(run.join(format!("checkpoints/step-{step}"))).unwrap();
    }
    let output = train(folder.path()).args(["resume", "run"]).output();
    succeed(&output.unwrap());
    assert!(everything(&run, 20) == whole);
}
