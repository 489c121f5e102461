//! Facts about a run from its files: size, progress, scores, environment.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};
use training::files::read_regular;
use training::run::checkpoint::{Checkpoints, STATE};
use training::run::layout::{ENVIRONMENT, SUMMARY};

use super::curve::{Point, rounded};
use super::metrics::Metrics;
use crate::number::grouped;

/// Facts about a run, collected from its files. A fact that no file contains is `None`, or has a
/// default value such as 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    pub task: String,
    pub backend: Option<String>,
    pub parameters: Option<u64>,
    /// Number of steps taken.
    pub step: u64,
    /// Number of steps in the configuration.
    pub steps: Option<u64>,
    /// Seconds of training, without evaluations.
    pub seconds: Option<f64>,
    /// Label smoothing of the training loss.
    pub label_smoothing: f64,
    /// Global norm to which gradients are clipped; `None` if they are not clipped.
    pub clip_norm: Option<f64>,
    /// Step of the best evaluation, by the measure in the setting `evaluation.best_by`. `None` if
    /// no evaluation has a finite value of this measure.
    pub best_step: Option<u64>,
    /// Scores, the most important first.
    pub scores: Vec<Score>,
    /// Names and values that describe the environment of the run, such as host, threads and
    /// version.
    pub environment: Vec<(String, String)>,
}

/// A score of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Name of the score.
    pub label: &'static str,
    pub value: f64,
    /// Kind of score: `share` (0 to 1), `points` (0 to 100) or `loss`. The page formats the value
    /// by its kind.
    pub kind: &'static str,
    /// Text that qualifies the score: the number of sequences that were scored after training, or
    /// the step of the best evaluation. Empty if the number of sequences is unknown.
    pub detail: String,
}

/// Measures of an evaluation on the validation split: field, label, kind, and whether more is
/// better.
const MEASURES: [(&str, &str, &str, bool); 4] = [
    ("bleu", "validation BLEU", "points", true),
    ("exact_match", "validation exact match", "share", true),
    ("token_accuracy", "validation token accuracy", "share", true),
    ("valid_loss", "validation loss", "loss", false),
];

/// Fields of `summary.json` that are not part of the environment. The page shows most of them
/// elsewhere.
const SHOWN: [&str; 14] = [
    "task",
    "backend",
    "parameters",
    "steps",
    "train_seconds",
    "exact_match",
    "split",
    "sequences",
    "token_accuracy",
    "valid_loss",
    "bleu",
    "chrf",
    "status",
    "reason",
];

impl Facts {
    /// Collects the facts from the files in a run folder.
    pub fn of(folder: &Path, config: &Value, metrics: &Metrics) -> Self {
        let summary = read(&folder.join(SUMMARY));
        let checkpoints = Checkpoints::of(folder);
        let last = checkpoints.steps().last().copied();
        let state = last.map_or(Value::Null, |step| {
            read(&checkpoints.path(step).join(STATE))
        });
        let processes = read(&folder.join(ENVIRONMENT));
        let processes = processes.as_array().map_or(&[][..], Vec::as_slice);
        let data = &config["data"];
        let task = data["title"].as_str().or(data["task"].as_str());
        let task = task.or(summary["task"].as_str());
        let optimization = &config["optimization"];
        let last = |name: &str| metrics.field(name).last().copied();
        let logged = last("loss").or(last("valid_loss"));
        let step = summary["steps"].as_u64().or(logged.map(|(step, _)| step));
        let seconds = [&summary, &state].map(|file| file["train_seconds"].as_f64());
        let logged_seconds = last("seconds").map(|(_, seconds)| seconds);
        let backend = config["execution"]["backend"].as_str();
        let backend = backend.or(summary["backend"].as_str());
        Self {
            task: task.unwrap_or("unknown").into(),
            backend: backend.filter(|name| !name.is_empty()).map(String::from),
            parameters: summary["parameters"].as_u64(),
            step: step.or(state["step"].as_u64()).unwrap_or(0),
            steps: optimization["steps"].as_u64(),
            seconds: seconds[0].or(logged_seconds).or(seconds[1]),
            label_smoothing: optimization["label_smoothing"].as_f64().unwrap_or(0.0),
            clip_norm: optimization["optimizer"]["clip_norm"].as_f64(),
            best_step: best_step(config, metrics),
            scores: scores(&summary, metrics),
            environment: environment(config, &state, processes, &summary),
        }
    }
}

/// Returns the contents of a JSON file. Returns null if the file cannot be read, because the page
/// does not need every file.
fn read(path: &Path) -> Value {
    let json = read_regular(path, 64).ok();
    json.and_then(|json| serde_json::from_slice(&json).ok())
        .unwrap_or_default()
}

