//! Records of runs, and the commands that list and compare them.

use serde_json::json;

use super::task::{SIZE, train_copy};
use super::*;

/// Checks that seconds of training do not decrease from line to line, and that all rates are
/// positive.
///
/// Returns the seconds of the last line.
fn check_times(lines: &[serde_json::Value]) -> f64 {
    let mut last = 0.0;
    for line in lines {
        let seconds = line["seconds"].as_f64().unwrap();
        assert!(seconds >= last, "{line}");
        last = seconds;
        if line.get("loss").is_some() {
            assert!(line["tokens_per_second"].as_f64().unwrap() > 0.0, "{line}");
        }
    }
    last
}

#[test]
fn metrics_have_the_time_of_training_over_all_processes() {
    let folder = &Folder::new();
    train_copy(folder, "run", "--eval-every 4");
    let run = folder.join("run");
    let before = metrics(&run);
    assert_eq!(before.len(), 12 + 3);
    let summary = json(&run.join("summary.json"));
    let end = check_times(&before);
    assert!((end - summary["train_seconds"].as_f64().unwrap()).abs() < 1e-3);
    // Losses are read before each evaluation, and after every tenth step: here after steps 4, 8,
    // 10 and 12. The steps between two readings have the same speed. Speed times seconds, added up
    // over the readings, must give about the number of tokens.
    let mut tokens = 0.0;
    let mut last = 0.0;
    for group in [1..=4, 5..=8, 9..=10, 11..=12] {
        let of = |step: &u64| {
            before
                .iter()
                .find(|line| line["step"] == *step && line.get("loss").is_some())
                .unwrap()
        };
        let end = of(group.end());
        let seconds = end["seconds"].as_f64().unwrap();
        tokens += end["tokens_per_second"].as_f64().unwrap() * (seconds - last);
        last = seconds;
    }
    let logged: f64 = before
        .iter()
        .filter_map(|line| line["tokens"].as_f64())
        .sum();
    assert!((tokens - logged).abs() < 0.2 * logged, "{tokens}, {logged}");

    super::run(folder, "resume run --steps 15");
    let after = metrics(&run);
    assert_eq!(after[..before.len()], before[..]);
    assert!(check_times(&after) > end);
}

/// Runs a command and returns each line of stdout as JSON.
fn json_lines(folder: &Path, line: &str) -> Vec<Value> {
    objects(&run(folder, line))
}

/// Checks that a wrong command ends with code 2 and an error that has the text `expected`.
fn rejected(folder: &Path, line: &str, expected: &str) {
    fails(&output(folder, line), 2, &[expected]);
}

