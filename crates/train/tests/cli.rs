//! Runs the program as its users do: results are on stdout, and each mistake gives one clear line.

use std::ops::Deref;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

use task::COPY;

#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/effect.rs"]
mod effect;
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
#[cfg(unix)]
#[path = "cli/visible.rs"]
mod visible;
#[path = "cli/weights.rs"]
mod weights;

/// A folder for the files of a test. It is removed at the end of the test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self
    }
}

fn train(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("train").unwrap();
    command.current_dir(folder).env_remove("RUST_LOG");
    command
}

/// Runs a command line.
fn output(folder: &Path, line: &str) -> Output {
    let mut command = train(folder);
    command.args(line.split_whitespace()).output().unwrap()
}

/// As [`output`], with an input on stdin.
fn answer(folder: &Path, line: &str, input: impl Into<Vec<u8>>) -> Output {
    let mut command = train(folder);
    command.args(line.split_whitespace()).write_stdin(input);
    command.output().unwrap()
}

/// Runs a script in bash. `TRAIN` stands for the path of the program.
fn shell(folder: &Path, script: &str) -> Output {
    let program = format!("'{}'", env!("CARGO_BIN_EXE_train"));
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", &script.replace("TRAIN", &program)]);
    bash.current_dir(folder).output().unwrap()
}

/// Runs a command line, which must succeed, and returns what it prints on stdout.
fn run(folder: &Path, line: &str) -> String {
    succeed(&output(folder, line))
}

