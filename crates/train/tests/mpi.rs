//! Trains, evaluates and generates on several processes.
//!
//! `mpirun` of Open MPI must be installed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use training::data::SYNTHETIC_TASKS;

const SMALL: &str = "--batch-size 16 --d-model 16 --heads 2 --d-ff 16 --layers 1 --symbols 9 \
                     --max-length 5 --checkpoint-every 20";

/// Transports of Open MPI, as values of its parameter `btl`: shared memory, and TCP.
///
/// `self` is for messages of a process to itself.
const TRANSPORTS: [&str; 2] = ["vader,self", "tcp,self"];

/// Returns the command that runs `train` with `flags` in `size` processes.
fn mpirun(folder: &Path, size: usize, transport: &str, flags: &str) -> Command {
    let mut command = launcher(folder, transport);
    command
        .args(["-np", &size.to_string()])
        .arg(cargo_bin("train"));
    command.args(flags.split_whitespace());
    command
}

fn launcher(folder: &Path, transport: &str) -> Command {
    let mut command = Command::new("mpirun");
    command
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .stdin(Stdio::null())
        .args(["--oversubscribe", "--mca", "btl", transport]);
    command
}

fn alone(folder: &Path, flags: &str) -> Command {
    let mut command = Command::new(cargo_bin("train"));
    command.current_dir(folder).args(flags.split_whitespace());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("mpirun is installed");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the lines of `metrics.jsonl` without times.
fn metrics(run: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let lines = lines.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        fields.retain(|name, _| !["seconds", "tokens_per_second"].contains(&name.as_str()));
        line
    });
    lines.collect()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns the largest difference of two runs in a field of `metrics.jsonl`.
fn largest_difference(a: &[Value], b: &[Value], field: &str) -> f64 {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().zip(b);
    let pairs = pairs.filter_map(|(a, b)| Some((a[field].as_f64()?, b[field].as_f64().unwrap())));
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn losses_do_not_depend_on_the_number_of_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // The learning rate is small. With a large one, rounding errors of 1e-7 would grow while the
    // task is learned, even in a single process that accumulates batches.
    let flags =
        |run: &str| format!("{SMALL} --steps 200 --dropout 0 --learning-rate 3e-4 --run-dir {run}");
    succeed(&mut alone(path, &flags("alone")));
    let expected = metrics(&path.join("alone"));
    for (run, size, transport) in [
        ("one", 1, TRANSPORTS[0]),
        ("two", 2, TRANSPORTS[0]),
        ("tcp", 2, TRANSPORTS[1]),
        ("four", 4, TRANSPORTS[0]),
    ] {
        let printed = succeed(&mut mpirun(path, size, transport, &flags(run)));
        // Only rank 0 prints.
        assert_eq!(printed.matches("exact match").count(), 3, "{printed}");
        assert!(!printed.contains('\u{1b}'), "{printed}");
        let found = metrics(&path.join(run));
        for field in ["loss", "gradient_norm", "valid_loss"] {
            let difference = largest_difference(&found, &expected, field);
            assert!(difference < 1e-5, "{run}: {field} differs by {difference}");
        }
        for (a, b) in found.iter().zip(&expected) {
            assert_eq!((&a["step"], &a["tokens"]), (&b["step"], &b["tokens"]));
        }
        let summary = json(&path.join(run).join("summary.json"));
        assert_eq!(summary["processes"], size);
        let share = summary["communication"].as_f64();
        assert_eq!(share.is_some(), size > 1);
        assert!(share.is_none_or(|share| 0.0 < share && share < 1.0));
    }
    assert_eq!(metrics(&path.join("one")), expected);
    assert!(largest_difference(&metrics(&path.join("two")), &expected, "loss") > 0.0);
}

