//! `train report`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use super::text_task::{TINY as TINY_TEXT, corpus};
use super::{refused, succeed, text, train};

/// Trains a run with two layers and two heads, once for all tests, and returns its folder.
fn trained() -> &'static Path {
    static RUN: OnceLock<PathBuf> = OnceLock::new();
    RUN.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let run = folder.join("report");
        let _ = fs::remove_dir_all(&run);
        let flags = "--steps 30 --batch-size 8 --d-model 16 --heads 2 --d-ff 16 --layers 2 \
                     --symbols 9 --max-length 5 --eval-every 10 --eval-lengths 1..8 \
                     --sequences 4 --run-dir";
        let mut command = train(folder);
        succeed(&command.args(flags.split(' ')).arg(&run).output().unwrap());
        run
    })
}

/// Creates a run folder without checkpoints, like that of a process that was killed early.
fn killed(folder: &Path, name: &str) -> PathBuf {
    let run = folder.join(name);
    fs::create_dir(&run).unwrap();
    fs::copy(trained().join("config.json"), run.join("config.json")).unwrap();
    let lines = "{\"step\":1,\"loss\":3.5,\"learning_rate\":0.1,\"gradient_norm\":1.5,\"tokens\":7}\n\
                 {\"step\":2,\"loss\":null,\"learning_rate\":0.1,\"gradient_norm\":null,\"tokens\":7}\n\
                 {\"step\":3,\"lo";
    fs::write(run.join("metrics.jsonl"), lines).unwrap();
    run
}

/// Returns the JSON data in a page.
fn data(page: &Path) -> Value {
    let page = fs::read_to_string(page).unwrap();
    let begin = "<script type=\"application/json\" id=\"data\">";
    let (_, rest) = page.split_once(begin).unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_page_of_a_run_has_its_curves_attention_and_samples() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("pages/mine.html");
    let mut command = train(folder.path());
    command.arg("report").arg(trained());
    command.args(["--examples", "12", "-o"]).arg(&page);
    let stdout = succeed(&command.output().unwrap());
    assert_eq!(stdout.trim(), page.display().to_string());
    let data = data(&page);
    let run = &data["runs"][0];
    assert_eq!(run["name"], "report");
    assert_eq!(run["task"], "copy");
    assert_eq!(run["status"]["name"], "finished");
    assert_eq!(run["status"]["reason"], "all 30 steps taken");
    for curve in ["gradient_norm", "learning_rate", "tokens_per_second"] {
        assert!(run["curves"][curve].is_object(), "{curve}");
    }
    assert_eq!(run["seconds_by_step"]["x"].as_array().unwrap().len(), 30);
    assert_eq!(run["notes"], serde_json::json!([]));
    assert_eq!((&run["step"], &run["steps"]), (&30.into(), &30.into()));
    assert_eq!(run["curves"]["loss"]["x"].as_array().unwrap().len(), 30);
    assert_eq!(run["curves"]["valid_loss"]["x"], Value::from([10, 20, 30]));
    // The throughput has a point for each reading of the losses, not for each step.
    let throughput = run["curves"]["tokens_per_second"]["x"].as_array().unwrap();
    assert!((1..=9).contains(&throughput.len()), "{throughput:?}");
    assert_eq!(throughput.last(), Some(&30.into()));
    assert_eq!(run["lengths"].as_array().unwrap().len(), 8);
    assert_eq!(run["scores"][0]["label"], "test exact match");

    let samples = run["examples"]["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 12);
    for sample in samples {
        let reference = sample["reference"].as_array().unwrap().iter();
        let reference: Vec<&str> = reference.map(|word| word[0].as_str().unwrap()).collect();
        // The task is copy, so the reference equals the source.
        assert_eq!(reference.join(" "), sample["source"]);
        let output = sample["output"].as_array().unwrap();
        let is_marked = |words: &[Value]| words.iter().any(|word| word[1] == 1);
        let has_marks = is_marked(output) || is_marked(sample["reference"].as_array().unwrap());
        assert_eq!(has_marks, sample["is_exact"] == false, "{sample}");
    }
    let attention = run["examples"]["attention"].as_array().unwrap();
    assert_eq!(attention.len(), 8);
    for (example, sample) in attention.iter().zip(samples) {
        assert_eq!(example["source"], sample["source"]);
        for map in example["maps"].as_array().unwrap() {
            let size = |side: &str| map[side].as_array().unwrap().len();
            let (rows, columns) = (size("rows"), size("columns"));
            let layers = map["weights"].as_array().unwrap();
            assert_eq!((layers.len(), layers[0].as_array().unwrap().len()), (2, 2));
            for head in layers.iter().flat_map(|layer| layer.as_array().unwrap()) {
                let head = head.as_str().unwrap();
                assert_eq!(head.len(), 2 * rows * columns);
                for row in head.as_bytes().chunks(2 * columns) {
                    let weights = row.chunks(2).map(|digits| {
                        u32::from_str_radix(std::str::from_utf8(digits).unwrap(), 36).unwrap()
                    });
                    // Each weight was rounded to thousandths.
                    assert!(weights.sum::<u32>().abs_diff(1000) <= columns as u32);
                }
            }
        }
    }
    let settings = data["settings"].as_array().unwrap();
    let changed = settings
        .iter()
        .filter(|setting| setting["presets"][0].is_string());
    let changed: Vec<&str> = changed
        .map(|setting| setting["path"].as_str().unwrap())
        .collect();
    assert!(changed.contains(&"model.d_model") && changed.contains(&"optimization.steps"));
    assert!(!changed.contains(&"model.dropout") && !changed.contains(&"model.max_len"));
}

#[test]
fn what_a_run_lacks_is_said_and_the_page_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = killed(folder.path(), "early");
    let output = train(folder.path())
        .args(["report", "early"])
        .output()
        .unwrap();
    assert_eq!(succeed(&output), "early/report.html\n");
    let notes = text(&output.stderr);
    for (lacks, why) in [
        ("validation curves", "has not been evaluated"),
        ("exact match by length", "train eval early --eval-lengths"),
        ("samples and no attention", "no checkpoint"),
        ("scores of the test split", "no summary.json"),
    ] {
        let mut lines = notes.lines();
        assert!(
            lines.any(|line| line.contains(lacks) && line.contains(why)),
            "{notes}"
        );
    }
    let data = data(&run.join("report.html"));
    let run = &data["runs"][0];
    assert!(run["examples"].is_null());
    assert_eq!(run["status"]["name"], "not finished");
    assert_eq!(run["curves"]["loss"]["y"], serde_json::json!([3.5, null]));
    assert_eq!(
        run["notes"].as_array().unwrap().len(),
        notes.lines().count()
    );
}

