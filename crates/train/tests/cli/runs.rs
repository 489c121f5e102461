//! Records of runs, and the commands that list and compare them.

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
    let folder = tempfile::tempdir().unwrap();
    let begin = ["--run-dir", "run", "--eval-every", "4"];
    succeed(
        &train(folder.path())
            .args(SMALL)
            .args(begin)
            .output()
            .unwrap(),
    );
    let run = folder.path().join("run");
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

    let resume = ["resume", "run", "--steps", "15"];
    succeed(&train(folder.path()).args(resume).output().unwrap());
    let after = metrics(&run);
    assert_eq!(after[..before.len()], before[..]);
    assert!(check_times(&after) > end);
}

/// Trains a small run in `runs/NAME`.
pub(super) fn small(folder: &Path, name: &str, flags: &[&str]) {
    let run_dir = format!("runs/{name}");
    let output = train(folder)
        .arg("fit")
        .args(SMALL)
        .args(["--run-dir", &run_dir])
        .args(flags)
        .output()
        .unwrap();
    succeed(&output);
}

/// Runs a command, and returns the lines of stdout and the text of stderr.
fn lines(folder: &Path, arguments: &[&str]) -> (Vec<String>, String) {
    let output = train(folder).args(arguments).output().unwrap();
    let stdout = succeed(&output);
    let lines = stdout.lines().map(String::from).collect();
    (lines, text(&output.stderr))
}

/// Runs a command and returns each line of stdout as JSON.
fn json_lines(folder: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    let (lines, _) = lines(folder, arguments);
    let parse = |line: &String| serde_json::from_str(line).unwrap();
    lines.iter().map(parse).collect()
}

/// Checks that a wrong command ends with code 2 and an empty stdout, and that stderr is one line
/// with all `expected` texts.
fn rejected(folder: &Path, arguments: &[&str], expected: &[&str]) {
    let output = train(folder).args(arguments).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    for part in expected {
        assert!(
            stderr.contains(part),
            "{arguments:?}: {stderr:?} has no {part:?}"
        );
    }
}

fn names(listed: &[serde_json::Value]) -> Vec<&str> {
    let name = |run: &serde_json::Value| run["name"].as_str().unwrap().to_owned();
    let names: Vec<String> = listed.iter().map(name).collect();
    names.into_iter().map(|name| &*name.leak()).collect()
}