/// Runs a command line, which must succeed, and returns the JSON that it prints on stdout.
fn parsed(folder: &Path, line: &str) -> Value {
    serde_json::from_str(&run(folder, line)).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[cfg(unix)]
fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

/// Waits until `is_so` returns true.
#[cfg(unix)]
#[track_caller]
fn wait_until(is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed().as_secs() < 120, "too late");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn json(path: &Path) -> Value {
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

/// Creates the folder `to`, and copies the files of the folder `from` to it.
fn copy_files(from: impl AsRef<Path>, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Checks that a command succeeded, and returns what it printed on stdout.
#[track_caller]
fn succeed(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Checks that a command succeeded, and returns what it printed on stderr.
#[track_caller]
fn notes(output: &Output) -> String {
    succeed(output);
    text(&output.stderr)
}

#[test]
fn a_run_prints_examples_and_leaves_a_folder_that_explains_it() {
    let folder = &Folder::new();
    let stdout = run(folder, &format!("fit --task copy {COPY}"));
    let lines: Vec<&str> = stdout.lines().collect();
    // The output has the evaluation of the last step, three examples, up to three further ones
    // with wrong outputs, and a closing line.
    let (evaluation, lines) = lines.split_first().unwrap();
    assert_has(evaluation, &["step 12: evaluation loss "]);
    let (last, examples) = lines.split_last().unwrap();
    assert!(last.contains("sequences, step 12 of 12, "), "{last}");
    assert!((9..=18).contains(&examples.len()), "{stdout}");
    assert_eq!(examples.len() % 3, 0, "{stdout}");
    for sample in examples.chunks(3) {
        assert!(sample[0].starts_with("source   "), "{stdout}");
        let expected = sample[1].strip_prefix("expected ").unwrap().trim();
        let decoded = sample[2].strip_prefix("decoded ").unwrap();
        let (decoded, mark) = decoded.rsplit_once('(').unwrap();
        let is_right = expected == decoded.trim();
        assert_eq!(mark, if is_right { "right)" } else { "wrong)" }, "{stdout}");
    }

    let run_folder = folder.join("runs/copy-1");
    let summary = json(&run_folder.join("summary.json"));
    let fields = "task backend parameters steps train_seconds exact_match token_accuracy valid_loss \
        tokens_per_second peak_rss_bytes seed version";
    for field in fields.split_whitespace() {
        assert!(summary.get(field).is_some(), "summary.json has no {field}");
    }
    assert_eq!(summary["task"], "copy");
    assert_eq!(summary["backend"], "flex");
    assert_eq!(summary["steps"], 12);
    assert!(summary["train_seconds"].as_f64().unwrap() > 0.0);
    assert!(last.contains(&format!("{:.4}", summary["exact_match"].as_f64().unwrap())));
    let config = json(&run_folder.join("config.json"));
    assert_eq!(config["model"]["d_model"], 16);
    assert_eq!(config["data"]["symbols"], 9);
    let steps = steps(&run_folder).into_iter().map(|(step, _)| step);
    assert!(steps.eq(1..=12));
    for file in [
        "checkpoints/step-12/model.safetensors",
        "pictures/loss.svg",
        "pictures/learning_rate.svg",
    ] {
        assert!(run_folder.join(file).exists(), "{file}");
    }

    // A second run has a folder of its own.
    run(folder, COPY);
    assert!(folder.join("runs/copy-2/summary.json").exists());
}

/// Returns the values of JSON Lines.
fn objects(lines: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap();
    lines.lines().map(parse).collect()
}

/// Returns the lines of `metrics.jsonl`.
fn metrics(run: &Path) -> Vec<Value> {
    objects(&std::fs::read_to_string(run.join("metrics.jsonl")).unwrap())
}

/// Returns the steps of training in `metrics.jsonl`, each with its loss.
fn steps(run: &Path) -> Vec<(u64, f64)> {
    let step = |line: &Value| Some((line["step"].as_u64()?, line["loss"].as_f64()?));
    metrics(run).iter().filter_map(step).collect()
}

/// Returns the losses of the steps of training in `metrics.jsonl`.
fn step_losses(run: &Path) -> Vec<f64> {
    steps(run).into_iter().map(|(_, loss)| loss).collect()
}

/// Returns the lines of `metrics.jsonl` without times, which differ from run to run.
fn losses(run: &Path) -> Vec<Value> {
    let mut lines = metrics(run);
    for line in &mut lines {
        let fields = line.as_object_mut().unwrap();
        fields.retain(|name, _| !["seconds", "tokens_per_second"].contains(&name.as_str()));
    }
    lines
}

#[test]
fn the_same_seed_gives_the_same_losses_and_another_does_not() {
    let folder = &Folder::new();
    let train = |name: &str, seed: u64| {
        run(folder, &format!("{COPY} --seed {seed} --run-dir {name}"));
        let run = folder.join(name);
        let model = std::fs::read(run.join("checkpoints/step-12/model.safetensors"));
        (losses(&run), model.unwrap())
    };
    let once = train("a", 5);
    assert_eq!(once, train("b", 5));
    assert_ne!(once.0, train("c", 6).0);
}

/// Trains with the default settings, and checks that the copy task is solved.
fn assert_solves(backend: &str) {
    let folder = &Folder::new();
    let stdout = run(folder, &format!("--backend {backend}"));
    let summary = json(&folder.join("runs/copy-1/summary.json"));
    assert_eq!(summary["split"], "test");
    assert_eq!(summary["sequences"], 1000);
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
fn the_annotated_preset_prints_its_loss_after_each_epoch() {
    let folder = &Folder::new();
    let line = "fit --preset annotated-copy --steps 40 --d-model 16 --heads 2 --d-ff 16";
    let stdout = run(folder, line);
    for epoch in ["step 20: evaluation loss", "step 40: evaluation loss"] {
        assert_eq!(stdout.matches(epoch).count(), 1, "{stdout}");
    }
    let config = json(&folder.join("runs/annotated-copy-1/config.json"));
    let optimization = &config["optimization"];
    assert_eq!(optimization["schedule"]["kind"], "noam");
    assert_eq!(optimization["schedule"]["warmup"], 400);
    assert_eq!(optimization["batch_size"], 30);
}

#[test]
fn other_models_train_too() {
    let folder = &Folder::new();
    let size = "--steps 60 --batch-size 16 --d-model 16 --heads 2 --d-ff 16 --layers 1 --symbols 9 --max-length 5";
    for (name, flags) in [
        (
            "rotary",
            "--norm post --positions rotary --activation swiglu --weight-tying all",
        ),
        (
            "learned",
            "--norm pre --positions learned --activation gelu --weight-tying decoder",
        ),
        (
            "none",
            "--schedule noam --positions none --label-smoothing 0.1 --warmup 20",
        ),
    ] {
        run(folder, &format!("{size} {flags} --run-dir {name}"));
        let losses = step_losses(&folder.join(name));
        let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
        let (first, last) = (mean(&losses[..10]), mean(&losses[50..]));
        assert!(last < 0.95 * first, "{name}: {first} to {last}");
        let settings = json(&folder.join(name).join("config.json"));
        assert_eq!(settings["model"]["positions"], name);
    }
}

#[test]
fn backends_are_listed() {
    let folder = &Folder::new();
    let stdout = run(folder, "backends");
    assert_has(&stdout, &["flex", "cuda", "this CPU has scalar"]);
    let default: Vec<&str> = stdout
        .lines()
        .filter(|line| line.contains("the default"))
        .collect();
    assert_eq!(default.len(), 1, "{stdout}");
    #[cfg(not(any(feature = "ndarray", feature = "wgpu")))]
    assert!(default[0].starts_with("flex"), "{stdout}");
}

#[test]
fn help_and_version_are_printed_on_stdout() {
    let folder = &Folder::new();
    assert!(run(folder, "fit --help").contains("--run-dir"));
    let version = run(folder, "--version");
    assert_eq!(
        version.trim(),
        format!("train {}", env!("CARGO_PKG_VERSION"))
    );
}

/// Checks that a text contains these parts.
#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

/// Checks that a command failed with this exit code and a message that contains these parts.
#[track_caller]
fn fails(output: &Output, code: i32, parts: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_has(&stderr, parts);
    assert!(!stderr.contains("panicked"), "{stderr}");
}

/// Checks that a command failed with code 2, and that the last line on stderr contains these parts.
/// Notes may come before this line.
#[track_caller]
fn fails_after_notes(output: &Output, parts: &[&str]) {
    fails(output, 2, &[]);
    assert_has(text(&output.stderr).lines().last().unwrap(), parts);
}

/// Checks that a wrong command ends with code 2 and leaves no folder `runs`.
///
/// Stdout must be empty, and stderr must be one line with all `expected` texts.
fn refused(folder: &Path, arguments: &[&str], expected: &[&str]) {
    let output = train(folder).args(arguments).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("error: "), "{arguments:?}: {stderr}");
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

/// As [`refused`], for a command line.
fn rejected(folder: &Path, line: &str, expected: &[&str]) {
    refused(
        folder,
        &line.split_whitespace().collect::<Vec<_>>(),
        expected,
    );
}

/// Returns the rows of a table: a command line, and what its output or its error must contain. In a
/// line of the table, each ` | ` is followed by such a part.
fn rows(table: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let lines = table.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).map(|line| {
        let (command, expected) = line.split_once(" | ").expect("a line has two columns");
        (command, expected.split(" | ").collect())
    })
}

/// Checks that each command line of a table of [`rows`] is [`refused`]. `before` begins each
/// command line.
fn all_rejected(folder: &Path, before: &str, table: &str) {
    for (flags, expected) in rows(table) {
        rejected(folder, &format!("{before} {flags}"), &expected);
    }
}

#[test]
fn wrong_values_are_rejected_in_one_line() {
    let folder = &Folder::new();
    let table = "
        --heads 3 --d-model 512 | --heads 3
        --dropout 1.5 | --dropout 1.5
        --dropout -0.1 | --dropout -0.1
        --dropout much | --dropout
        --min-length 9 --max-length 4 | --min-length 9
        --max-length 0 | --max-length 0
        --steps 1e3 | --steps
        --steps 0 | --steps 0
        --task copy --preset annotated-copy | --preset annotated-copy
        --backend nonsense | --backend nonsense
        --backend flex:3 | --backend flex:3
        --symbols 1 --max-length 1 | --symbols 1
        --batch-size 0 | --batch-size 0
        --layers 0 | --layers 0
        --target 1.5 | --target 1.5
        --set optimization.schedule.factor=-1 | optimization.schedule.factor -1
        --warmup 0 | --warmup 0
        --eval-every 0 | --eval-every 0
        --label-smoothing 1 | --label-smoothing 1
        --preset annotated-copy --symbols 5 | --symbols 5
        --norm middle | --norm
        --task fly | --task
        --seed -1 | --seed -1: must be a whole number of at least 0
        --set data.task=sort | data.task sort: is chosen by --task sort, not by --set
        --clip-norm nan | --clip-norm
        --weight-decay 0.1 | --weight-decay
        --optimizer adamw --weight-decay -1 | --weight-decay -1
        --ema 1 | --ema
        --patience 0 | --patience 0
        --keep 0 | --keep 0
        --best-by luck | --best-by
        --steps | --steps
        --stepz 4 | --steps
        --nothing-like-it | --nothing-like-it";
    all_rejected(folder, "", table);
    all_rejected(folder, "fit", table);
    rejected(folder, "fly", &["fly", "--help"]);
}

#[test]
fn sizes_beyond_any_machine_are_rejected() {
    let folder = &Folder::new();
    let huge = usize::MAX.to_string();
    for flag in "max-length batch-size d-model d-ff layers symbols steps".split(' ') {
        for value in [&huge, "1000000000000"] {
            // The message names the value, even if the value is wrong only together with another
            // flag.
            rejected(folder, &format!("--heads 1 --{flag} {value}"), &[value]);
        }
    }
}

#[test]
fn a_closed_stdout_or_stderr_does_not_stop_a_run() {
    let folder = &Folder::new();
    let run = |line: &str| {
        let line = line.replace("SMALL", COPY);
        shell(folder, &format!("set -o pipefail; {line}"))
    };
    for line in [
        "TRAIN SMALL | true",
        "TRAIN SMALL 2>/dev/full",
        "TRAIN SMALL 2>&- >/dev/null",
    ] {
        assert_eq!(run(line).status.code(), Some(0), "{line}");
    }
    let code = run("TRAIN --heads 3 2>/dev/full").status.code();
    assert_eq!(code, Some(2));
    for line in ["TRAIN SMALL >/dev/full", "TRAIN backends >/dev/full"] {
        fails(&run(line), 1, &["cannot write to standard output"]);
    }
}

#[test]
fn stderr_has_plain_lines_without_a_terminal() {
    let folder = &Folder::new();
    let stderr = text(&output(folder, COPY).stderr);
    assert!(stderr.contains("\ntraining copy on "), "{stderr}");
    assert!(!stderr.contains(['\r', '\u{1b}']), "{stderr:?}");
    // `RUST_LOG` shows internal events.
    let mut command = train(folder);
    command.args(COPY.split(' ')).env("RUST_LOG", "info");
    assert!(text(&command.output().unwrap().stderr).contains("saved a checkpoint"));
}

#[test]
fn a_run_with_a_target_evaluates_at_its_last_step() {
    let folder = &Folder::new();
    let stdout = run(folder, &format!("{COPY} --target 0.5 --eval-every 7"));
    assert_has(&stdout, &["step 7: ", "step 12: "]);
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_backend_that_is_not_built_in_says_which_feature_to_add() {
    let folder = &Folder::new();
    rejected(
        folder,
        "--backend cuda",
        &["--backend cuda", "`--features cuda`"],
    );
}

#[test]
fn unusable_run_folders_are_rejected() {
    let path = &Folder::new();
    let line = format!("{COPY} --run-dir mine");
    run(path, &line);
    let before = std::fs::read(path.join("mine/summary.json")).unwrap();
    rejected(path, &line, &["--run-dir mine", "already holds a run"]);
    assert_eq!(
        std::fs::read(path.join("mine/summary.json")).unwrap(),
        before
    );

    // `train` cannot create the run folder if a file has the name of this folder or of its parent.
    // A folder without write permission would not do, because root can write to it.
    std::fs::write(path.join("file"), "mine").unwrap();
    for name in ["file", "file/below"] {
        rejected(path, &format!("--run-dir {name}"), &["--run-dir", name]);
    }
    assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "mine");
}

/// Checks that the losses of 20 steps without dropout on `backend` differ by at most `tolerance`
/// from those on flex.
#[cfg(any(feature = "ndarray", feature = "wgpu"))]
fn assert_losses_of(backend: &str, tolerance: f64) {
    let folder = &Folder::new();
    let run = |backend: &str| {
        let line = "--steps 20 --dropout 0 --batch-size 8 --max-length 6";
        let mut command = train(folder);
        command
            .env("XDG_RUNTIME_DIR", folder.as_os_str())
            .args(line.split(' '));
        command.args(["--backend", backend, "--run-dir", backend]);
        succeed(&command.output().unwrap());
        step_losses(&folder.join(backend))
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
