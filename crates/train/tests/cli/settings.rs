//! Settings on the command line: help, suggestions, presets, files of settings, dry runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::task::COPY;
use super::{
    Folder, all_rejected, assert_has, fails, fails_after_notes, json, metrics, notes, output,
    parsed, refused, rejected, rows, run, succeed, text, train,
};

/// Returns the help of a command on a terminal with `columns` columns.
fn help(command: &[&str], columns: &str) -> String {
    let folder = &Folder::new();
    let mut train = train(folder);
    train.args(command).arg("--help").env("COLUMNS", columns);
    succeed(&train.output().unwrap())
}

/// Trains for a step, and returns the settings of the run.
fn config_of(folder: &Path, flags: &str) -> serde_json::Value {
    run(folder, &format!("{flags} --steps 1 --run-dir run"));
    let config = json(&folder.join("run/config.json"));
    fs::remove_dir_all(folder.join("run")).unwrap();
    config
}

#[test]
fn help_fits_the_terminal_and_has_its_groups() {
    for columns in ["80", "120"] {
        for command in [&[][..], &["fit"], &["generate"], &["eval"], &["import"]] {
            let help = help(command, columns);
            let width = columns.parse().unwrap();
            for line in help.lines() {
                assert!(line.chars().count() <= width, "{command:?}: {line:?}");
            }
        }
    }
    let program = help(&[], "80");
    assert!(program.lines().count() <= 40, "{program}");
    let parts = ["Commands:", "  fit ", "  generate ", "  presets "];
    assert_has(&program, &parts);
    assert_has(&program, &["Examples:", "train --task sort"]);
    let order = |help: &str, headings: &[&str]| {
        let places = headings.iter().map(|heading| {
            let line = format!("{heading}:");
            let mut lines = help.lines();
            lines
                .position(|other| other == line)
                .unwrap_or_else(|| panic!("no {line}\n{help}"))
        });
        assert!(places.collect::<Vec<_>>().is_sorted(), "{help}");
    };
    let fit = help(&["fit"], "80");
    let groups = "Task|Model|Optimisation|Evaluation and stopping|Run folder|Speed and memory|\
        Text data (for --task text)|Tokeniser (for --task text)|Settings and output|Options of every command";
    order(&fit, &groups.split('|').collect::<Vec<_>>());
    let has_one = |line: &str| line.matches("[default").count() <= 1;
    assert!(fit.lines().all(has_one), "{fit}");
    let short = run(Path::new("."), "fit -h");
    let flags = short
        .lines()
        .filter(|line| line.trim_start().starts_with('-'));
    assert!(flags.count() <= 50, "{short}");
    let flags = ["--steps <N>", "[default: 1000]", "--learning-rate"];
    assert_has(&short, &flags);
    let headings = ["Input", "Search", "Sampling", "Constraints", "Output"];
    order(&help(&["generate"], "80"), &headings);
}

#[test]
fn names_of_other_programs_lead_to_our_flags_and_commands() {
    let table = "
--lr 0.1 | '--lr' | use --learning-rate | see `train fit --help`
fit --lr 0.1 | use --learning-rate | see `train fit --help`
-lr 0.1 | use --learning-rate | see `train fit --help`
--d_model 4 | use --d-model
--fp16 | use --precision f16
generate x --max-tokens 4 | --max-length | see `train generate --help`
eval x --beam-size 4 | use --beam
translate x | use `train generate` | see `train --help`
--stepz 4 | similar: --steps | see `train fit --help`
--vocab 4 | similar: --vocab-size
--output x | '--output' found; use --run-dir; see
eval x --output y | '--output' found; use --hypotheses; see
--out x | '--out' found; see
generate x --out y | '--out' found; use --output; see
--resume x | '--resume' found; use `train resume`; see
--lang de | '--lang' found; use --source-lang or --target-lang; see
export x --format y | '--format' found; see
copy | use `train --task copy`
resume x --learning-rate 1 | a resumed run keeps its settings | train fit --learning-rate
";
    all_rejected(&Folder::new(), "", table);
}

#[cfg(unix)]
#[test]
fn paths_that_no_configuration_can_record_are_rejected() {
    use std::os::unix::ffi::OsStrExt;

    let folder = &Folder::new();
    let path = std::ffi::OsStr::from_bytes(b"\xff.tsv");
    for flag in ["--train", "--cache", "--from", "--tokenizer-file"] {
        let mut command = train(folder);
        command.args(["--task", "text", "--set", "seed=2", flag]);
        let output = command.arg(path).output().unwrap();
        fails(&output, 2, &[flag, "must be valid UTF-8"]);
        let empty = ["--task", "text", flag, ""];
        refused(folder, &empty, &[flag, "must not be empty"]);
    }
}