#[test]
fn runs_are_listed_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    rejected(folder, &["runs"], &["DIR runs: does not exist"]);
    rejected(
        folder,
        &["eval", "latest"],
        &["latest", "no run in", "runs;"],
    );
    // Folders that are not runs are ignored. Damaged runs are skipped with a message.
    let runs = folder.join("runs");
    std::fs::create_dir_all(runs.join("cache/tokens")).unwrap();
    std::fs::create_dir(runs.join("broken")).unwrap();
    std::fs::write(runs.join("broken/config.json"), "{").unwrap();
    small(folder, "a-10", &["--eval-every", "4"]);
    small(folder, "a-2", &["--eval-every", "4", "--seed", "3"]);
    small(
        folder,
        "b",
        &[
            "--eval-every",
            "6",
            "--warmup",
            "7",
            "--set",
            "execution.fused=false",
        ],
    );
    let (table, stderr) = lines(folder, &["runs"]);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.starts_with("skipped RUN runs/broken/config.json: is not JSON"),
        "{stderr}"
    );
    let headings: Vec<&str> = table[0].split_whitespace().collect();
    assert_eq!(
        headings,
        [
            "name", "task", "settings", "steps", "best", "time", "status"
        ]
    );
    assert_eq!(table.len(), 4, "{table:?}");
    // The newest run is the first.
    assert!(table[1].starts_with("b     copy"), "{table:?}");
    for part in [
        "--warmup 7",
        "--steps 12",
        "execution.fused=false",
        "--d-model 16",
        "--symbols 9",
        "loss ",
        " s  finished",
    ] {
        assert!(table[1].contains(part), "{part}: {table:?}");
    }
    assert!(
        table[2].starts_with("a-2 ") && table[2].contains("--seed 3"),
        "{table:?}"
    );
    assert!(
        !table[2].contains("--seed 0") && !table[2].contains("null"),
        "{table:?}"
    );

    let listed = |flags: &[&str]| json_lines(folder, &[&["runs", "--json"], flags].concat());
    assert_eq!(names(&listed(&[])), ["b", "a-2", "a-10"]);
    assert_eq!(names(&listed(&["--sort", "name"])), ["a-2", "a-10", "b"]);
    assert_eq!(names(&listed(&["--sort", "steps"])), ["a-2", "a-10", "b"]);
    let best = listed(&["--sort", "best"]);
    let values: Vec<f64> = best
        .iter()
        .map(|run| run["best"]["value"].as_f64().unwrap())
        .collect();
    assert!(values.is_sorted(), "{values:?}");
    let b = &listed(&[])[0];
    assert_eq!(b["task"], "copy");
    assert_eq!(b["preset"], "copy");
    assert_eq!(b["settings"]["optimization.schedule.warmup"], 7);
    assert_eq!(b["settings"].get("seed"), None);
    assert_eq!(b["step"], 12);
    assert_eq!(b["best"]["metric"], "valid_loss");
    assert_eq!(b["status"], "finished");
    assert_eq!(b["reason"], "all 12 steps taken");
    let summary = json(&runs.join("b/summary.json"));
    assert_eq!(b["metrics"]["test_exact_match"], summary["exact_match"]);
    assert_eq!(b["seconds"], summary["train_seconds"]);

    // A single run can be named by its folder, or by `latest`.
    assert_eq!(
        names(&json_lines(folder, &["runs", "runs/a-2", "--json"])),
        ["a-2"]
    );
    assert_eq!(
        names(&json_lines(folder, &["runs", "latest", "--json"])),
        ["b"]
    );
    rejected(
        folder,
        &["runs", "runs/broken"],
        &["RUN runs/broken/config.json: is not JSON"],
    );
    rejected(
        folder,
        &["runs", "runs/cache"],
        &["DIR runs/cache: has no run"],
    );
    rejected(
        folder,
        &["runs", "--sort", "size"],
        &["--sort", "size", "changed, name"],
    );

    // Runs that differ only in the seed share a column.
    let compared = &json_lines(
        folder,
        &["compare", "--json", "runs/a-10", "runs/b", "runs/a-2"],
    )[0];
    let paths = compared["settings"].as_array().unwrap();
    let setting = |path: &str| {
        let found = paths.iter().find(|setting| setting["path"] == path);
        found.unwrap_or_else(|| panic!("{path}: {compared}"))
    };
    let warmup = setting("optimization.schedule.warmup");
    assert_eq!(warmup["flag"], "--warmup");
    assert_eq!(warmup["values"], serde_json::json!([100, 7]));
    assert_eq!(
        setting("execution.fused")["values"],
        serde_json::json!([true, false])
    );
    assert_eq!(paths.len(), 3, "{compared}");
    let groups = compared["groups"].as_array().unwrap();
    assert_eq!(groups[0]["runs"], serde_json::json!(["a-10", "a-2"]));
    assert_eq!(groups[0]["seeds"], serde_json::json!([0, 3]));
    assert_eq!(groups[1]["runs"], serde_json::json!(["b"]));
    let of = |name: &str| {
        json(&runs.join(name).join("summary.json"))["valid_loss"]
            .as_f64()
            .unwrap()
    };
    let (x, y) = (of("a-10"), of("a-2"));
    let loss = &groups[0]["metrics"]["valid_loss"];
    assert_eq!(loss["values"], serde_json::json!([x, y]));
    assert!((loss["mean"].as_f64().unwrap() - (x + y) / 2.0).abs() < 1e-9);
    let std = (x - y).abs() / 2.0_f64.sqrt();
    assert!((loss["std"].as_f64().unwrap() - std).abs() < 1e-9);
    assert_eq!(
        groups[1]["metrics"]["valid_loss"]["std"],
        serde_json::Value::Null
    );

    let (table, _) = lines(folder, &["compare", "runs/a-10", "runs/a-2", "latest"]);
    let headings: Vec<&str> = table[0].split_whitespace().collect();
    assert_eq!(headings, ["setting", "flag", "a-10", "+1", "b"]);
    let row = |name: &str| {
        let found = table.iter().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("{name}: {table:?}"))
    };
    assert!(row("optimization.schedule.warmup ").contains(" --warmup "));
    assert!(row("status").contains("finished"));
    assert!(row("valid_loss ").contains(" ± "));
    assert!(
        table
            .last()
            .unwrap()
            .ends_with("of a-10 (seed 0), a-2 (seed 3)"),
        "{table:?}"
    );
    let (same, _) = lines(folder, &["compare", "runs/a-10", "runs/a-2"]);
    assert!(same[1].starts_with("(none differs)"), "{same:?}");
    rejected(folder, &["compare", "runs/b"], &["RUN", "2 values"]);
    rejected(
        folder,
        &["compare", "runs/b", "latest"],
        &["RUN runs/b: is named twice"],
    );
    rejected(
        folder,
        &["compare", "runs/b", "runs/none"],
        &["RUN runs/none: does not exist"],
    );
    // Runs with equal seeds are not grouped: `a-2` and `a-3` have seed 3, so `a-3` has a column of
    // its own.
    small(folder, "a-3", &["--eval-every", "4", "--seed", "3"]);
    let arguments = ["compare", "--json", "runs/a-10", "runs/a-2", "runs/a-3"];
    let compared = &json_lines(folder, &arguments)[0];
    let groups = compared["groups"].as_array().unwrap();
    let of_group = groups.iter().map(|group| &group["runs"]);
    assert!(of_group.eq(&[
        serde_json::json!(["a-10", "a-2"]),
        serde_json::json!(["a-3"])
    ]));
}

