//! `train report`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::plot::{small_run, trained};
use super::text_task::{corpus, fit};
use super::{Folder, all_rejected, output, run, succeed, text, train};

/// Returns the JSON data in a page.
pub(super) fn data(page: &Path) -> Value {
    let page = fs::read_to_string(page).unwrap();
    let begin = "<script type=\"application/json\" id=\"data\">";
    let (_, rest) = page.split_once(begin).unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_page_of_a_run_has_its_charts_attention_and_samples() {
    let folder = &Folder::new();
    let page = folder.join("pages/mine.html");
    let mut command = train(folder);
    command.arg("report").arg(trained());
    command.args(["--examples", "12", "-o"]).arg(&page);
    let stdout = succeed(&command.output().unwrap());
    assert_eq!(stdout.trim(), page.display().to_string());
    let html = fs::read_to_string(&page).unwrap();
    for (title, count) in [
        ("Loss", 2),
        ("Accuracy on the validation split", 2),
        ("Learning rate", 2),
        ("Gradient norm", 2),
        ("Throughput", 2),
        // Scores by length do not depend on the axis.
        ("Exact match by length", 1),
    ] {
        let heading = format!("<h3>{title}</h3>");
        assert_eq!(html.matches(&heading).count(), count, "{title}");
    }
    let data = data(&page);
    let run = &data["runs"][0];
    assert_eq!(run["name"], "trained");
    assert_eq!(run["status"], "finished");
    let lengths = "The exact match by length is that of step 30, test split.";
    assert_eq!(run["notes"], serde_json::json!([lengths]));
    let samples = run["examples"]["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 12);
    for sample in samples {
        let reference = sample["reference"].as_array().unwrap().iter();
        let reference: Vec<&str> = reference.map(|word| word[0].as_str().unwrap()).collect();
        // The task is copy, so the reference equals the source.
        assert_eq!(reference.join(" "), sample["source"]);
        let sides = [&sample["output"], &sample["reference"]];
        let mut words = sides
            .into_iter()
            .flat_map(|words| words.as_array().unwrap());
        let has_marks = words.any(|word| word[1] == true);
        assert_eq!(has_marks, sample["is_exact"] == false, "{sample}");
    }
    let attention = run["examples"]["attention"].as_array().unwrap();
    assert_eq!(attention.len(), 8);
    for map in attention
        .iter()
        .flat_map(|it| it["maps"].as_array().unwrap())
    {
        let size = |side: &str| map[side].as_array().unwrap().len();
        let (rows, columns) = (size("rows"), size("columns"));
        let layers = map["weights"].as_array().unwrap();
        assert_eq!((layers.len(), layers[0].as_array().unwrap().len()), (2, 2));
        let head = layers[1][1].as_str().unwrap().as_bytes();
        assert_eq!(head.len(), 2 * rows * columns);
        for row in head.chunks(2 * columns) {
            let weights = row.chunks(2).map(|digits| {
                u32::from_str_radix(std::str::from_utf8(digits).unwrap(), 36).unwrap()
            });
            // Each weight was rounded to thousandths.
            assert!(weights.sum::<u32>().abs_diff(1000) <= columns as u32);
        }
    }
    let settings = data["settings"].as_array().unwrap();
    let changed = settings
        .iter()
        .filter(|setting| setting["presets"][0].is_string());
    let changed: Vec<_> = changed
        .map(|setting| setting["path"].as_str().unwrap())
        .collect();
    assert!(changed.contains(&"model.d_model") && changed.contains(&"optimization.steps"));
    assert!(!changed.contains(&"model.dropout") && !changed.contains(&"model.max_len"));
}

#[test]
fn what_a_run_lacks_is_said_and_the_page_is_written() {
    let folder = &Folder::new();
    small_run(folder, "early", false, |_| {});
    let output = output(folder, "report early");
    assert_eq!(succeed(&output), "early/report.html\n");
    let notes = text(&output.stderr);
    for (lacks, why) in [
        ("validation curves", "has not been evaluated"),
        ("exact match by length", "train eval early --eval-lengths"),
        ("samples and no attention", "no checkpoint"),
        ("scores of the trained model", "only a run that finishes"),
    ] {
        let mut lines = notes.lines();
        let is_said = lines.any(|line| line.contains(lacks) && line.contains(why));
        assert!(is_said, "{notes}");
    }
    let data = data(&folder.join("early/report.html"));
    let run = &data["runs"][0];
    assert!(run["examples"].is_null());
    assert_eq!(
        run["notes"].as_array().unwrap().len(),
        notes.lines().count()
    );
}

#[test]
fn several_runs_stand_side_by_side() {
    let folder = &Folder::new();
    small_run(folder, "run", true, |_| {});
    small_run(&folder.join("other"), "run", true, |config| {
        config.model.d_ff = 9
    });
    let pair = "report run other/run --examples 0";
    let stdout = run(folder, pair);
    assert_eq!(stdout, "report.html\n");
    let found = data(&folder.join("report.html"));
    let names = found["runs"].as_array().unwrap().iter();
    let names = names.map(|run| &run["name"]);
    assert!(names.eq(["run", "other/run"]), "{found}");
    assert_eq!(found["colors"], serde_json::json!([0, 1]));
    assert_eq!(found["settings"][0]["values"].as_array().unwrap().len(), 2);
}

#[test]
fn a_run_on_text_shows_the_first_pairs_for_validation() {
    let folder = &Folder::new();
    succeed(&fit(folder, "run", 2, &corpus(folder, 60)));
    run(folder, "report run --examples 3");
    let data = data(&folder.join("run/report.html"));
    let run = &data["runs"][0];
    let sources = fs::read_to_string(folder.join("valid.source")).unwrap();
    let samples = run["examples"]["samples"].as_array().unwrap().iter();
    let samples: Vec<&str> = samples.map(|it| it["source"].as_str().unwrap()).collect();
    assert_eq!(samples, sources.lines().take(3).collect::<Vec<_>>());
    assert_eq!(run["facts"][0]["label"], "validation BLEU");
    assert!(!run["notes"].to_string().contains("by length"));
}

#[test]
fn wrong_arguments_are_rejected() {
    let folder = &Folder::new();
    small_run(folder, "run", true, |_| {});
    fs::create_dir(folder.join("folder")).unwrap();
    fs::write(folder.join("file"), "").unwrap();
    fs::write(folder.join("mine.html"), "<!doctype html>").unwrap();
    let table = "
        report | RUN
        report none | RUN none: does not exist
        report folder | RUN folder: has no config.json
        report run -o folder | --output folder: must be a file
        report run -o mine.html | --output mine.html: exists and is another file
        report run -o x.svg | --output x.svg: must be a file whose name ends with .html
        report run --backend x | --backend x: must be one of
        report run --examples 1001 | '1001' for '--examples <N>': must be a whole number from 0 to 1000
        report run --checkpoint x | --checkpoint
        report run --checkpoint 9 | --checkpoint 9: run/checkpoints has no checkpoint
        report run --examples 0 -o file/page.html | --output file/page.html: cannot be written";
    all_rejected(folder, "", table);
    run(folder, "report run --examples 0 -o mine.html --force");
    run(folder, "report run --examples 0 -o mine.html");
}
