//! Reads settings, progress, metrics and status of a run from its folder.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Map, Value};

use super::layout::{CONFIG, LARGEST, SUMMARY, unusable};
use super::metrics_file::{MetricsLine, read_evaluations};
use super::{Status, latest, read_config_json, read_status};
use crate::config::{BestBy, EvaluationConfig};
use crate::error::UsageError;
use crate::files::read_regular;

/// Overview of a run folder, which is read without its data set and model.
#[derive(Clone, Debug)]
pub struct Overview {
    /// Name of the folder.
    pub name: String,
    /// Path of the folder.
    pub folder: PathBuf,
    /// Contents of `config.json`.
    pub config: Value,
    /// Number of steps taken.
    pub step: usize,
    /// Total number of steps; `None` if neither `status.json` nor `config.json` has it.
    pub steps: Option<usize>,
    /// Best evaluation by the metric `evaluation.best_by`; `None` if there was no evaluation with
    /// a value of this metric.
    pub best: Option<BestMetric>,
    /// Seconds of training; `None` if no file records them.
    pub seconds: Option<f64>,
    /// Status of the run; `None` for an unfinished run of an earlier version of this library, which
    /// wrote no status.
    pub status: Option<Status>,
    /// Why training ended, according to `status.json`; `None` if the file does not say.
    pub reason: Option<String>,
    /// Time when training last changed the folder; `None` if no file's time can be read.
    pub changed: Option<SystemTime>,
    /// Contents of `summary.json`; empty if there is no such file.
    summary: Map<String, Value>,
    /// The lines of `metrics.jsonl` that hold evaluations, and its last three lines.
    lines: Vec<MetricsLine>,
}

/// The best evaluation of a run on the validation split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BestMetric {
    /// Metric that decides which evaluation is the best.
    pub by: BestBy,
    /// Value of the metric.
    pub value: f64,
    /// Number of steps taken before the evaluation.
    pub step: usize,
}

impl BestMetric {
    /// Returns the name of the metric's field in `metrics.jsonl`.
    pub fn field(&self) -> &'static str {
        field(self.by)
    }
}

fn field(by: BestBy) -> &'static str {
    match by {
        BestBy::Loss => "valid_loss",
        BestBy::ExactMatch => "exact_match",
        BestBy::Bleu => "bleu",
    }
}

impl Overview {
    /// Reads a run folder.
    ///
    /// # Errors
    ///
    /// If the folder is not a run's, or if a file is damaged. The message names the file or folder.
    pub fn read(folder: &Path) -> Result<Self, UsageError> {
        let wrong = |what: String| unusable(&folder.join(CONFIG), what);
        let json = read_config_json(folder)?;
        let config: Value = serde_json::from_slice(&json)
            .map_err(|error| wrong(format!("is not JSON ({error})")))?;
        if !config["data"]["task"].is_string() {
            let what = "is not the configuration of a run of this version: it has no data.task";
            return Err(wrong(what.into()));
        }
        let lines = read_evaluations(folder)?;
        let summary = read_summary(folder)?;
        let status = read_status(folder)?;
        let last = lines.last().map(|line| line.step);
        let recorded = status.as_ref().map(|status| status.step);
        // While a run is running, `status.json` has the step of its last checkpoint, and
        // `metrics.jsonl` may have later steps.
        let step = last.max(recorded).unwrap_or(0);
        let configured = config["optimization"]["steps"].as_u64();
        let finished = summary.contains_key("steps").then_some(Status::Finished);
        let logged = lines.iter().rev().find_map(|line| line.seconds);
        let of_summary = summary.get("train_seconds").and_then(Value::as_f64);
        // A path such as `.` has no file name, so the name is taken from the canonical path.
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.into());
        let name = whole.file_name().unwrap_or(whole.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            folder: folder.into(),
            step,
            steps: match &status {
                Some(status) => Some(status.steps),
                None => configured.and_then(|steps| steps.try_into().ok()),
            },
            best: best(&config, &lines),
            seconds: of_summary.or(logged),
            status: status.as_ref().map(|status| status.status).or(finished),
            reason: status.and_then(|status| status.reason),
            changed: latest::changed(folder),
            config,
            summary,
            lines,
        })
    }

    /// Returns the title of a custom task, or the name of any other task.
    pub fn task(&self) -> &str {
        let data = &self.config["data"];
        let title = data["title"].as_str();
        title.or(data["task"].as_str()).unwrap_or_default()
    }

    /// Returns the seed of the run; `None` if `config.json` has no valid seed.
    pub fn seed(&self) -> Option<u64> {
        self.config["seed"].as_u64()
    }

    /// Returns the number in the field `name` of `summary.json`, such as `exact_match`; `None` if
    /// there is none, as in a run that has not finished.
    pub fn result(&self, name: &str) -> Option<f64> {
        self.summary.get(name)?.as_f64()
    }

    /// Returns the name of the split on which the trained model was scored, according to
    /// `summary.json`: `test` or `validation`. Returns `test` if the file does not say.
    pub fn scored_split(&self) -> &str {
        let split = self.summary.get("split").and_then(Value::as_str);
        split.unwrap_or("test")
    }

    /// Returns the last value of the field `name`, such as `valid_loss`, in the evaluations and
    /// last lines of `metrics.jsonl`; `None` if these lines do not have the field.
    pub fn last(&self, name: &str) -> Option<f64> {
        self.lines.iter().rev().find_map(|line| line.number(name))
    }
}