#[test]
fn large_parameters_are_divided_and_train_and_resume_like_small_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // The matrices of the feed-forward layers have 655,360 elements. They are therefore exchanged
    // apart from small parameters, each in two blocks. The parts of three processes differ in
    // length.
    let flags = |run: &str, steps: usize| {
        format!(
            "--batch-size 16 --d-model 256 --heads 2 --d-ff 2560 --layers 1 --symbols 9 --max-length 5 \
             --steps {steps} --dropout 0 --learning-rate 3e-4 --clip-norm 0.5 --run-dir {run}"
        )
    };
    succeed(&mut alone(path, &flags("alone", 4)));
    succeed(&mut mpirun(path, 2, TRANSPORTS[0], &flags("two", 4)));
    for (run, before, after) in [("again", 2, 2), ("more", 1, 3), ("less", 3, 2)] {
        succeed(&mut mpirun(path, before, TRANSPORTS[0], &flags(run, 2)));
        let resume = format!("resume {run} --steps 4");
        succeed(&mut mpirun(path, after, TRANSPORTS[1], &resume));
    }
    let expected = metrics(&path.join("alone"));
    assert!(expected.iter().any(|line| line["gradient_norm"].is_f64()));
    for (run, processes) in [("two", 2), ("again", 2), ("more", 3), ("less", 2)] {
        let summary = json(&path.join(run).join("summary.json"));
        assert_eq!(summary["processes"], processes);
        let found = metrics(&path.join(run));
        let steps = |lines: &[Value]| -> Vec<Value> {
            let lines = lines.iter().filter(|line| line["loss"].is_f64());
            lines.cloned().collect()
        };
        let (found, expected) = (steps(&found), steps(&expected));
        for field in ["loss", "gradient_norm"] {
            let difference = largest_difference(&found, &expected, field);
            assert!(difference < 1e-5, "{run}: {field} differs by {difference}");
        }
    }
    // A checkpoint has the moments of all parameters, like that of one process. The same number of
    // processes gives the same bytes.
    for file in ["model", "optimizer"] {
        let read = |run: &str| {
            let file = format!("checkpoints/step-4/{file}.safetensors");
            fs::read(path.join(run).join(file)).unwrap()
        };
        assert!(read("again") == read("two"), "{file} differs");
        assert_eq!(read("two").len(), read("alone").len());
    }
}

/// Returns the ids of the `train` processes that have the argument `run`, in increasing order.
fn processes_of(run: &str) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let processes = processes.filter_map(|process| {
        let id = process.file_name().to_str()?.parse().ok()?;
        let command = fs::read(process.path().join("cmdline")).ok()?;
        let mut words = command.split(|byte| *byte == 0);
        let is_train = words.next()?.ends_with(b"/train");
        (is_train && words.any(|word| word == run.as_bytes())).then_some(Pid::from_raw(id))
    });
    let mut ids: Vec<Pid> = processes.collect();
    ids.sort();
    ids
}

fn wait_for(path: &Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no {path:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_process_ends_the_run_which_resumes_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let flags = |run: &str| format!("{SMALL} --steps 2000 --run-dir {run}");
    succeed(&mut mpirun(path, 2, TRANSPORTS[0], &flags("whole")));
    for (victim, run) in [(0, "first"), (1, "second")] {
        let mut job = mpirun(path, 2, TRANSPORTS[0], &flags(run));
        let mut job = job
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for(&path.join(run).join("checkpoints/step-20"));
        let begun = Instant::now();
        kill(processes_of(run)[victim], Signal::SIGKILL).unwrap();
        assert!(!job.wait().unwrap().success());
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert_eq!(processes_of(run), []);
        succeed(&mut mpirun(
            path,
            2,
            TRANSPORTS[0],
            &format!("resume {run}"),
        ));
        let (whole, killed) = (path.join("whole"), path.join(run));
        assert_eq!(metrics(&killed), metrics(&whole));
        let model = |run: &Path| fs::read(run.join("checkpoints/step-2000/model.safetensors"));
        assert!(
            model(&killed).unwrap() == model(&whole).unwrap(),
            "other weights"
        );
    }
}

#[test]
fn a_signal_to_the_launcher_saves_the_step_and_ends_all_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let flags = format!("{SMALL} --steps 1000000 --run-dir run");
    let mut job = mpirun(path, 2, TRANSPORTS[0], &flags);
    // After a signal, the launcher would kill its processes within a second. With this variable, it
    // gives them 5 seconds to save a checkpoint.
    job.env("OMPI_MCA_odls_base_sigkill_timeout", "5");
    let job = job
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&path.join("run/checkpoints/step-20"));
    kill(Pid::from_raw(job.id() as i32), Signal::SIGINT).unwrap();
    let output = job.wait_with_output().unwrap();
    assert!(!output.status.success());
    let printed = text(&output.stderr);
    assert_eq!(
        printed.matches("stopped after step").count(),
        1,
        "{printed}"
    );
    let status = json(&path.join("run/status.json"));
    assert_eq!(status["status"], "stopped");
    let step = status["step"].as_u64().unwrap();
    assert!(path.join(format!("run/checkpoints/step-{step}")).is_dir());
    // The run can be resumed with another number of processes.
    let resume = format!("resume run --steps {}", step + 5);
    succeed(&mut mpirun(path, 3, TRANSPORTS[0], &resume));
    succeed(&mut alone(
        path,
        &format!("resume run --steps {}", step + 9),
    ));
    assert_eq!(json(&path.join("run/summary.json"))["steps"], step + 9);
}