#[test]
fn mistakes_say_what_would_be_right() {
    let table = "
--steps 1e3 | --steps 1e3: must be a whole number
--steps 1 --epochs 1 | --steps | --epochs | train fit --help
--epochs | value is required | Passes over the training data | train fit --help
--learning-rate fast | --learning-rate fast: must be a positive number
--clip-norm 1e-300 | --clip-norm 1e-300: must be a number in the range of float32
--dropout inf | --dropout inf: must be at least 0 and less than 1
--set optimization.beta_2=0.9 | the nearest is optimization.optimizer.beta_2
--set model.d_model=wide | --d-model wide: must be a whole number
--set model.max_len=4 | model.max_len 4: follows from the task
--set model.dropout=2 | --dropout 2: must be at least 0 and less than 1
--set steps | must be PATH=VALUE
--weight-decay 1 | --weight-decay 1: needs --optimizer adamw
eval x --eval-lengths | value is required | such as 4,8,16 | train eval --help
eval x --split none | validation, test | train eval --help
generate x --temperature hot | a number above 0 | train generate --help
-q generate x --top-p all | a probability above 0
--threads 0 | '0' for '--threads | from 1 to 1024
resume nowhere | RUN nowhere: does not exist
evla run | unrecognized subcommand | similar: eval
help nothing | unrecognized subcommand | nothing
--task text --train x.tsv --d-model 42 --heads 5 | --heads 5: must be a divisor
--task text --train x.tsv --set model.norm=rms --set model.norm_variance=unbiased | model.norm_variance unbiased: must be biased
";
    let folder = &Folder::new();
    all_rejected(folder, "", table);
    refused(folder, &["\u{1b}[31mx"], &["subcommand '\\u001b[31mx'"]);
}

#[test]
fn errors_name_the_flag_of_their_file() {
    let path = &Folder::new();
    fs::write(path.join("a.tsv"), "ein Haus\ta house\nzwei\ttwo\n").unwrap();
    fs::write(path.join("bad.tsv"), "no tab\n").unwrap();
    fs::write(path.join("bad.json"), "{}").unwrap();
    let table = "
        --train a.tsv --valid bad.tsv | --valid-source
        --train bad.tsv --valid a.tsv | --train-source
        --train missing.tsv | --train-source
        --train-source missing --train-target a.tsv | --train-source
        --train a.tsv --tokenizer-file bad.json | --tokenizer-file";
    for (line, expected) in rows(table) {
        // A rejected command does not create the run folder `run`, but it may create a folder of
        // caches beside it.
        let output = output(path, &format!("{line} --run-dir run"));
        fails_after_notes(&output, &[&format!("{} ", expected[0])]);
        assert!(!path.join("run").exists(), "{line}");
    }
}

#[test]
fn the_learning_rate_is_the_peak_of_the_schedule() {
    let path = &Folder::new();
    let peak = format!("{COPY} --learning-rate 0.002 --warmup 4");
    for schedule in ["linear", "noam", "cosine"] {
        let schedule_of = format!("--schedule {schedule} --run-dir {schedule}");
        run(path, &format!("{peak} {schedule_of}"));
        let lines = metrics(&path.join(schedule));
        let rates = lines
            .iter()
            .filter_map(|line| line["learning_rate"].as_f64());
        let peak = rates.fold(0.0, f64::max);
        assert!((peak - 0.002).abs() < 1e-9, "{schedule}: {peak}");
    }
}

#[test]
fn any_setting_can_be_set_by_its_path() {
    let folder = &Folder::new();
    rejected(
        folder,
        "fit --d-model 32 --set model.d_model=16",
        &["model.d_model: is given by --d-model, too"],
    );
    let flags = "--set optimization.optimizer.beta_2=0.99 --set model.d_model=16 \
        --set checkpointing.seconds=null --learning-rate 0.01";
    let config = config_of(folder, flags);
    assert_eq!(config["optimization"]["optimizer"]["beta_2"], 0.99);
    assert_eq!(config["model"]["d_model"], 16);
    assert!(config["checkpointing"]["seconds"].is_null());
    assert_eq!(config["optimization"]["schedule"]["learning_rate"], 0.01);
}

#[test]
fn threads_are_recorded_and_missing_checkpoints_named() {
    let folder = &Folder::new();
    run(folder, &format!("--threads 3 {COPY} --run-dir run"));
    let state = json(&folder.join("run/checkpoints/step-12/state.json"));
    assert_eq!(state["threads"], 3);
    let table = "
        77 | --checkpoint 77: | checkpoints has no checkpoint of step 77, only of 12
        average:5 | --checkpoint average:5: | checkpoints has the newest 1 checkpoint, fewer than 5";
    all_rejected(folder, "eval run --checkpoint", table);
}

#[test]
fn a_printed_preset_is_a_file_of_settings() {
    let path = &Folder::new();
    let list = run(path, "presets");
    for preset in ["copy", "add", "annotated-copy", "tiny", "base"] {
        assert!(list.lines().any(|line| line.starts_with(preset)), "{list}");
    }
    let file = run(path, "presets reverse");
    let comments = file.lines().filter(|line| line.starts_with("# "));
    assert!(comments.count() > 30, "{file}");
    fs::write(path.join("run.toml"), &file).unwrap();
    let of_file = config_of(path, "--config run.toml");
    assert_eq!(of_file, config_of(path, "--task reverse"));
    // A wrong value is named by what was typed.
    fs::write(path.join("run.toml"), "model.d_model = 0").unwrap();
    let fit = "fit --config run.toml";
    rejected(path, fit, &["run.toml: model.d_model 0: must be"]);
    rejected(path, &format!("{fit} --d-model 0"), &["--d-model 0: must"]);
    // TOML is told by its name.
    fs::copy(path.join("run.toml"), path.join("run.txt")).unwrap();
    rejected(path, "fit --config run.txt", &["ends in .toml"]);
}