fn read_summary(folder: &Path) -> Result<Map<String, Value>, UsageError> {
    let path = folder.join(SUMMARY);
    if !path.exists() {
        return Ok(Map::new());
    }
    let wrong = |what: String| unusable(&path, what);
    let json =
        read_regular(&path, LARGEST).map_err(|error| wrong(format!("cannot be read ({error})")))?;
    serde_json::from_slice(&json).map_err(|error| wrong(format!("is damaged ({error})")))
}

/// Returns the best evaluation; `None` if there was no evaluation with a value of the metric. If
/// several evaluations are equally good, returns the first of them.
fn best(config: &Value, lines: &[MetricsLine]) -> Option<BestMetric> {
    let by = config["evaluation"]["best_by"].clone();
    let by: BestBy = serde_json::from_value(by).unwrap_or(EvaluationConfig::DEFAULT.best_by);
    let mut best: Option<BestMetric> = None;
    for line in lines {
        let Some(value) = line.number(field(by)).filter(|value| !value.is_nan()) else {
            continue;
        };
        if best.is_none_or(|best| by.is_better(value, best.value)) {
            let step = line.step;
            best = Some(BestMetric { by, value, step });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RunConfig;
    use crate::run::RunFolder;

    #[test]
    fn a_run_is_read_from_its_files() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let mut config = RunConfig::copy();
        config.evaluation.best_by = BestBy::ExactMatch;
        drop(RunFolder::create(Some(&path), &config).unwrap());
        let run = Overview::read(&path).unwrap();
        assert_eq!(
            (run.name.as_str(), run.task(), run.seed()),
            ("run", "copy", Some(0))
        );
        assert_eq!((run.step, run.steps, run.best), (0, Some(1000), None));
        let lines = [
            r#"{"step":5,"seconds":1.5,"valid_loss":2.0,"exact_match":0.25}"#,
            r#"{"step":10,"seconds":3.0,"valid_loss":1.0,"exact_match":0.5}"#,
            r#"{"step":15,"loss":null,"seconds":4.5}"#,
            r#"{"step":15,"seconds":4.5,"valid_loss":0.5,"exact_match":0.5}"#,
            "{\"step\":16,",
        ];
        std::fs::write(path.join("metrics.jsonl"), lines.join("\n")).unwrap();
        let run = Overview::read(&path).unwrap();
        let best = run.best.unwrap();
        assert_eq!(
            (best.field(), best.value, best.step),
            ("exact_match", 0.5, 10)
        );
        assert_eq!((run.step, run.seconds), (15, Some(4.5)));
        assert_eq!(run.last("valid_loss"), Some(0.5));
        assert!(run.last("loss").unwrap().is_nan());
        assert_eq!(run.result("exact_match"), None);
        std::fs::write(path.join(SUMMARY), r#"{"steps":15,"exact_match":0.75}"#).unwrap();
        assert_eq!(
            Overview::read(&path).unwrap().result("exact_match"),
            Some(0.75)
        );
        // A run of an earlier version of this library has no status.
        std::fs::remove_file(path.join("status.json")).unwrap();
        assert_eq!(
            Overview::read(&path).unwrap().status,
            Some(Status::Finished)
        );
        std::fs::remove_file(path.join(SUMMARY)).unwrap();
        assert_eq!(Overview::read(&path).unwrap().status, None);
    }

    #[test]
    fn damaged_files_are_named() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        drop(RunFolder::create(Some(&path), &RunConfig::copy()).unwrap());
        let error = || Overview::read(&path).unwrap_err().to_string();
        std::fs::write(path.join(SUMMARY), "[]").unwrap();
        assert!(error().contains("summary.json: is damaged"), "{}", error());
        std::fs::write(path.join("metrics.jsonl"), "x\n").unwrap();
        assert!(error().contains("metrics.jsonl: line 1"), "{}", error());
        for (json, what) in [
            ("{", "is not JSON"),
            ("{}", "it has no data.task"),
            ("3", "data.task"),
        ] {
            std::fs::write(path.join(CONFIG), json).unwrap();
            assert!(error().contains(what), "{}", error());
        }
    }
}