/// Returns the names in the list of runs, separated by spaces.
fn names(folder: &Path, flags: &str) -> String {
    let listed = json_lines(folder, &format!("runs --json {flags}"));
    let names = listed.iter().map(|run| run["name"].as_str().unwrap());
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn runs_are_listed_and_compared() {
    let folder = &Folder::new();
    rejected(folder, "runs", "DIR runs: does not exist");
    rejected(folder, "eval latest", "no run in");
    // Folders that are not runs are ignored. Damaged runs are skipped with a message.
    let runs = folder.join("runs");
    std::fs::create_dir_all(runs.join("cache/tokens")).unwrap();
    std::fs::create_dir(runs.join("broken")).unwrap();
    std::fs::write(runs.join("broken/config.json"), "{").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("loop", runs.join("loop")).unwrap();
    train_copy(folder, "runs/a-10", "--eval-every 4");
    train_copy(folder, "runs/a-2", "--eval-every 4 --seed 3");
    train_copy(
        folder,
        "runs/b",
        "--eval-every 6 --warmup 7 --set execution.fused=false",
    );
    let output = output(folder, "runs");
    let stderr = text(&output.stderr);
    let skipped = "skipped RUN runs/broken/config.json: is not JSON";
    assert!(stderr.contains(skipped), "{stderr}");
    let unread = "skipped RUN runs/loop/config.json: cannot be read (";
    assert!(stderr.contains(unread) || cfg!(not(unix)), "{stderr}");
    let table = succeed(&output);
    let table: Vec<&str> = table.lines().collect();
    assert_eq!(table.len(), 4, "{table:?}");
    // The newest run is the first.
    assert!(table[1].starts_with("b     copy"), "{table:?}");
    assert_has(table[1], &["--warmup 7", "execution.fused=false"]);
    assert_has(table[1], &["loss ", "s  finished"]);
    assert!(
        table[2].contains("copy  --seed 3 --eval-every 4") && !table[2].contains("null"),
        "{table:?}"
    );

    assert_eq!(names(folder, ""), "b a-2 a-10");
    assert_eq!(names(folder, "--sort name"), "a-2 a-10 b");
    assert_eq!(names(folder, "--sort steps"), "a-2 a-10 b");
    let best = json_lines(folder, "runs --json --sort best");
    let values = best
        .iter()
        .map(|run| run["best"]["value"].as_f64().unwrap());
    assert!(values.is_sorted());
    // A single run can be named by its folder, or by `latest`.
    assert_eq!(names(folder, "runs/a-2"), "a-2");
    let b = &json_lines(folder, "runs latest --json")[0];
    for (field, value) in [
        ("task", json!("copy")),
        ("preset", json!("copy")),
        ("step", json!(12)),
        ("status", json!("finished")),
        ("reason", json!("all 12 steps taken")),
    ] {
        assert_eq!(b[field], value);
    }
    assert_eq!(b["settings"]["optimization.schedule.warmup"], 7);
    assert_eq!(b["settings"].get("seed"), None);
    assert_eq!(b["best"]["metric"], "valid_loss");
    let summary = super::json(&runs.join("b/summary.json"));
    assert_eq!(b["metrics"]["test_exact_match"], summary["exact_match"]);
    assert_eq!(b["seconds"], summary["train_seconds"]);
    let table = "
        runs runs/broken | RUN runs/broken/config.json: is not JSON
        runs runs/cache | DIR runs/cache: has no run
        runs --sort size | changed, name
        compare runs/b | RUN
        compare runs/b latest | RUN runs/b: is named twice
        compare runs/b runs/none | RUN runs/none: does not exist";
    for (line, expected) in rows(table) {
        rejected(folder, line, expected[0]);
    }

    // Runs that differ only in the seed share a column.
    let compared = &json_lines(folder, "compare --json runs/a-10 runs/b runs/a-2")[0];
    let settings = compared["settings"].as_array().unwrap().iter();
    let settings = settings.map(|setting| (setting["path"].as_str().unwrap(), &setting["values"]));
    let expected = [
        ("evaluation.every", &json!([4, 6])),
        ("execution.fused", &json!([true, false])),
        ("optimization.schedule.warmup", &json!([100, 7])),
    ];
    assert_eq!(settings.collect::<Vec<_>>(), expected);
    let groups = &compared["groups"];
    assert_eq!(groups[0]["runs"], json!(["a-10", "a-2"]));
    assert_eq!(groups[0]["seeds"], json!([0, 3]));
    assert_eq!(groups[1]["runs"], json!(["b"]));
    let of = |name: &str| super::json(&runs.join(name).join("summary.json"))["valid_loss"].as_f64();
    let (x, y) = (of("a-10").unwrap(), of("a-2").unwrap());
    let loss = &groups[0]["metrics"]["valid_loss"];
    assert_eq!(loss["values"], json!([x, y]));
    assert!((loss["mean"].as_f64().unwrap() - (x + y) / 2.0).abs() < 1e-9);
    let std = (x - y).abs() / 2.0_f64.sqrt();
    assert!((loss["std"].as_f64().unwrap() - std).abs() < 1e-9);
    assert_eq!(groups[1]["metrics"]["valid_loss"]["std"], Value::Null);

    let table = run(folder, "compare runs/a-10 runs/a-2 latest");
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("setting").contains("a-10, 2 seeds"), "{table}");
    assert!(row("--warmup ").contains(" 100 "), "{table}");
    assert!(row("valid_loss ").contains(" ± "), "{table}");
    assert_has(&table, &["of a-10 (seed 0), a-2 (seed 3)\n"]);
    // Runs with equal seeds are not grouped.
    train_copy(folder, "runs/a-3", "--eval-every 4 --seed 3");
    let compared = &json_lines(folder, "compare --json runs/a-10 runs/a-2 runs/a-3")[0];
    assert_eq!(compared["groups"][0]["runs"], json!(["a-10", "a-2"]));
    assert_eq!(compared["groups"][1]["runs"], json!(["a-3"]));
}

#[test]
fn what_makes_runs_differ_is_shown() {
    // One flag sets the depth of both stacks.
    let folder = &Folder::new();
    train_copy(folder, "even", "--warmup 4");
    train_copy(folder, "odd", "--warmup 4 --set model.n_decoder_layers=2");
    let settings = &json_lines(folder, "compare --json even odd")[0]["settings"];
    let depth = json!({"path": "model.n_decoder_layers", "flag": null, "values": [1, 2]});
    assert_eq!(*settings, json!([depth]));
    // The architecture of a family follows from one flag.
    train_copy(folder, "t5", "--warmup 4 --family t5 --activation relu");
    let settings = &json_lines(folder, "compare --json even t5")[0]["settings"];
    let flags: Vec<_> = settings
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["flag"])
        .collect();
    assert_eq!(flags, ["--family"], "{settings}");
    assert_has(&run(folder, "runs t5"), &["--family t5 "]);
}

