//! Runs that are stopped, killed, damaged and resumed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use super::task::{COPY, SIZE};
use super::{
    Folder, assert_has, copy_files, fails, json, losses, notes, output, parsed, refused, rejected,
    run, step_losses, steps, succeed, text,
};

/// Starts a command line, with a pipe for stderr alone.
pub(super) fn spawn(folder: &Path, line: &str) -> Child {
    Process::new(assert_cmd::cargo::cargo_bin("train"))
        .args(line.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
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
    let folder = &Folder::new();
    let begin = |name| {
        let flags = "--checkpoint-every 3 --eval-every 40 --ema 0.9 --steps 200";
        format!("fit {SIZE} {flags} --backend {backend} --run-dir {name}")
    };
    run(folder, &begin("whole"));

    let broken = folder.join("broken");
    // State of a pseudo-random generator, which gives the delay before each kill.
    let mut random = 20_261_123_u32;
    for kill in 1..=KILLS {
        let mut child = match kill {
            1 => spawn(folder, &begin("broken")),
            _ => spawn(folder, "resume broken"),
        };
        wait_for(&broken, kill * (STEPS - 30) / KILLS, &mut child);
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        std::thread::sleep(Duration::from_micros(u64::from(random >> 8) % 20_000));
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before kill {kill}"
        );
        child.kill().unwrap();
        child.wait().unwrap();
    }
    run(folder, "resume broken");
    let whole = folder.join("whole");
    assert!(everything(&broken, STEPS) == everything(&whole, STEPS));
    let steps = steps(&broken).into_iter().map(|(step, _)| step);
    assert!(steps.eq(1..=STEPS as u64));
    let names = ["exact_match", "valid_loss", "token_accuracy"];
    let summary = |run: &Path| {
        let summary = json(&run.join("summary.json"));
        names.map(|name| summary[name].clone())
    };
    assert_eq!(summary(&broken), summary(&whole));
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
fn small_run(more: &str) -> (Folder, PathBuf) {
    run_of(&format!("{COPY} {more}"))
}

fn run_of(flags: &str) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let more = "--checkpoint-every 4 --run-dir run";
    run(&folder, &format!("{flags} {more}"));
    let run = folder.join("run");
    (folder, run)
}

#[test]
fn damaged_checkpoints_are_skipped() {
    let (folder, run) = small_run("");
    let whole = everything(&run, 12);
    let damage = |step: usize| {
        let file = format!("checkpoints/step-{step}/optimizer.safetensors");
        std::fs::write(run.join(file), b"").unwrap();
    };
    damage(12);
    let notes = notes(&output(&folder, "resume run"));
    assert_has(&notes, &["step-12", "step 8"]);
    std::fs::remove_dir_all(run.join("checkpoints/step-12")).unwrap();
    let missing = text(&output(&folder, "resume run").stderr);
    let warning = "step-12 is missing; the newest undamaged one is of step 8";
    assert_has(&missing, &[warning]);
    assert!(everything(&run, 12) == whole);
    [4, 8, 12].into_iter().for_each(damage);
    for command in ["resume", "generate", "eval"] {
        refused(&folder, &[command, "run"], &["optimizer.safetensors"]);
    }
}

#[test]
fn a_run_killed_before_its_first_checkpoint_starts_again() {
    let (folder, run) = small_run("");
    let whole = everything(&run, 12);
    std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
    // A finished run without checkpoints does not start again, because its checkpoints may have
    // been moved elsewhere.
    rejected(&folder, "resume run", &["has no checkpoint step-N"]);
    assert_eq!(losses(&run).len(), 13);
    std::fs::remove_file(run.join("summary.json")).unwrap();
    // One that had a checkpoint does not, either.
    rejected(&folder, "resume run", &["has lost the one of step 12"]);
    assert_eq!(losses(&run).len(), 13);
    let mut status = json(&run.join("status.json"));
    status["step"] = 0.into();
    std::fs::write(run.join("status.json"), status.to_string()).unwrap();
    let notes = notes(&output(&folder, "resume run"));
    assert_has(&notes, &["has no checkpoint yet"]);
    assert!(everything(&run, 12) == whole);
}

#[test]
fn checkpoints_of_other_models_are_rejected() {
    let (folder, run) = small_run("");
    let config = run.join("config.json");
    let json = std::fs::read_to_string(&config).unwrap();
    let edited = json.replace("\"n_heads\": 2", "\"n_heads\": 4");
    std::fs::write(&config, &edited).unwrap();
    for command in ["resume run --steps 20", "generate run"] {
        rejected(&folder, command, &["model.n_heads 2"]);
    }
    // The rejected commands have changed nothing.
    assert_eq!(std::fs::read_to_string(&config).unwrap(), edited);
    std::fs::write(&config, json.replace("\"flex\"", "\"steam\"")).unwrap();
    let wrong = "config.json: execution.backend steam: must be one of";
    rejected(&folder, "resume run --steps 20", &[wrong]);
    assert!(run.join("summary.json").exists());
}