#[test]
fn a_dry_run_measures_and_writes_nothing() {
    let path = &Folder::new();
    let stdout = run(path, &format!("--dry-run {COPY}"));
    for line in ["total ", "data ", "memory ", "time  ", "steps "] {
        assert!(
            stdout.lines().any(|other| other.starts_with(line)),
            "{line}: {stdout}"
        );
    }
    assert!(stdout.contains(" a step, mean of 3"), "{stdout}");
    assert_eq!(fs::read_dir(path).unwrap().count(), 0);

    let lines: String = (0..60).map(|n| format!("ein {n}\tone {n}\n")).collect();
    fs::write(path.join("a.tsv"), lines).unwrap();
    let flags = "--dry-run --train a.tsv --preset tiny --cache cache";
    let stdout = run(path, flags);
    assert!(stdout.contains("1 batch an epoch"), "{stdout}");
    assert_eq!(fs::read_dir(path).unwrap().count(), 1);
}

#[test]
fn pairs_are_held_out_where_no_validation_corpus_is_given() {
    let path = &Folder::new();
    let more = |n: u32| if n.is_multiple_of(4) { " und und" } else { "" };
    let line = |n| format!("ein {n}{}\tone {n}\n", more(n));
    let lines: String = (0..400).map(line).collect();
    // Each pair is in the file twice. Both copies must be held out, or neither.
    fs::write(path.join("a.tsv"), lines.repeat(2)).unwrap();
    let small = "--preset tiny --d-model 16 --heads 2 --layers 1 --d-ff 16 --steps 4 --run-dir run";
    let corpus = "--train a.tsv --valid-share 0.05 --max-length 3";
    let stderr = notes(&output(path, &format!("{small} {corpus}")));
    assert_has(&stderr, &[" for validation, no test split"]);
    let table = "
        run/checkpoints/step-4 | is a checkpoint; name its run, run
        run --forbid xyzxyz | must be one token | has the tokens";
    all_rejected(path, "generate", table);
    let note = stderr
        .lines()
        .find(|line| line.contains("held out for validation"));
    let note = note.unwrap_or_else(|| panic!("{stderr}"));
    let words: Vec<&str> = note.split(' ').collect();
    let at = words.iter().position(|word| *word == "of").unwrap();
    let held_out: usize = words[at - 1].parse().unwrap();
    assert_eq!(words[at + 1], "800", "{note}");
    assert!(
        held_out.is_multiple_of(2) && (20..60).contains(&held_out),
        "{note}"
    );
    // Those that are held out are not skipped.
    let (long, _) = stderr
        .split_once(&format!(" of {} pairs with", 800 - held_out))
        .unwrap();
    let long: usize = long.rsplit(['\n', ' ']).next().unwrap().parse().unwrap();
    let kept = format!("{} pairs, ", 800 - held_out - long);
    assert!(stderr.contains(&kept), "{stderr}");
    let config = json(&path.join("run/config.json"));
    assert_eq!(config["data"]["task"], "text");
    assert_eq!(config["data"]["valid_share"], 0.05);
    // `eval` uses the validation pairs that training held out, and so does the resumed run.
    let scores = parsed(path, "eval run --split validation --json");
    let summary = json(&path.join("run/summary.json"));
    let difference = scores["loss"].as_f64().unwrap() - summary["valid_loss"].as_f64().unwrap();
    assert!(difference.abs() < 1e-4, "{scores} {summary}");
    assert_eq!(scores["chrf"], summary["chrf"]);
    run(path, "resume run --steps 6");

    fs::write(path.join("b.tsv"), "ein\tone\nein\tone\n").unwrap();
    let expected = "has too few different pairs to hold some out for validation: add more, or give --valid-source";
    let other = output(path, "--train b.tsv --run-dir other");
    fails(&other, 2, &[expected]);
}

/// Checks a file with another program, if the machine has this program.
fn check_by(program: &str, arguments: &[&str], file: &Path) {
    match Command::new(program).args(arguments).arg(file).output() {
        Ok(output) => {
            let stderr = text(&output.stderr);
            assert!(output.status.success(), "{program}: {stderr}");
        }
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{program}"),
    }
}

#[test]
fn shells_can_read_their_completions() {
    let path = &Folder::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(path, &format!("completions {shell}"));
        assert_has(&script, &["generate", "learning-rate", "threads"]);
        fs::write(path.join(shell), script).unwrap();
    }
    check_by("bash", &["-n"], &path.join("bash"));
    check_by("zsh", &["-n"], &path.join("zsh"));
    check_by("fish", &["--no-execute"], &path.join("fish"));
    let expected = ["bash", "fish", "train completions --help"];
    rejected(path, "completions tcsh", &expected);
}