/// Returns the finite point with the best value; `None` if no point is finite. If several points
/// have the best value, returns the first of them.
fn best(points: &[Point], is_more_better: bool) -> Option<Point> {
    let finite = points.iter().filter(|point| point.1.is_finite());
    finite.copied().reduce(|best, point| {
        let is_better = if is_more_better {
            point.1 > best.1
        } else {
            point.1 < best.1
        };
        if is_better { point } else { best }
    })
}

fn best_step(config: &Value, metrics: &Metrics) -> Option<u64> {
    let (field, is_more_better) = match config["evaluation"]["best_by"].as_str() {
        Some("exact-match") => ("exact_match", true),
        Some("bleu") => ("bleu", true),
        _ => ("valid_loss", false),
    };
    best(metrics.field(field), is_more_better).map(|(step, _)| step)
}

fn scores(summary: &Value, metrics: &Metrics) -> Vec<Score> {
    let mut scores = Vec::new();
    let count = summary["sequences"].as_u64();
    let on = count.map_or(String::new(), |count| {
        format!("{} sequences", grouped(count))
    });
    let is_validation = summary["split"] == "validation";
    let tests: &[_] = match (summary["bleu"].is_number(), is_validation) {
        (true, true) => &[
            ("bleu", "validation BLEU", "points"),
            ("chrf", "validation chrF", "points"),
        ],
        (true, false) => &[
            ("bleu", "test BLEU", "points"),
            ("chrf", "test chrF", "points"),
        ],
        (false, true) => &[("exact_match", "validation exact match", "share")],
        (false, false) => &[("exact_match", "test exact match", "share")],
    };
    for &(field, label, kind) in tests {
        if let Some(value) = summary[field].as_f64() {
            let (value, detail) = (rounded(value, 5), on.clone());
            scores.push(Score {
                label,
                value,
                kind,
                detail,
            });
        }
    }
    for (field, label, kind, is_more_better) in MEASURES {
        // One measure of quality besides the loss is enough. The scores in `summary.json` take
        // precedence, because they are those of the trained model.
        if kind != "loss" && !scores.is_empty() {
            continue;
        }
        if let Some((step, value)) = best(metrics.field(field), is_more_better) {
            let (value, detail) = (rounded(value, 5), format!("best, step {}", grouped(step)));
            scores.push(Score {
                label,
                value,
                kind,
                detail,
            });
        }
    }
    scores
}

/// Returns the names and values that describe the environment.
///
/// If several files have a value, `summary` takes precedence over `processes`, and `processes` over
/// `config` and `state`. Values that differ between the processes of a resumed run have an entry
/// for each process.
fn environment(
    config: &Value,
    state: &Value,
    processes: &[Value],
    summary: &Value,
) -> Vec<(String, String)> {
    let mut found: Map<String, Value> = Map::new();
    for name in ["threads", "version"] {
        found.insert(name.into(), state[name].clone());
    }
    for name in ["backend", "precision"] {
        found.insert(name.into(), config["execution"][name].clone());
    }
    found.insert("seed".into(), config["seed"].clone());
    for file in processes.last().into_iter().chain([summary]) {
        let others = file.as_object().into_iter().flatten();
        let others = others.filter(|(name, _)| !SHOWN.contains(&name.as_str()));
        found.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    }
    let mut entries = Vec::new();
    if processes.len() > 1 {
        entries.push(("processes".into(), processes.len().to_string()));
    }
    for (name, value) in found {
        let of_process = |process: &Value| process.get(&name).cloned().unwrap_or_default();
        let values: Vec<Value> = processes.iter().map(of_process).collect();
        if values.iter().all(|value| *value == values[0]) {
            entries.extend(described(&name, &value).map(|text| (title(&name), text)));
            continue;
        }
        for (number, value) in (1..).zip(&values) {
            let title = format!("{}, process {number}", title(&name));
            entries.extend(described(&name, value).map(|text| (title, text)));
        }
    }
    entries
}

/// Returns the heading of a value of the environment.
fn title(name: &str) -> String {
    match name {
        "data_wait" => "time spent waiting for data".into(),
        "peak_rss_bytes" => "peak memory".into(),
        "tokens_per_second" => "target tokens per second".into(),
        "begun" => "training begun".into(),
        "date" => "finished".into(),
        name => name.replace('_', " "),
    }
}