#[test]
fn several_runs_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("other")).unwrap();
    killed(folder.path(), "report");
    killed(&folder.path().join("other"), "report");
    let pair = ["report", "report", "other/report", "--examples", "0"];
    let stdout = succeed(&train(folder.path()).args(pair).output().unwrap());
    assert_eq!(stdout, "report.html\n");
    let found = data(&folder.path().join("report.html"));
    let names = found["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["name"]);
    assert!(names.eq(["report", "other/report"]), "{found}");
    assert!(found["settings"][0]["values"].as_array().unwrap().len() == 2);
}

#[test]
fn a_run_on_text_shows_the_first_pairs_for_validation() {
    let folder = tempfile::tempdir().unwrap();
    let flags = corpus(folder.path(), 60);
    let mut command = train(folder.path());
    let command = command
        .args(TINY_TEXT)
        .args(["--run-dir", "run", "--steps", "2"]);
    succeed(&command.args(flags).output().unwrap());
    let arguments = ["report", "run", "--examples", "3"];
    succeed(&train(folder.path()).args(arguments).output().unwrap());
    let data = data(&folder.path().join("run/report.html"));
    let run = &data["runs"][0];
    let sources = fs::read_to_string(folder.path().join("valid.source")).unwrap();
    let samples = run["examples"]["samples"].as_array().unwrap();
    let samples: Vec<&str> = samples
        .iter()
        .map(|s| s["source"].as_str().unwrap())
        .collect();
    assert_eq!(samples, sources.lines().take(3).collect::<Vec<_>>());
    assert_eq!(run["scores"][0]["label"], "validation BLEU");
    assert!(!text(run["notes"].to_string().as_bytes()).contains("by length"));
}

#[test]
fn wrong_arguments_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path(), "run");
    fs::create_dir(folder.path().join("folder")).unwrap();
    let refused = |arguments: &str, expected: &[&str]| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        refused(folder.path(), &arguments, expected);
    };
    refused("report", &["RUN"]);
    refused("report none", &["RUN none: does not exist"]);
    refused("report folder", &["RUN folder: has no config.json"]);
    refused(
        "report run run",
        &["RUN run: is given twice; name each run once"],
    );
    refused(
        "report run -o folder",
        &["--output folder: is a folder", "report.html"],
    );
    refused("report run --backend x", &["--backend x: must be one of"]);
    refused(
        "report run --examples 1001",
        &["--examples 1001: must be at most 1000"],
    );
    refused(
        "report run --checkpoint x",
        &["--checkpoint", "must be last, best"],
    );
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let expected = [
        "--output file/page.html: cannot be written",
        "name another file",
    ];
    refused("report run --examples 0 -o file/page.html", &expected);
    fs::write(folder.path().join("run/metrics.jsonl"), "x\n").unwrap();
    refused("report run", &["metrics.jsonl: line 1 is damaged"]);
}