#[test]
fn the_latest_run_is_named_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    small(folder, "one", &[]);
    small(folder, "two", &[]);
    let resumed = ["resume", "latest", "--steps", "14"];
    let output = train(folder).args(resumed).output().unwrap();
    succeed(&output);
    assert!(folder.join("runs/two/checkpoints/step-14").exists());
    succeed(
        &train(folder)
            .args(["resume", "runs/one", "--steps", "15"])
            .output()
            .unwrap(),
    );
    for command in ["eval", "plot"] {
        let output = train(folder).args([command, "latest"]).output().unwrap();
        assert!(!succeed(&output).is_empty(), "{command}");
    }
    let exported = [
        "export",
        "latest",
        "--layout",
        "torch-nn",
        "--output",
        "model.safetensors",
    ];
    succeed(&train(folder).args(exported).output().unwrap());
    let generated = ["generate", "latest", "--json"];
    let output = train(folder)
        .args(generated)
        .write_stdin("1 2 3\n")
        .output()
        .unwrap();
    assert!(succeed(&output).contains("hypotheses"), "{output:?}");
    let resumed = ["resume", "latest", "--steps", "16"];
    succeed(&train(folder).args(resumed).output().unwrap());
    assert!(folder.join("runs/one/checkpoints/step-16").exists());
    // A folder with the name `latest` takes precedence.
    std::fs::create_dir(folder.join("latest")).unwrap();
    rejected(
        folder,
        &["eval", "latest"],
        &["RUN latest: has no config.json"],
    );
}

#[test]
fn a_summary_says_where_the_run_comes_from() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let git = |arguments: &[&str]| {
        let identity = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "commit.gpgsign=false",
        ];
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
    small(folder, "run", &[]);
    let run = folder.join("runs/run");
    let summary = json(&run.join("summary.json"));
    assert_eq!(summary["git_revision"], head);
    let command = summary["command"].as_str().unwrap();
    assert!(
        command.contains(" fit --steps 12 ") && command.ends_with(" --run-dir runs/run"),
        "{command}"
    );
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
    let resumed = ["resume", "runs/run", "--steps", "13"];
    succeed(&train(folder).args(resumed).output().unwrap());
    let environments = json(&run.join("environment.json"));
    let environments = environments.as_array().unwrap();
    assert_eq!(environments.len(), 2);
    assert_eq!(environments[0]["git_revision"], head);
    assert_eq!(environments[1]["git_revision"], format!("{head}-dirty"));
    let command = environments[1]["command"].as_str().unwrap();
    assert!(
        command.ends_with(" resume runs/run --steps 13"),
        "{command}"
    );
    let summary = json(&run.join("summary.json"));
    assert_eq!(summary["git_revision"], environments[1]["git_revision"]);
}