/// Formats a value of the environment with its unit; `None` for a value that was not measured.
fn described(name: &str, value: &Value) -> Option<String> {
    Some(match (name, value) {
        (_, Value::Null) => return None,
        ("data_wait", Value::Number(share)) => format!("{:.1} %", 100.0 * share.as_f64()?),
        ("peak_rss_bytes", Value::Number(bytes)) => {
            format!("{:.0} MiB", bytes.as_f64()? / f64::from(1 << 20))
        }
        ("tokens_per_second", Value::Number(rate)) => grouped(rate.as_f64()?.round()),
        (_, Value::String(text)) => text.clone(),
        (_, Value::Array(words)) => {
            let word = |word: &Value| word.as_str().map_or(word.to_string(), String::from);
            words.iter().map(word).collect::<Vec<_>>().join(" ")
        }
        (_, value) => value.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;
    use training::run::layout::METRICS;

    use super::*;

    fn facts(files: &[(&str, &str)], config: &Value) -> Facts {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let metrics = Metrics::read(folder.path()).unwrap().unwrap_or_default();
        Facts::of(folder.path(), config, &metrics)
    }

    const LINES: &str = "{\"step\":10,\"loss\":2,\"seconds\":4.5}\n\
                         {\"step\":10,\"valid_loss\":1.5,\"exact_match\":0.5}\n\
                         {\"step\":20,\"valid_loss\":1.25,\"exact_match\":0.25}\n";

    #[test]
    fn a_run_without_a_summary_has_its_best_evaluations() {
        let mut config = json!({"data": {"task": "add"}, "optimization": {"steps": 50}});
        let found = facts(&[(METRICS, LINES)], &config);
        assert_eq!(
            (found.step, found.steps, found.seconds),
            (10, Some(50), Some(4.5))
        );
        assert_eq!(found.best_step, Some(20));
        let scores: Vec<_> = found.scores.iter().map(|s| (s.label, s.value)).collect();
        let expected = [("validation exact match", 0.5), ("validation loss", 1.25)];
        assert_eq!(scores, expected);
        assert_eq!(found.scores[0].detail, "best, step 10");
        config["evaluation"] = json!({"best_by": "exact-match"});
        assert_eq!(facts(&[(METRICS, LINES)], &config).best_step, Some(10));
    }

    #[test]
    fn the_summary_counts_more_than_the_evaluations() {
        let config = json!({"data": {"task": "custom", "title": "mine"}, "seed": 7});
        let summary = r#"{"exact_match":0.75,"sequences":1000,"train_seconds":9.0,"steps":20,
            "parameters":12345,"peak_rss_bytes":3145728,"data_wait":0.015,"command":["a","b"],
            "git":null,"tokens_per_second":12345.6}"#;
        let processes = r#"[{"host":"a","threads":1,"os":"x","begun":"1"},
            {"host":"b","threads":1,"os":"x","begun":"2"}]"#;
        let files = [
            (METRICS, LINES),
            (SUMMARY, summary),
            (ENVIRONMENT, processes),
        ];
        let found = facts(&files, &config);
        assert_eq!((found.step, found.seconds), (20, Some(9.0)));
        assert_eq!(
            (found.task.as_str(), found.parameters),
            ("mine", Some(12345))
        );
        assert_eq!(found.scores[0].label, "test exact match");
        assert_eq!(found.scores[0].detail, "1,000 sequences");
        assert_eq!(found.scores.len(), 2);
        let environment = |name: &str| {
            let mut entries = found.environment.iter();
            entries
                .find(|entry| entry.0 == name)
                .map(|entry| entry.1.as_str())
        };
        assert_eq!(environment("peak memory"), Some("3 MiB"));
        assert_eq!(environment("time spent waiting for data"), Some("1.5 %"));
        assert_eq!(environment("target tokens per second"), Some("12,346"));
        assert_eq!(environment("command"), Some("a b"));
        // Each process of a resumed run has its own values where they differ.
        assert_eq!(environment("processes"), Some("2"));
        let host = |number| environment(&format!("host, process {number}"));
        assert_eq!([host(1), host(2), host(3)], [Some("a"), Some("b"), None]);
        assert_eq!(environment("training begun, process 1"), Some("1"));
        assert_eq!((environment("os"), environment("host")), (Some("x"), None));
        assert_eq!(environment("threads"), Some("1"));
        assert_eq!((environment("seed"), environment("git")), (Some("7"), None));
        assert_eq!(environment("exact match"), None);
    }

    #[test]
    fn files_that_are_missing_or_damaged_leave_gaps() {
        let found = facts(&[(SUMMARY, "{")], &json!({}));
        let expected = Facts {
            task: "unknown".into(),
            ..Facts::default()
        };
        assert_eq!(found, expected);
    }
}
