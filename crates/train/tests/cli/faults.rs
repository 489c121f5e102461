//! Damaged, missing and endless files, and models that compute NaN.
//!
//! The program must give a clear error, or the same results as without the fault.

use std::fs;
use std::path::Path;
use std::process::Output;

use burn::tensor::TensorData;
use training::memory::MachineMemory;
use transformer::weights;

#[cfg(unix)]
use super::make_pipe;
use super::pretrained::family;
use super::task::{COPY, SIZE, train_copy};
use super::{
    Folder, assert_has, copy_files, fails, json, notes, output, rejected, run, steps, text,
};

/// Trains a small run in `runs/copy-1`, with a checkpoint every 4 steps.
fn small(folder: &Path) {
    let flags = "--checkpoint-every 4 --keep 9 --plain";
    train_copy(folder, "runs/copy-1", flags);
}

/// Goes back to the checkpoint of step 8, as if the process had been killed after step 8.
fn back_to_step_8(run: &Path) {
    fs::remove_dir_all(run.join("checkpoints/step-12")).unwrap();
    fs::remove_file(run.join("summary.json")).unwrap();
}

#[test]
fn outputs_that_are_not_finite_are_no_answers() {
    let path = &Folder::new();
    small(path);
    run(
        path,
        "export runs/copy-1 --layout native --output w.safetensors",
    );
    // All parameters are finite, but the logits overflow.
    let file = path.join("w.safetensors");
    let config = weights::WeightsFile::open(&file).unwrap();
    let options = weights::ImportOptions::default();
    let config = weights::import(&config, &options)
        .unwrap()
        .config()
        .unwrap();
    let mut parameters = weights::from_bytes(&fs::read(&file).unwrap()).unwrap();
    for (name, data) in &mut parameters {
        if name.starts_with("decoder.generator") {
            let huge = data.iter::<f32>().map(|x| x.signum() * 3e38);
            *data = TensorData::new(huge.collect::<Vec<_>>(), data.shape().clone());
        }
    }
    let bytes = weights::to_bytes_with(
        &parameters,
        weights::Dtype::F32,
        &weights::metadata(&config),
    )
    .unwrap();
    fs::write(&file, bytes).unwrap();
    run(
        path,
        "import w.safetensors --run-dir huge --symbols 9 --max-length 5",
    );
    fs::write(path.join("lines"), "1 2 3\n").unwrap();
    fs::write(path.join("pairs"), "1 2 3\t4\n").unwrap();
    for line in [
        "generate huge --input lines",
        "generate huge --input lines --beam 3",
        "generate huge --input lines --stream",
        "generate huge --input pairs --score",
        "eval huge",
        "eval huge --eval-lengths 3",
    ] {
        let output = output(path, line);
        fails(&output, 3, &["not finite"]);
        let n_lines = text(&output.stdout).lines().count();
        assert_eq!(n_lines, usize::from(line.contains("--eval-lengths")));
        let names_line = text(&output.stderr).contains("line 1: ");
        assert_eq!(names_line, line.starts_with("generate"));
    }
}

#[test]
fn a_damaged_log_of_metrics_is_told_and_repaired_before_training() {
    let path = &Folder::new();
    small(path);
    let run_folder = path.join("runs/copy-1");
    let metrics = run_folder.join("metrics.jsonl");
    let model = || fs::read(run_folder.join("checkpoints/step-12/model.safetensors")).unwrap();
    let (whole, trained) = (fs::read_to_string(&metrics).unwrap(), model());
    // The unit tests of the repair have more kinds of damage.
    for (damage, missing) in [(Some("\"step\":5."), 5..6), (None, 1..9)] {
        back_to_step_8(&run_folder);
        match damage {
            Some(damage) => fs::write(&metrics, whole.replacen("\"step\":5,", damage, 1)).unwrap(),
            None => fs::remove_file(&metrics).unwrap(),
        }
        let notes = notes(&output(path, "resume runs/copy-1 --plain"));
        assert_has(&notes, &["metrics.jsonl"]);
        let steps = steps(&run_folder).into_iter().map(|(step, _)| step);
        assert!(steps.eq((1..=12).filter(|step| !missing.contains(step))));
        assert!(
            model() == trained,
            "the model is the same, whatever the log"
        );
    }
}

