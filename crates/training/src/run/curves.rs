//! Reads a run's `metrics.jsonl`: its lines, and the curves of its metrics.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::layout::{METRICS, read_file, unusable};
use crate::error::UsageError;

/// Metrics that have curves: their fields in `metrics.jsonl`, and their tags in TensorBoard, which
/// groups charts by the part of the tag before the slash.
pub const CURVES: [(&str, &str); 9] = [
    ("loss", "train/loss"),
    ("learning_rate", "train/learning_rate"),
    ("gradient_norm", "train/gradient_norm"),
    ("tokens_per_second", "train/tokens_per_second"),
    ("valid_loss", "validation/loss"),
    ("token_accuracy", "validation/token_accuracy"),
    ("exact_match", "validation/exact_match"),
    ("bleu", "validation/bleu"),
    ("chrf", "validation/chrf"),
];

/// A line of `metrics.jsonl`: a training step or an evaluation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct MetricsLine {
    /// Number of steps taken.
    pub step: usize,
    /// All other fields.
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl MetricsLine {
    /// Returns the line of a record, such as [`StepMetrics`](super::StepMetrics).
    ///
    /// # Panics
    ///
    /// If the record is not an object with a step.
    pub fn of(record: &impl Serialize) -> Self {
        let value = serde_json::to_value(record).expect("a record is plain data");
        serde_json::from_value(value).expect("a record has a step")
    }

    /// Returns the number in the field `name`; `None` if there is none. A number that was not
    /// finite, which is null in JSON, is NaN.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.fields.get(name)? {
            Value::Null => Some(f64::NAN),
            value => value.as_f64(),
        }
    }

    /// Returns the metrics of the line that have curves.
    pub fn metrics(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let number = |(field, _): (&'static str, _)| Some((field, self.number(field)?));
        CURVES.into_iter().filter_map(number)
    }
}

/// A step and a value.
pub type Point = (f64, f64);

/// The numbers of `metrics.jsonl` by step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves(BTreeMap<&'static str, Vec<Point>>);

impl Curves {
    /// Returns the curves of the lines. Fields without a finite value are left out.
    pub fn new(lines: &[MetricsLine]) -> Self {
        let mut curves: BTreeMap<&'static str, Vec<Point>> = BTreeMap::new();
        let mut tokens = 0.0;
        for line in lines {
            let mut add = |name, value| {
                let curve = curves.entry(name).or_default();
                curve.push((line.step as f64, value));
            };
            line.metrics().for_each(|(name, value)| add(name, value));
            if let Some(seconds) = line.number("seconds") {
                add("seconds", seconds);
            }
            if let Some(more) = line.number("tokens") {
                tokens += more;
                add("tokens", tokens);
            }
        }
        curves.retain(|_, curve| curve.iter().any(|point| point.1.is_finite()));
        Self(curves)
    }

    /// Returns the points of a metric in [`CURVES`], of `seconds` of training, or of `tokens`
    /// trained on so far. The slice is empty if there is no finite value; other values that were
    /// not finite are NaN.
    pub fn get(&self, name: &str) -> &[Point] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the last value of a metric; `None` if there is none.
    pub fn last(&self, name: &str) -> Option<f64> {
        self.get(name).last().map(|point| point.1)
    }
}

/// Reads the lines of a run folder's `metrics.jsonl`. An incomplete last line, which a killed
/// process leaves, is skipped.
///
/// # Errors
///
/// If the file cannot be read, or if a line is damaged. The message names the file and the line.
pub fn read_metrics(folder: &Path) -> Result<Vec<MetricsLine>, UsageError> {
    read_lines(folder, |_, _| true)
}

/// Reads the evaluations of `metrics.jsonl` and its last three lines, which include the last step
/// if there was one. The other lines are skipped, because parsing all lines of a long run takes
/// long.
pub(super) fn read_evaluations(folder: &Path) -> Result<Vec<MetricsLine>, UsageError> {
    let name = b"\"valid_loss\"";
    let is_evaluation = |line: &[u8]| line.windows(name.len()).any(|part| part == name);
    // The last three lines may be a step, its evaluation, and an incomplete line.
    read_lines(folder, |line, left| left < 3 || is_evaluation(line))
}

/// Parses a line; `None` if it is not a JSON object with a step.
pub(super) fn parse_line(line: &[u8]) -> Option<MetricsLine> {
    serde_json::from_slice(line).ok()
}

/// Reads the lines for which `is_wanted` returns true, given the line and the number of lines after
/// it.
fn read_lines(
    folder: &Path,
    is_wanted: impl Fn(&[u8], usize) -> bool,
) -> Result<Vec<MetricsLine>, UsageError> {
    let path = folder.join(METRICS);
    let text = read_file(&path, u64::MAX >> 20)?;
    let all: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(&all) {
        if line.trim_ascii().is_empty() || !is_wanted(line, all.len() - number) {
            continue;
        }
        match parse_line(line) {
            Some(line) => lines.push(line),
            None if !line.ends_with(b"\n") => break,
            None => {
                let what = "is damaged, must be a JSON object with a step";
                return Err(unusable(&path, format!("line {number} {what}")));
            }
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const STEP: &str = r#"{"step":1,"loss":2.5,"tokens":8,"seconds":0.5}"#;
    const NAN: &str = r#"{"step":2,"loss":null,"tokens":9,"seconds":1.5}"#;
    const EVALUATION: &str = r#"{"step":2,"seconds":1.5,"valid_loss":1.5,"exact_match":0.25}"#;

    #[test]
    fn lines_become_curves_and_an_incomplete_last_line_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(METRICS);
        let next = r#"{"step":3,"loss":9.0}"#;
        for length in 0..next.len() {
            let next = &next[..length];
            fs::write(&path, format!("{STEP}\n{NAN}\n\n{EVALUATION}\n{next}")).unwrap();
            let curves = Curves::new(&read_metrics(folder.path()).unwrap());
            assert_eq!(curves.get("loss")[0], (1.0, 2.5));
            assert!(curves.get("loss")[1].1.is_nan());
            assert_eq!(curves.get("valid_loss"), [(2.0, 1.5)]);
            assert_eq!(curves.get("tokens"), [(1.0, 8.0), (2.0, 17.0)]);
            assert_eq!(curves.last("seconds"), Some(1.5));
            assert!(curves.get("bleu").is_empty());
        }
    }

    #[test]
    fn evaluations_are_read_alone() {
        let folder = tempfile::tempdir().unwrap();
        let lines = [STEP, EVALUATION, STEP, STEP, NAN, EVALUATION].join("\n");
        fs::write(folder.path().join(METRICS), lines).unwrap();
        let lines = read_evaluations(folder.path()).unwrap();
        let found: Vec<_> = lines
            .iter()
            .map(|it| (it.step, it.number("valid_loss").is_some()))
            .collect();
        assert_eq!(found, [(2, true), (1, false), (2, false), (2, true)]);
    }

    #[test]
    fn damaged_lines_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for damaged in ["{}", "[1]", "x", r#"{"step":-1}"#, "\u{0}"] {
            let text = format!("{STEP}\n{damaged}\n{STEP}\n");
            fs::write(folder.path().join(METRICS), text).unwrap();
            let error = read_metrics(folder.path()).unwrap_err().to_string();
            assert!(error.contains("metrics.jsonl: line 2 is"), "{error}");
        }
    }
}