#[test]
fn a_finished_run_resumes_with_more_steps() {
    let (folder, trained) = small_run("--schedule noam");
    rejected(&folder, "resume run", &["step 12", "--steps"]);
    rejected(&folder, "resume run --steps 9", &["step 12", "--steps"]);
    run(&folder, "resume run --steps 20");
    let command = format!("{SIZE} --steps 20 --run-dir longer --schedule noam");
    run(&folder, &command);
    // The run was evaluated where it had ended before.
    let (parameters, mut lines) = everything(&trained, 20);
    lines.retain(|line| line["step"] != 12 || line.get("valid_loss").is_none());
    assert!((parameters, lines) == everything(&folder.join("longer"), 20));
    assert_eq!(
        json(&trained.join("config.json"))["optimization"]["steps"],
        20
    );
    // Times are those of all steps.
    let state = json(&trained.join("checkpoints/step-20/state.json"));
    let [waited, seconds] =
        ["wait_seconds", "train_seconds"].map(|name| state[name].as_f64().unwrap());
    assert_eq!(
        json(&trained.join("summary.json"))["data_wait"],
        waited / seconds
    );
}

#[test]
fn only_the_newest_checkpoints_and_the_best_are_kept() {
    let folder = &Folder::new();
    let flags = "--checkpoint-every 1 --eval-every 3 --keep 2 --run-dir run";
    run(folder, &format!("{COPY} {flags}"));
    let trained = folder.join("run");
    let state = json(&trained.join("checkpoints/step-12/state.json"));
    let best = state["best"]["step"].as_u64().unwrap();
    assert_eq!(best, best_evaluation(&trained).1);
    let mut expected = vec![11, 12, best];
    expected.sort_unstable();
    expected.dedup();
    let entries = std::fs::read_dir(trained.join("checkpoints")).unwrap();
    let steps = entries.map(|entry| entry.unwrap().file_name());
    let mut steps: Vec<u64> = steps
        .map(|name| name.to_str().unwrap()[5..].parse().unwrap())
        .collect();
    steps.sort_unstable();
    assert_eq!(steps, expected);
    for which in ["last", "best", "11", "average:2"] {
        let said = run(folder, &format!("eval run --int8 --checkpoint {which}"));
        let mean = said.contains("mean of 2 checkpoints up to step 12, 8 bits");
        assert_eq!(mean, which == "average:2", "{said}");
    }
    rejected(
        folder,
        "eval run --checkpoint first",
        &["--checkpoint", "first"],
    );
}

