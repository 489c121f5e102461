//! Event files for TensorBoard, and what all commands say of one run.

use std::path::Path;

use serde_json::Value;

use super::plot::{small_run, trained};
use super::report::data;
use super::task::train_copy;
use super::{Folder, assert_has, parsed, step_losses};

/// Returns the values of a tag in the event files of a run.
fn values(run: &Path, tag: &str) -> Vec<f32> {
    let entries = std::fs::read_dir(run).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.to_str().unwrap().contains("tfevents"));
    let bytes: Vec<u8> = files
        .flat_map(|path| std::fs::read(path).unwrap())
        .collect();
    let tag = format!("{tag}\x15");
    let places = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(tag.as_bytes()));
    let values = places.map(|at| bytes[at + tag.len()..].first_chunk().unwrap());
    values.map(|value| f32::from_le_bytes(*value)).collect()
}

#[test]
fn event_files_for_tensorboard_have_each_step_once() {
    let folder = &Folder::new();
    let run = folder.join("runs/run");
    train_copy(folder, "runs/run", "--eval-every 6");
    assert!(values(&run, "train/loss").is_empty());
    // A run that is resumed with the flag gets the events of all its steps. It then goes on writing
    // them without the flag.
    for (steps, flag, evaluations) in [(15, "--tensorboard", 3), (16, "", 4)] {
        super::run(folder, &format!("resume runs/run --steps {steps} {flag}"));
        assert_eq!(values(&run, "train/loss").len(), steps);
        assert_eq!(values(&run, "validation/exact_match").len(), evaluations);
    }
}

#[test]
fn all_commands_say_the_same_of_a_run() {
    let folder = &Folder::new();
    small_run(folder, "other", true, |_| {});
    let run = trained();
    let path = run.to_str().unwrap();
    let listed = parsed(folder, &format!("runs {path} --json"));
    let compared = parsed(folder, &format!("compare {path} other --json"));
    super::run(folder, &format!("report {path} --examples 0 -o page.html"));
    super::run(folder, &format!("plot {path} --only loss --output ."));
    let plot = std::fs::read_to_string(folder.join("loss.svg")).unwrap();
    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    let facts = data(&folder.join("page.html"))["runs"][0]["facts"].clone();
    let fact = |label: &str| {
        let mut facts = facts.as_array().unwrap().iter();
        facts
            .find(|fact| fact["label"] == label)
            .unwrap_or(&Value::Null)
            .clone()
    };
    // The values under the pointer, in the charts of the report.
    let hover = |title: &str, field: &str| -> Value {
        let (before, _) = page.split_once(&format!("<h3>{title}</h3>")).unwrap();
        let (_, hover) = before.rsplit_once("data-hover=\"").unwrap();
        let hover = hover.split('"').next().unwrap().replace("&quot;", "\"");
        let hover: Value = serde_json::from_str(&hover).unwrap();
        let mut lines = hover["lines"].as_array().unwrap().iter();
        let has_label = |line: &&Value| line["label"].as_str().unwrap().starts_with(field);
        lines.find(has_label).unwrap().clone()
    };
    let last = |line: &Value| line["y"].as_array().unwrap().last().unwrap().clone();
    let number = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-3 * b.abs().max(0.1), "{a} is not {b}");
    let metric = |name: &str| listed["metrics"][name].as_f64().unwrap();

    // The final loss is the same everywhere, although the run has label smoothing.
    let (loss, valid) = (metric("train_loss"), metric("valid_loss"));
    assert_eq!(step_losses(run).last(), Some(&loss));
    for (name, expected) in [("train_loss", loss), ("valid_loss", valid)] {
        close(
            compared["groups"][0]["metrics"][name]["mean"]
                .as_f64()
                .unwrap(),
            expected,
        );
    }
    close(number(&last(&hover("Loss", "training"))), loss);
    close((*values(run, "train/loss").last().unwrap()).into(), loss);
    close(
        (*values(run, "validation/loss").last().unwrap()).into(),
        valid,
    );
    close(number(&fact("validation loss")["text"]), valid);

    // The best step and its loss.
    let step = &listed["best"]["step"];
    assert_eq!(
        compared["groups"][0]["metrics"]["model_step"]["mean"].as_f64(),
        step.as_f64()
    );
    assert_has(&plot, &[&format!("best checkpoint (step {step})")]);
    assert_eq!(fact("best evaluation")["detail"], format!("step {step}"));
    let line = hover("Loss", "validation");
    let place = line["x"]
        .as_array()
        .unwrap()
        .iter()
        .position(|x| x.as_f64() == step.as_f64());
    close(number(&line["y"][place.unwrap()]), metric("valid_loss"));

    // Exact match in the test and in the last evaluation.
    close(
        number(&fact("test exact match")["text"]),
        metric("test_exact_match"),
    );
    let exact = metric("valid_exact_match");
    close(
        number(&last(&hover(
            "Accuracy on the validation split",
            "exact match",
        ))),
        exact,
    );
    close(
        (*values(run, "validation/exact_match").last().unwrap()).into(),
        exact,
    );
}
