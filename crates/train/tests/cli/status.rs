//! How runs end: `status.json`, exit codes, and the messages at the end.

use std::path::Path;

use serde_json::Value;
use training::run::{RunStatus, Status, read_status};

use super::task::{COPY, SIZE};
use super::{Folder, assert_has, json, notes, output, shell, succeed, text, train};

fn status(run: &Path) -> RunStatus {
    read_status(run).unwrap()
}

fn reason(run: &Path) -> String {
    status(run).reason.expect("the run has ended")
}

#[test]
fn a_finished_run_says_why_it_ended_and_what_comes_next() {
    let folder = &Folder::new();
    let mut command = train(folder);
    command
        .args(COPY.split(' '))
        .args(["--eval-every", "5", "--run-dir", "my runs/a"]);
    let stderr = notes(&command.output().unwrap());
    let run = folder.join("my runs/a");
    let expected = RunStatus {
        status: Status::Finished,
        step: 12,
        steps: 12,
        reason: Some("all 12 steps taken".into()),
        began_with: None,
    };
    assert_eq!(status(&run), expected);
    let file: Value = json(&run.join("status.json"));
    assert_eq!(file["status"], "finished");
    assert_has(&stderr, &["step 12", ", which is the run's model"]);
    assert_has(&stderr, &["  train generate 'my runs/a'\n"]);
    // The printed commands work.
    for command in stderr
        .lines()
        .filter_map(|line| line.strip_prefix("  train "))
    {
        succeed(&shell(folder, &format!("echo 1 2 | TRAIN {command}")));
    }
    // Commands that are printed can be typed.
    let report = ["report", "my runs/a", "--examples", "0"];
    let report = train(folder).args(report).output().unwrap();
    let command = "`train eval 'my runs/a' --eval-lengths 1..32`";
    assert_has(&text(&report.stderr), &[command]);
    // Evaluation and plots do not change how the run ended.
    assert_eq!(status(&run), expected);
    let more = ["resume", "my runs/a", "--steps", "15"];
    succeed(&train(folder).args(more).output().unwrap());
    assert_eq!(reason(&run), "all 15 steps taken");
}

#[test]
fn a_run_that_ends_early_says_why() {
    let folder = &Folder::new();
    let learns = "--steps 2000 --eval-every 50 --target 0.1 --batch-size 32 --d-model 32 --heads 2 \
        --d-ff 64 --layers 1 --symbols 12 --max-length 4 --run-dir target";
    let first = output(folder, learns);
    let stdout = succeed(&first).replace(',', "");
    let run = folder.join("target");
    let (found, step) = (reason(&run), status(&run).step);
    assert_has(&found, &[&format!(" >= 0.1 at step {step}")]);
    assert_has(&text(&first.stderr), &[&format!(": {found}\n")]);
    assert_has(&stdout, &[&format!("step {step} of 2000 ")]);
    let more = "; say with --steps how far it goes on, past a target if evaluation.target in its config.json is raised";
    crate::rejected(folder, "resume target", &[&found, more]);
    let no_more = format!("is at step {step}, and --steps {step} asks for no more");
    crate::rejected(
        folder,
        &format!("resume target --steps {step}"),
        &[&no_more],
    );
    // A run that was killed in the final test keeps the reason for which training ended.
    std::fs::remove_file(run.join("summary.json")).unwrap();
    let resumed = notes(&output(folder, "resume target"));
    assert_eq!(reason(&run), found);
    assert_has(&resumed, &[&found]);
}

#[test]
fn a_run_that_fails_says_why() {
    let folder = &Folder::new();
    let diverges = "--set optimization.schedule.factor=1e30 --norm post --checkpoint-every 1 --run-dir diverged";
    let output = output(folder, &format!("{COPY} {diverges}"));
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    let found = status(&folder.join("diverged"));
    assert_eq!(found.status, Status::Diverged);
    // `eval` fails on the checkpoint whose loss was not finite.
    let eval = super::output(folder, "eval diverged");
    assert_eq!(eval.status.code(), Some(3));
    let why = found.reason.unwrap();
    assert!(stderr.contains(&format!("error: {why}: ")), "{stderr}");

    let output = shell(folder, &format!("TRAIN {COPY} --run-dir full >/dev/full"));
    assert_eq!(output.status.code(), Some(1));
    let run = folder.join("full");
    assert_eq!(status(&run).status, Status::Failed);
    assert!(reason(&run).contains("standard output"));
    // Training was complete, so only the final test is left.
    super::run(folder, "resume full");
    assert_eq!(status(&run).status, Status::Finished);
}

#[cfg(unix)]
mod signals {
    use std::fs::File;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::wait_until;

    /// Starts a long run in the folder `run`, after the shell code `before`.
    fn begin(before: &str) -> (Folder, Child) {
        let folder = Folder::new();
        let line = format!(
            "{before} exec '{}' fit {SIZE} --steps 1000000 --run-dir run --checkpoint-every 50",
            assert_cmd::cargo::cargo_bin("train").display()
        );
        let child = Command::new("sh")
            .args(["-c", &line])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        wait_until(|| folder.join("run/checkpoints/step-50").exists());
        (folder, child)
    }

    fn send(child: &Child, signal: &str) {
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
    }

    #[test]
    fn each_signal_has_its_exit_code_and_is_the_reason() {
        for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
            if signal == "HUP" && crate::ignores_hang_up() {
                continue;
            }
            let (folder, mut child) = begin("");
            let run = folder.join("run");
            assert_eq!(status(&run).status, Status::Running);
            assert_eq!(status(&run).steps, 1_000_000);
            let process = format!("process {}", child.id());
            crate::rejected(&folder, "resume run", &["RUN run", &process]);
            send(&child, signal);
            assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
            let found = status(&run);
            assert_eq!(found.status, Status::Stopped);
            assert_eq!(found.reason, Some(format!("stopped by SIG{signal}")));
            let checkpoint = format!("checkpoints/step-{}/model.safetensors", found.step);
            assert!(run.join(checkpoint).exists());
            let stderr = std::fs::read_to_string(folder.join("stderr")).unwrap();
            // Every step before the signal is in the checkpoint.
            assert_eq!(crate::steps(&run).len(), found.step);
            assert!(stderr.trim_end().ends_with("train resume run"), "{stderr}");
        }
    }

    #[test]
    fn a_killed_run_is_not_shown_as_running() {
        let (folder, mut child) = begin("");
        let run = folder.join("run");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(json(&run.join("status.json"))["status"], "running");
        assert_eq!(status(&run).status, Status::Killed);
    }

    #[test]
    fn nohup_keeps_a_run_from_hanging_up() {
        let (folder, mut child) = begin("trap '' HUP;");
        send(&child, "HUP");
        std::thread::sleep(Duration::from_millis(300));
        assert!(child.try_wait().unwrap().is_none());
        send(&child, "TERM");
        assert_eq!(child.wait().unwrap().code(), Some(143));
        let reason = reason(&folder.join("run"));
        assert_eq!(reason, "stopped by SIGTERM");
    }
}