#[test]
fn a_setting_that_changed_when_a_run_was_resumed_tells_it_apart() {
    let folder = &Folder::new();
    let flags = "--steps 18 --run-dir unbroken";
    run(folder, &format!("{SIZE} {flags}"));
    train_copy(folder, "longer", "--seed 1");
    train_copy(folder, "edited", "--seed 2 --warmup 4");
    run(folder, "resume longer --steps 16");
    let file = folder.join("edited/config.json");
    let mut config = super::json(&file);
    config["optimization"]["schedule"]["warmup"] = json!(100);
    std::fs::write(&file, config.to_string()).unwrap();
    let said = notes(&output(folder, "resume edited --steps 16"));
    let expected = "optimization.schedule.warmup was 4 until step 12, and is 100 now\n";
    assert_has(&said, &[expected]);
    run(folder, "resume longer --steps 18");
    let compared = &json_lines(folder, "compare --json unbroken longer edited")[0];
    assert_eq!(compared["groups"].as_array().unwrap().len(), 3);
    let settings = compared["settings"].as_array().unwrap().iter();
    let earlier = settings.filter(|it| it["path"].as_str().unwrap().starts_with("earlier."));
    let expected = [
        (
            "optimization.schedule.warmup",
            json!([null, null, "4 to step 12"]),
        ),
        (
            "optimization.steps",
            json!([null, "12 to step 12, 16 to step 16", "12 to step 12"]),
        ),
    ];
    let expected = expected.map(
        |(path, values)| json!({"path": format!("earlier.{path}"), "flag": null, "values": values}),
    );
    assert!(earlier.eq(&expected), "{compared}");
}

#[test]
fn the_latest_run_is_named_so() {
    let folder = &Folder::new();
    train_copy(folder, "runs/one", "");
    train_copy(folder, "runs/two", "");
    run(folder, "resume latest --steps 14");
    assert!(folder.join("runs/two/checkpoints/step-14").exists());
    run(folder, "resume runs/one --steps 15");
    for line in [
        "eval latest",
        "plot latest --only loss",
        "export latest --layout torch-nn --output model.safetensors",
    ] {
        assert!(!run(folder, line).is_empty(), "{line}");
    }
    run(folder, "resume latest --steps 16");
    assert!(folder.join("runs/one/checkpoints/step-16").exists());
    // A folder with the name `latest` takes precedence.
    std::fs::create_dir(folder.join("latest")).unwrap();
    rejected(folder, "eval latest", "RUN latest: has no config.json");
}

#[test]
fn a_summary_says_where_the_run_comes_from() {
    let folder = &Folder::new();
    let git = |arguments: &[&str]| {
        let identity = "-c user.name=a -c user.email=a@b -c commit.gpgsign=false".split(' ');
        let output = std::process::Command::new("git")
            .args(identity)
            .args(arguments)
            .current_dir(folder)
            .output()
            .unwrap();
        succeed(&output).trim().to_owned()
    };
    git(&["init", "-q"]);
    std::fs::write(folder.join("notes"), "first").unwrap();
    git(&["add", "notes"]);
    git(&["commit", "-q", "-m", "first"]);
    git(&["tag", "v1"]);
    let head = git(&["rev-parse", "HEAD"]);
    train_copy(folder, "runs/run", "");
    let run = folder.join("runs/run");
    let summary = json(&run.join("summary.json"));
    assert_eq!(summary["git_revision"], head);
    let command = summary["command"].as_str().unwrap();
    assert_has(command, &[" fit --steps 12 ", " --run-dir runs/run"]);
    assert_eq!(summary["reason"], "all 12 steps taken");
    assert!(summary["threads"].as_u64().unwrap() >= 1);
    assert!(summary["host"].is_string());
    for name in ["date", "begun"] {
        let date = summary[name].as_str().unwrap();
        assert!(
            date.len() == 20 && date.ends_with('Z') && date.contains('T'),
            "{date}"
        );
    }
    // Each process that trains the run adds its environment.
    std::fs::write(folder.join("notes"), "second").unwrap();
    super::run(folder, "resume runs/run --steps 13");
    let environments = json(&run.join("environment.json"));
    let environments = environments.as_array().unwrap();
    assert_eq!(environments.len(), 2);
    assert_eq!(environments[0]["git_revision"], head);
    assert_eq!(environments[1]["git_revision"], format!("{head}-dirty"));
    let command = environments[1]["command"].as_str().unwrap();
    assert_has(command, &[" resume runs/run --steps 13"]);
    let summary = json(&run.join("summary.json"));
    assert_eq!(summary["git_revision"], environments[1]["git_revision"]);
}