fn error(output: &Output) -> String {
    let printed = text(&output.stderr);
    let errors = printed.lines().filter(|line| line.starts_with("error: "));
    errors.collect::<Vec<_>>().join("\n")
}

#[test]
fn processes_that_differ_are_rejected_before_the_first_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let train = cargo_bin("train");
    let flags = format!("{SMALL} --steps 9 --run-dir run");
    for (first, second, expected) in [
        ("", "--dropout 0.3", "command line: rank 1 has "),
        ("", "--bad", "command line: rank 1 has "),
        ("FUSED_SIMD=scalar", "", "the vector instructions: rank 1 ("),
    ] {
        let mut command = launcher(path, TRANSPORTS[0]);
        command.args(["-np", "1"]);
        if !first.is_empty() {
            command.args(["-x", first]);
        }
        command.arg(&train).args(flags.split_whitespace());
        command.args([":", "-np", "1"]).arg(&train);
        command.args(flags.split_whitespace());
        let output = command.args(second.split_whitespace()).output().unwrap();
        // On a machine without vector instructions, both processes compute the same, so the job
        // succeeds.
        if !first.is_empty() && output.status.success() {
            continue;
        }
        assert_eq!(output.status.code(), Some(2));
        let error = error(&output);
        assert!(error.starts_with(&format!("error: {expected}")), "{error}");
        assert!(!path.join("run").exists());
    }
}

#[test]
fn errors_are_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir_all(path.join("taken/something")).unwrap();
    for (flags, code, expected) in [
        ("--steps x".into(), 2, "--steps x: must be a whole number"),
        ("resume none".into(), 2, "RUN none: does not exist"),
        (
            format!("{SMALL} --run-dir taken"),
            2,
            "--run-dir taken: is not empty",
        ),
        (
            format!("{SMALL} --steps 50 --learning-rate 1e30 --run-dir nan"),
            3,
            "the loss is not finite at step 2",
        ),
    ] {
        let output = mpirun(path, 2, TRANSPORTS[0], &flags).output().unwrap();
        let error = error(&output);
        assert_eq!(error.matches(expected).count(), 1, "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert_eq!(output.status.code(), Some(code), "{error}");
    }
    assert_eq!(json(&path.join("nan/status.json"))["status"], "diverged");
    for flags in ["--dry-run", "presets"] {
        let flags = format!("{flags} --quiet");
        assert!(!succeed(&mut mpirun(path, 2, TRANSPORTS[0], &flags)).is_empty());
    }
    let help = succeed(&mut mpirun(path, 2, TRANSPORTS[0], "--help"));
    assert_eq!(help.matches("Usage:").count(), 1, "{help}");
}

#[test]
fn evaluation_and_generation_are_those_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    succeed(&mut alone(
        path,
        &format!("{SMALL} --steps 300 --run-dir run"),
    ));
    // There are blank lines, and more lines than the processes take at a time.
    let line = |n: usize| match n % 50 {
        7 => "\n".into(),
        _ => format!("{} {} {}\n", n % 9 + 1, n / 9 % 9 + 1, n / 81 % 9 + 1),
    };
    fs::write(path.join("lines"), (0..700).map(line).collect::<String>()).unwrap();
    for flags in [
        "generate run --input lines",
        "generate run --input lines --beam 3 --n-best 2 --json",
        "generate run --input lines --sample --seed 5",
        "generate run --input lines --batch-size 7",
        "eval run --hypotheses out",
        "eval run --eval-lengths 2..4 --json",
    ] {
        let words = |printed: String| match printed.rsplit_once(", ") {
            // The time of an evaluation differs from call to call.
            Some((before, seconds)) if seconds.ends_with(" s\n") => before.into(),
            _ => printed,
        };
        let expected = words(succeed(&mut alone(path, flags)));
        for size in [2, 3] {
            let found = words(succeed(&mut mpirun(path, size, TRANSPORTS[0], flags)));
            assert!(found == expected, "{flags}: {found}\n{expected}");
        }
    }
    // A wrong line ends the job with the error that a single process has.
    let mut lines = fs::read_to_string(path.join("lines")).unwrap();
    lines.push_str("1 x\n");
    fs::write(path.join("lines"), lines).unwrap();
    let flags = "generate run --input lines";
    let [one, two] = [alone(path, flags), mpirun(path, 2, TRANSPORTS[0], flags)]
        .map(|mut command| command.output().unwrap());
    assert_eq!(one.stdout, two.stdout);
    assert_eq!(error(&one), error(&two));
    assert_eq!((one.status.code(), two.status.code()), (Some(2), Some(2)));
}

