//! The tasks of `train fit`.

use std::path::Path;

use super::{Folder, all_rejected, answer, fails, json, run, succeed};

/// Flags of a small model, without flags that belong to a single task.
pub const TINY: &str = "--steps 12 --batch-size 8 --d-model 16 --heads 2 --d-ff 16 --layers 1";

/// The flags of [`COPY`] without `--steps`.
pub const SIZE: &str = "--batch-size 8 --d-model 16 --heads 2 --d-ff 16 --layers 1 --symbols 9 \
    --max-length 5 --dropout 0.1";

/// Flags of a run of the copy task that takes at most a second.
pub const COPY: &str = "--steps 12 --batch-size 8 --d-model 16 --heads 2 --d-ff 16 --layers 1 \
    --symbols 9 --max-length 5 --dropout 0.1";

/// Trains a small model on sequences of at most 5 of 9 symbols, in the folder `run_dir`.
pub fn train_tiny(folder: &Path, run_dir: &str, flags: &str) {
    let line = format!("fit {TINY} --symbols 9 --max-length 5 --run-dir {run_dir} {flags}");
    run(folder, &line);
}

/// Trains a run of the copy task with the flags of [`COPY`], in the folder `run_dir`.
pub fn train_copy(folder: &Path, run_dir: &str, flags: &str) {
    run(folder, &format!("fit {COPY} --run-dir {run_dir} {flags}"));
}

#[test]
fn every_task_trains_and_generates() {
    let folder = &Folder::new();
    for (task, flags, source) in [
        ("reverse", "--symbols 9 --max-length 5", "3 1 2"),
        ("sort", "--symbols 9 --max-length 5", "3 1 2"),
        ("add", "--max-digits 2", "1 2 + 9"),
    ] {
        let stdout = run(folder, &format!("fit --task {task} {TINY} {flags}"));
        assert!(stdout.contains("exact match "), "{stdout}");
        let name = format!("runs/{task}-1");
        let run = folder.join(&name);
        assert_eq!(json(&run.join("config.json"))["data"]["task"], task);
        assert_eq!(json(&run.join("summary.json"))["task"], task);
        let generate = format!("generate {name}");
        let stdout = succeed(&answer(folder, &generate, source));
        assert_eq!(stdout.lines().count(), 1);
        fails(&answer(folder, &generate, "3 x"), 2, &["\"x\""]);
    }
}

#[test]
fn flags_of_other_tasks_are_rejected() {
    let folder = &Folder::new();
    let table = "
        --task add --symbols 5 | --symbols 5: is not a setting of --task add, which has --max-digits
        --task add --min-length 2 | --min-length 2
        --task add --max-length 9 | --max-length 9
        --max-digits 3 | --max-digits 3
        --task sort --max-digits 3 | --max-digits 3
        --preset annotated-copy --max-digits 3 | --max-digits 3
        --task add --max-digits 0 | --max-digits 0
        --task add --max-digits 1001 | --max-digits 1001
        --task add --max-digits -1 | --max-digits
        --task reverse --symbols 0 | --symbols 0
        --task subtract | copy, reverse, sort, add";
    all_rejected(folder, "", table);
}

#[test]
fn small_tasks_are_learned() {
    let folder = &Folder::new();
    // Addition of numbers with two digits takes longer to learn, so the test requires only 10 %
    // correct sums. By chance, less than 1 % would be correct.
    let small = "--symbols 9 --max-length 5 --steps 500";
    for (task, flags, least) in [
        ("reverse", small, 0.9),
        ("sort", small, 0.9),
        ("add", "--max-digits 2 --steps 900", 0.1),
    ] {
        let size = "--layers 1 --batch-size 32 --d-model 32 --d-ff 64";
        let stdout = run(folder, &format!("--task {task} {size} {flags}"));
        let summary = json(&folder.join(format!("runs/{task}-1/summary.json")));
        let exact_match = summary["exact_match"].as_f64().unwrap();
        assert!(exact_match >= least, "{stdout}");
    }
}