#[test]
fn an_undamaged_log_is_continued_without_a_word() {
    let path = &Folder::new();
    small(path);
    back_to_step_8(&path.join("runs/copy-1"));
    let notes = notes(&output(path, "resume runs/copy-1 --plain"));
    assert!(!notes.contains("metrics.jsonl"), "{notes}");
    assert!(!path.join("runs/copy-1/metrics.damaged.jsonl").exists());
}

#[test]
fn checkpoints_that_a_kill_left_are_removed_at_resume() {
    let path = &Folder::new();
    small(path);
    let run_folder = path.join("runs/copy-1");
    // The run now looks as if the process had been killed between saving the last checkpoint and
    // removing the first one.
    let mut config = json(&run_folder.join("config.json"));
    config["checkpointing"]["keep"] = 2.into();
    fs::write(run_folder.join("config.json"), config.to_string()).unwrap();
    fs::remove_file(run_folder.join("summary.json")).unwrap();
    let count = || {
        fs::read_dir(run_folder.join("checkpoints"))
            .unwrap()
            .count()
    };
    assert_eq!(count(), 3);
    run(path, "resume runs/copy-1 --plain");
    assert_eq!(count(), 2);
}

#[cfg(unix)]
#[test]
fn a_run_whose_folder_goes_away_ends_and_says_so() {
    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
    let endless = format!("{SIZE} --steps 1000000 --plain --run-dir run --eval-every 1000000");
    for removes in [true, false] {
        let path = &Folder::new();
        let child = super::training::spawn(path, &endless);
        let metrics = path.join("run/metrics.jsonl");
        super::wait_until(|| fs::metadata(&metrics).is_ok_and(|file| file.len() > 0));
        // Files are removed one at a time. The process is stopped meanwhile, so that a check sees
        // either all files or none.
        let process = Pid::from_child(&child);
        kill_process(process, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(process), WaitOptions::UNTRACED)
            .unwrap()
            .unwrap();
        assert!(status.stopped(), "it ended early: {status:?}");
        let done = if removes {
            fs::remove_dir_all(path.join("run"))
        } else {
            fs::rename(path.join("run"), path.join("other"))
        };
        kill_process(process, Signal::CONT).unwrap();
        done.unwrap();
        // A second run is trained in the folder `run`. The first run must not change this folder.
        train_copy(path, "run", "--plain");
        let output = child.wait_with_output().unwrap();
        fails(&output, 1, &["was removed, renamed or replaced"]);
        assert_eq!(json(&path.join("run/status.json"))["status"], "finished");
        assert_eq!(steps(&path.join("run")).len(), 12);
    }
}

#[cfg(unix)]
#[test]
fn input_without_an_end_is_an_error() {
    let path = &Folder::new();
    small(path);
    fs::write(path.join("lines"), "1\n").unwrap();
    for line in [
        "generate runs/copy-1 --input /dev/zero",
        "score /dev/zero lines",
        "score lines /dev/zero",
        "fit --config /dev/zero",
        "fit --train /dev/zero",
    ] {
        fails(&output(path, line), 2, &["/dev/zero"]);
    }
}

#[test]
fn settings_and_tables_are_read_without_guesses() {
    let path = &Folder::new();
    let twice = r#"{"optimization": {"steps": 3, "batch_size": 2, "steps": 5}}"#;
    fs::write(path.join("twice.json"), twice).unwrap();
    let parts = ["twice.json", "\"steps\"", "line 1"];
    fails(&output(path, "fit --config twice.json"), 2, &parts);
    fs::write(path.join("wide.tsv"), "a\tb\nc\td\te\n").unwrap();
    fails(
        &output(path, "fit --train wide.tsv"),
        2,
        &["wide.tsv", "line 2"],
    );
    // A batch of this size needs 98 GB for its activations.
    if MachineMemory::read(1).is_some_and(|machine| machine.total < 90_000_000_000) {
        let many = "fit --batch-size 790000 --dry-run";
        fails(&output(path, many), 2, &["--batch-size 790000", "GB"]);
    }
}