#[test]
fn texts_are_divided_by_tokens_and_the_cache_is_built_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let side = |sign: char, n: usize| {
        let words = (0..n % 7 + 2).map(|i| format!("{sign}{} ", (n * 13 + i * 5) % 40));
        words.collect::<String>() + "\n"
    };
    for (name, sign) in [("source", 'a'), ("target", 'b')] {
        let lines: String = (0..300).map(|n| side(sign, n)).collect();
        fs::write(path.join(name), lines).unwrap();
    }
    let flags = |run: &str, epochs: usize| {
        format!(
            "fit --task text --preset tiny --train-source source --train-target target \
             --vocab-size 290 --d-model 16 --d-ff 16 --heads 2 --batch-tokens 200 --dropout 0 \
             --learning-rate 1e-4 --epochs {epochs} --run-dir {run}"
        )
    };
    succeed(&mut alone(path, &flags("alone", 2)));
    fs::remove_dir_all(path.join("cache")).unwrap();
    let mut group = mpirun(path, 2, TRANSPORTS[0], &flags("group", 2));
    let printed = group.output().unwrap();
    let notes = text(&printed.stderr);
    assert!(printed.status.success(), "{notes}");
    assert_eq!(notes.matches("training a tokeniser").count(), 2, "{notes}");
    let (expected, found) = (metrics(&path.join("alone")), metrics(&path.join("group")));
    assert!(largest_difference(&found, &expected, "loss") < 1e-5);
    for (a, b) in found.iter().zip(&expected) {
        assert_eq!((&a["step"], &a["tokens"]), (&b["step"], &b["tokens"]));
    }
    let summaries = ["alone", "group"].map(|run| json(&path.join(run).join("summary.json")));
    assert_eq!(summaries[0]["bleu"], summaries[1]["bleu"]);
    // Two epochs on two processes and a third epoch on three processes take the same batches as
    // three epochs on one process.
    succeed(&mut alone(path, &flags("longer", 3)));
    let steps = json(&path.join("longer/summary.json"))["steps"].clone();
    let resume = format!("resume group --steps {steps}");
    succeed(&mut mpirun(path, 3, TRANSPORTS[0], &resume));
    let tokens = |run: &str| -> Vec<Value> {
        let lines = metrics(&path.join(run)).into_iter();
        lines
            .filter(|line| line["tokens"].is_u64())
            .map(|line| line["tokens"].clone())
            .collect()
    };
    assert_eq!(tokens("group"), tokens("longer"));
}

#[test]
fn every_task_trains_in_a_group() {
    let folder = tempfile::tempdir().unwrap();
    for task in SYNTHETIC_TASKS {
        let flags = format!(
            "--task {0} --steps 3 --d-model 16 --heads 2 --d-ff 16 --layers 1 --run-dir {0}",
            task.name
        );
        succeed(&mut mpirun(folder.path(), 2, TRANSPORTS[0], &flags));
        let run = folder.path().join(task.name);
        assert_eq!(json(&run.join("summary.json"))["processes"], 2);
        let losses = metrics(&run);
        let losses = losses.iter().filter_map(|line| line["loss"].as_f64());
        assert_eq!(losses.filter(|loss| loss.is_finite()).count(), 3);
    }
}

/// Environment variable with the rank that panics in [`one_of_two_processes_panics`].
const PANICKING: &str = "MPI_TEST_PANICKING_RANK";

#[test]
fn a_panic_in_one_process_ends_all() {
    let folder = tempfile::tempdir().unwrap();
    for rank in ["0", "1"] {
        let begun = Instant::now();
        let output = launcher(folder.path(), TRANSPORTS[0])
            .args(["-np", "2", "-x", PANICKING])
            .env(PANICKING, rank)
            .arg(std::env::current_exe().unwrap())
            .args(["one_of_two_processes_panics", "--exact", "--nocapture"])
            .output()
            .unwrap();
        let stderr = text(&output.stderr);
        assert!(!output.status.success(), "{stderr}");
        assert!(stderr.contains("this process panics"), "{stderr}");
        // The other process would wait for ten minutes.
        let seconds = begun.elapsed().as_secs();
        assert!(seconds < 60, "the job ended after {seconds} s");
    }
}

/// Panics in one process while the other waits for it; run by [`a_panic_in_one_process_ends_all`].
#[test]
fn one_of_two_processes_panics() {
    let Ok(rank) = std::env::var(PANICKING) else {
        return;
    };
    let group = training::collective::join();
    assert_eq!(group.size(), 2);
    if group.rank().to_string() == rank {
        panic!("this process panics");
    }
    let patience = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_mins(10));
        std::process::exit(0);
    });
    group.barrier();
    drop(patience);
}