/// Returns the smallest loss of an evaluation, and its step.
fn best_evaluation(run: &Path) -> (f64, u64) {
    let lines = losses(run);
    let evaluations = lines
        .iter()
        .filter_map(|line| Some((line.get("valid_loss")?.as_f64()?, line["step"].as_u64()?)));
    evaluations.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

#[test]
fn training_ends_when_patience_runs_out() {
    let folder = &Folder::new();
    let flags = "--steps 500 --set optimization.schedule.factor=1e-30 --eval-every 2 --patience 3 --best-by exact-match";
    run(folder, &format!("{SIZE} {flags}"));
    let status = json(&folder.join("runs/copy-1/status.json"));
    assert!(status["reason"].as_str().unwrap().ends_with(" step 2"));
    let file = folder.join("runs/copy-1/summary.json");
    let summary = json(&file);
    assert_eq!(summary["steps"], 8);
    let ended = "has ended after step 8 (no better evaluation since step 2); say with --steps how far it goes on\n";
    fails(&output(folder, "resume runs/copy-1"), 2, &[ended]);
    // Without its summary, the run looks as if it was killed after the last checkpoint. When it is
    // resumed, it ends at the same step as before.
    std::fs::remove_file(&file).unwrap();
    run(folder, "resume runs/copy-1");
    let again = json(&file);
    assert_eq!(again["steps"], 8);
    assert_eq!(again["exact_match"], summary["exact_match"]);
    // Whoever asks for steps gets the patience of the run once more.
    run(folder, "resume runs/copy-1 --steps 500");
    assert_eq!(json(&file)["steps"], 14);
}

/// Trains a run whose loss soon grows, because its learning rate is far too large.
fn grown_worse(folder: &Path) -> PathBuf {
    let flags = "--steps 2000 --set optimization.schedule.factor=40 --eval-every 2 --patience 4";
    run(folder, &format!("{SIZE} {flags}"));
    folder.join("runs/copy-1")
}

#[test]
fn every_command_uses_the_model_of_the_best_evaluation() {
    let folder = &Folder::new();
    let (path, trained) = (folder, grown_worse(folder));
    let (best, step) = best_evaluation(&trained);
    let last = newest(&trained);
    assert!(last > step as usize);
    let summary = json(&trained.join("summary.json"));
    assert_eq!(summary["model_step"], step);
    assert_eq!(summary["steps"], last);
    let judged = summary["valid_loss"].as_f64().unwrap();
    assert!((judged - best).abs() < 1e-6, "{judged}, not {best}");
    let parsed = |line: &str| parsed(path, line);
    let evaluated = parsed("eval latest --json");
    assert_eq!(evaluated["step"], step);
    for score in ["exact_match", "token_accuracy"] {
        assert_eq!(evaluated[score], summary[score]);
    }
    assert_eq!(parsed("eval latest --json --checkpoint last")["step"], last);
    let listed = &parsed("runs --json");
    assert_eq!(listed["best"]["step"], step);
    assert_eq!(listed["metrics"]["model_step"].as_f64(), Some(step as f64));
    assert_eq!(listed["metrics"]["valid_loss"], summary["valid_loss"]);
    for line in [
        "generate latest --input none",
        "export latest --output file --layout native",
    ] {
        std::fs::write(path.join("none"), "").unwrap();
        let output = output(path, line);
        let stdout = succeed(&output);
        let said = stdout + &text(&output.stderr);
        assert_has(&said, &[&format!("the model of step {step}\n")]);
    }
}

#[test]
fn a_run_ends_even_if_its_best_checkpoint_is_gone() {
    let folder = &Folder::new();
    let trained = grown_worse(folder);
    let (_, best) = best_evaluation(&trained);
    std::fs::remove_file(trained.join("summary.json")).unwrap();
    std::fs::remove_file(trained.join(format!("checkpoints/step-{best}/model.safetensors")))
        .unwrap();
    let notes = notes(&output(folder, "resume runs/copy-1"));
    // The loss is said before training goes on, and no other line names the step.
    let warning = "model.safetensors: is missing; the best model is lost, ";
    let (before, after) = notes.split_once("\nresuming after step").unwrap();
    assert_has(before, &["warning: ", &format!("step-{best}/{warning}")]);
    assert!(!after.contains("the run's model"), "{after}");
    let tested = json(&trained.join("summary.json"));
    assert_eq!(tested["model_step"], tested["steps"]);
}

#[test]
fn wrong_edits_of_a_run_are_named_and_nothing_is_lost() {
    let folder = &Folder::new();
    run(folder, &format!("{COPY} --checkpoint-every 3 --keep 9"));
    let trained = folder.join("runs/copy-1");
    let config = std::fs::read_to_string(trained.join("config.json")).unwrap();
    let resume = "resume runs/copy-1 --steps 15";
    for (from, to, part) in [
        ("\"keep\"", "\"kep\"", "checkpointing.kep"),
        ("\"d_ff\": 16", "\"d_ff\": \"x\"", "model.d_ff"),
    ] {
        let edited = config.replace(from, to);
        assert_ne!(edited, config);
        std::fs::write(trained.join("config.json"), &edited).unwrap();
        fails(&output(folder, resume), 2, &[part]);
        let after = std::fs::read_to_string(trained.join("config.json")).unwrap();
        assert_eq!(after, edited);
        assert!(trained.join("checkpoints/step-3").exists());
    }
    std::fs::write(trained.join("config.json"), &config).unwrap();
    // Two damaged checkpoints are skipped: a renamed folder, and one with an empty manifest.
    let checkpoints = trained.join("checkpoints");
    std::fs::rename(checkpoints.join("step-6"), checkpoints.join("step-99")).unwrap();
    let list = "{\"format\": 1, \"files\": {}}";
    std::fs::write(checkpoints.join("step-12/manifest.json"), list).unwrap();
    let notes = notes(&output(folder, resume));
    assert_has(&notes, &["step 6", "step-12/config.json"]);
    assert_eq!(json(&trained.join("summary.json"))["steps"], 15);
}

#[test]
fn fewer_steps_than_were_taken_are_rejected() {
    let folder = &Folder::new();
    run(folder, COPY);
    std::fs::remove_file(folder.join("runs/copy-1/summary.json")).unwrap();
    let resumed = output(folder, "resume runs/copy-1 --steps 10");
    fails(&resumed, 2, &["--steps 10"]);
}

#[test]
fn a_configuration_is_read_and_overridden() {
    let path = &Folder::new();
    let flags =
        "--optimizer adamw --clip-norm 1 --accumulate 2 --schedule cosine --gradient-checkpointing";
    let flags = format!("{COPY} {flags}");
    run(path, &format!("{flags} --run-dir flags"));
    run(path, "--config flags/config.json --run-dir file");
    let [flags, file] = ["flags", "file"].map(|run| path.join(run));
    assert!(everything(&flags, 12) == everything(&file, 12));
    assert_eq!(
        json(&flags.join("config.json")),
        json(&file.join("config.json"))
    );
    // The config.json of a run repeats the run. A further flag changes one setting.
    run(path, "--config file/config.json --run-dir again --steps 5");
    assert_eq!(losses(&path.join("again")).len(), 6);

    std::fs::write(path.join("b.toml"), "[optimization]\nbach_size = 5").unwrap();
    rejected(
        path,
        "--config b.toml",
        &["--config b.toml", "optimization.batch_size"],
    );
    rejected(path, "--config none", &["--config none"]);
}

#[test]
fn half_precision_learns_and_resumes_exactly() {
    // Dropout is off, because its masks depend on the precision.
    let without_dropout = COPY.replace("--dropout 0.1", "--dropout 0");
    let (_folder, single) = run_of(&without_dropout);
    let single = step_losses(&single);
    for precision in ["bf16", "f16"] {
        let (_folder, run) = run_of(&format!("{without_dropout} --precision {precision}"));
        let half = step_losses(&run);
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
            let (_folder, run) = run_of(&format!(
                "{without_dropout} --precision bf16 --set execution.loss_chunk=16"
            ));
            for (chunked, whole) in step_losses(&run).iter().zip(&half) {
                // Matmuls of a few rows are computed in f32, so chunks round differently.
                assert!((chunked - whole).abs() < 0.01, "{chunked}, not {whole}");
            }
        }
        let (folder, trained) = small_run(&format!("--precision {precision}"));
        let whole = everything(&trained, 12);
        std::fs::remove_dir_all(trained.join("checkpoints/step-12")).unwrap();
        let eval = super::output(&folder, "eval run");
        assert!(super::text(&eval.stderr).contains("the best model is lost"));
        super::run(&folder, "resume run");
        assert!(everything(&trained, 12) == whole, "{precision}");
        super::run(&folder, "eval run");
    }
}