#[cfg(unix)]
#[test]
fn a_named_pipe_in_a_run_is_never_waited_for() {
    let path = &Folder::new();
    small(path);
    let run_folder = path.join("runs/copy-1");
    for (file, commands) in [
        (
            "metrics.jsonl",
            &["resume latest --steps 14", "plot latest", "report latest"][..],
        ),
        (
            "checkpoints/step-12/manifest.json",
            &["eval latest --checkpoint 12"],
        ),
        ("lock", &["resume latest --steps 14"]),
        ("status.json", &["resume latest --steps 14"]),
        ("summary.json", &["resume latest --steps 14"]),
        ("environment.json", &["plot latest", "report latest"]),
    ] {
        let file = run_folder.join(file);
        let kept = path.join("kept");
        fs::rename(&file, &kept).unwrap();
        make_pipe(&file);
        for command in commands {
            let output = output(path, command);
            let stderr = text(&output.stderr);
            assert!(!output.status.success(), "{command}: {stderr}");
            assert!(stderr.contains("regular file"), "{command}: {stderr}");
        }
        fs::rename(&kept, &file).unwrap();
    }
    // A path that is not a folder is named as such, also if it is a link to nothing.
    std::os::unix::fs::symlink("nowhere", path.join("link")).unwrap();
    for wrong in ["link", "/dev/null"] {
        let output = output(path, &format!("fit --steps 1 --run-dir {wrong}"));
        fails(&output, 2, &["--run-dir", wrong]);
    }
    // The report does not need `environment.json`.
    fs::remove_file(run_folder.join("environment.json")).unwrap();
    run(path, "report latest");
}

#[test]
fn no_output_replaces_a_file_of_a_run_or_is_inside_its_checkpoints() {
    let path = &Folder::new();
    train_copy(path, "run", "");
    std::fs::write(path.join("lines"), "1 2\n").unwrap();
    std::fs::write(path.join("pairs.tsv"), "a b\tb a\n").unwrap();
    let weights = "run/checkpoints/step-12/model.safetensors";
    let texts = "fit --task text --train pairs.tsv --valid pairs.tsv";
    for line in [
        "report run --output run/config.json",
        "report run --output ./run/../run/none/../status.json",
        "plot run --output run/checkpoints",
        "export run --layout torch-nn --force --output run/metrics.jsonl",
        "export run --layout t5 --force --folder run",
        "export run --web --force --output run/environment.json",
        &format!(
            "import {weights} --heads 2 --force --output run/checkpoints/step-12/model.safetensors"
        ),
        &format!("import {weights} --heads 2 --run-dir run/checkpoints/step-9"),
        "eval run --hypotheses run/summary.json",
        "generate run --input lines --output run/checkpoints/outputs",
        &format!("fit {COPY} --run-dir run/checkpoints/step-9"),
        &format!("fit {COPY} --run-dir run/new/sub"),
        &format!("{texts} --run-dir new --cache run/checkpoints/cache"),
    ] {
        rejected(path, line, &["is in the folder of the run"]);
    }
    assert_eq!(
        std::fs::read_dir(path.join("run/checkpoints"))
            .unwrap()
            .count(),
        1
    );
    fs::create_dir(path.join("cache")).unwrap();
    fs::write(path.join("cache/lock"), "").unwrap();
    let line = "generate run --input lines --output cache/lock";
    rejected(path, line, &["--output cache/lock: is the lock of"]);
    let pairs = "cache/pairs-0123456789abcdef";
    fs::create_dir(path.join(pairs)).unwrap();
    fs::write(path.join(pairs).join("tokens"), "").unwrap();
    for line in [
        "generate run --input lines --output",
        "eval run --hypotheses",
        "export run --force --output",
    ] {
        let line = format!("{line} {pairs}/tokens");
        rejected(path, &line, &["is among the files of a cache"]);
    }
    // What is beside these files is the user's choice.
    run(path, "report run --output run/page.html");
    run(path, "eval run --hypotheses run/outputs");
}

#[test]
#[cfg(unix)]
fn a_signal_leaves_no_part_of_an_output() {
    use std::io::Write;
    use std::process::{Command, Stdio};

    let path = &Folder::new();
    train_copy(path, "run", "");
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("train"));
    command.args(["generate", "run", "--batch-size", "1", "--output", "out"]);
    command.current_dir(path).stdin(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all("1 2\n".repeat(10_000).as_bytes()).unwrap();
    // The program has read most of this, and so has generated outputs.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_dir(path).unwrap().count(), 1);
}

/// Runs the program in a shell, after `begin`.
#[cfg(target_os = "linux")]
fn after(folder: &Path, begin: &str, line: &str) -> Output {
    let program = assert_cmd::cargo::cargo_bin("train");
    let script = format!("{begin} {} {line}", program.display());
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(folder);
    shell.output().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn limits_of_the_system_are_errors_in_words() {
    let path = &Folder::new();
    let threads = after(path, "RAYON_NUM_THREADS=20000", "backends");
    let expected = "RAYON_NUM_THREADS 20000: must be a whole number from 1 to ";
    fails(&threads, 2, &[expected]);
    let version = after(path, "exec", "--version > /dev/full");
    fails(&version, 1, &["error: cannot write to standard output"]);
    let fit = format!("fit {COPY} --run-dir large");
    let large = after(path, "ulimit -f 8; exec", &fit);
    fails(&large, 1, &["cannot write"]);
    for limit in ["-v", "-d"] {
        let begin = format!("ulimit {limit} 6000000; exec");
        let fit = "fit --task copy --d-model 2048 --layers 12 --steps 1";
        let memory = after(path, &begin, fit);
        fails(&memory, 2, &["but there are 6.1 GB"]);
    }
    train_copy(path, "run", "");
    let wide = "generate run 1 --sample --n-best 300000";
    for limit in ["-v 300000", "-d 10000", "-v 45000"] {
        let memory = after(path, &format!("ulimit {limit}; exec"), wide);
        let said = text(&memory.stderr);
        assert!([Some(1), Some(2)].contains(&memory.status.code()), "{said}");
        assert!(
            said.starts_with("error: ") && said.lines().count() == 1,
            "{said}"
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_whose_name_is_not_utf_8_is_listed() {
    use std::os::unix::ffi::OsStrExt;
    let path = &Folder::new();
    train_copy(path, "run", "");
    let name = std::ffi::OsStr::from_bytes(b"run-\xff");
    std::fs::rename(path.join("run"), path.join(name)).unwrap();
    train_copy(path, "run", "");
    assert_eq!(run(path, "runs . --json").lines().count(), 2);
    assert_eq!(run(path, "runs .").lines().count(), 3);
}

#[test]
fn a_wrong_value_of_a_models_files_is_not_reported_as_a_flag() {
    let path = &Folder::new();
    copy_files(family("t5"), &path.join("model"));
    let settings = path.join("model/generation_config.json");
    let whole = json(&settings);
    std::fs::write(path.join("lines"), "w10\n").unwrap();
    for (name, value) in [
        ("repetition_penalty", "5000.0"),
        ("num_beams", "100000000000"),
    ] {
        let mut wrong = whole.clone();
        wrong[name] = serde_json::from_str(value).unwrap();
        std::fs::write(&settings, wrong.to_string()).unwrap();
        let error = output(path, "generate model --max-length 3 --input lines");
        fails(&error, 2, &["generation", name]);
        assert!(!String::from_utf8_lossy(&error.stderr).contains("--"));
    }
}