#[test]
fn a_damaged_checkpoint_never_outlives_good_ones() {
    let (folder, trained) = small_run("--keep 1 --schedule noam");
    assert_eq!(newest(&trained), 12);
    let (other, _) = small_run("--keep 3 --schedule noam");
    let [from, to] = [&other, &folder].map(|folder| folder.join("run/checkpoints/step-8"));
    copy_files(from, &to);
    // The copied checkpoint records the length of `metrics.jsonl` of its own run. The times in that
    // file make its length different, so the file is copied as well.
    let metrics = other.join("run/metrics.jsonl");
    std::fs::copy(metrics, trained.join("metrics.jsonl")).unwrap();
    std::fs::write(trained.join("checkpoints/step-12/state.json"), "?").unwrap();
    run(&folder, "resume run --steps 11");
    assert_eq!(newest(&trained), 11);
    run(&folder, "eval run");
}

#[test]
fn a_model_without_its_moments_is_used_but_not_trained() {
    let (folder, trained) = small_run("--keep 1");
    let loss = || parsed(&folder, "eval run --json")["loss"].clone();
    let before = loss();
    std::fs::remove_file(trained.join("checkpoints/step-12/optimizer.safetensors")).unwrap();
    assert_eq!(loss(), before);
    let missing = "step-12/optimizer.safetensors: is missing";
    rejected(&folder, "resume run --steps 20", &[missing]);
}

#[test]
fn steps_that_f16_skips_are_counted() {
    let folder = &Folder::new();
    let flags = "--precision f16 --steps 20 --warmup 20 --schedule noam --set optimization.schedule.factor=8 --norm post \
        --batch-size 1 --symbols 9 --max-length 2 --d-model 16 --heads 2 --d-ff 16 --run-dir run \
        --checkpoint-every 1 --keep 100";
    run(folder, flags);
    let trained = folder.join("run");
    assert_eq!(losses(&trained)[0]["skipped"], true);
    let whole = everything(&trained, 20);
    for step in 2..=20 {
        std::fs::remove_dir_all(trained.join(format!("checkpoints/step-{step}"))).unwrap();
    }
    run(folder, "resume run");
    assert!(everything(&trained, 20) == whole);
}
