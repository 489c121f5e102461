//! Reads a run's `metrics.jsonl`.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::{Map, Value};

use super::layout::{METRICS, unusable};
use crate::error::UsageError;
use crate::files::read_regular;

/// A line of `metrics.jsonl`, written by this or an earlier version of this library.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricsLine {
    /// Number of steps taken.
    pub step: usize,
    /// Seconds of training so far; `None` if an earlier version of this library did not write them.
    pub seconds: Option<f64>,
    /// All fields of the line.
    fields: Map<String, Value>,
}

impl MetricsLine {
    /// Returns the number in the field `name`; `None` if there is none. A loss or gradient norm
    /// that was not finite is NaN.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.fields.get(name)? {
            Value::Null if ["loss", "valid_loss", "gradient_norm"].contains(&name) => {
                Some(f64::NAN)
            }
            value => value.as_f64(),
        }
    }

    /// Returns whether the line holds an evaluation, not a training step.
    pub fn is_evaluation(&self) -> bool {
        self.fields.contains_key("valid_loss")
    }

    /// Returns a line with `fields`; `None` if they have no step.
    pub(super) fn of(fields: Map<String, Value>) -> Option<Self> {
        Some(Self {
            step: fields.get("step")?.as_u64()?.try_into().ok()?,
            seconds: fields.get("seconds").and_then(Value::as_f64),
            fields,
        })
    }
}

/// Reads a run folder's `metrics.jsonl`. An incomplete last line, which a killed process leaves, is
/// skipped. If there is no such file, the result is empty.
///
/// # Errors
///
/// If the file cannot be read, or if a line is damaged. The message names the file and the line.
pub fn read_metrics(folder: &Path) -> Result<Vec<MetricsLine>, UsageError> {
    read_lines(folder, |_, _| true)
}

/// Reads the evaluations of `metrics.jsonl` and its last three lines, which include the last step
/// if there was one.
///
/// The other lines are skipped, because parsing all lines of a long run takes long.
///
/// # Errors
///
/// The same as those of [`read_metrics`], for the lines that are read.
pub(super) fn read_evaluations(folder: &Path) -> Result<Vec<MetricsLine>, UsageError> {
    let name = b"\"valid_loss\"";
    let is_evaluation = |line: &[u8]| line.windows(name.len()).any(|part| part == name);
    // The last three lines may be a step, its evaluation, and an incomplete line.
    read_lines(folder, |line, left| left < 3 || is_evaluation(line))
}

/// A line of `metrics.jsonl`: the number of the line, counted from 1, the step, and all fields.
pub type NumberedLine = (usize, u64, Map<String, Value>);

/// Parses the content of a `metrics.jsonl`. Skips lines that have no step. Also skips an incomplete
/// last line.
///
/// # Errors
///
/// If a line is not a JSON object. The message names the line.
pub fn parse_metrics(text: &[u8]) -> Result<Vec<NumberedLine>, String> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.split_inclusive(|&byte| byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let fields: Map<String, Value> = match serde_json::from_slice(line) {
            Ok(fields) => fields,
            Err(_) if !line.ends_with(b"\n") => break,
            Err(error) => {
                let what = "is damaged, must be a JSON object";
                return Err(format!("line {number} {what} ({error})"));
            }
        };
        if let Some(step) = fields.get("step").and_then(Value::as_u64) {
            lines.push((number, step, fields));
        }
    }
    Ok(lines)
}

/// Parses a line; `None` if it is not a JSON object with a step.
pub(super) fn parse_line(line: &[u8]) -> Option<MetricsLine> {
    serde_json::from_slice(line).ok().and_then(MetricsLine::of)
}

/// Reads the lines for which `is_wanted` returns true, given the line and the number of lines after
/// it.
fn read_lines(
    folder: &Path,
    is_wanted: impl Fn(&[u8], usize) -> bool,
) -> Result<Vec<MetricsLine>, UsageError> {
    let path = folder.join(METRICS);
    let text = match read_regular(&path, u64::MAX >> 20) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unusable(&path, format!("cannot be read ({error})"))),
    };
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

    #[test]
    fn lines_of_all_versions_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(METRICS);
        assert_eq!(read_metrics(folder.path()), Ok(Vec::new()));
        let old = r#"{"step":1,"loss":2.5,"learning_rate":0.1,"gradient_norm":1.0,"tokens":8}"#;
        let new = r#"{"step":2,"loss":null,"seconds":0.5,"tokens_per_second":9.5}"#;
        let evaluation = r#"{"step":2,"seconds":0.5,"valid_loss":1.5,"exact_match":null}"#;
        fs::write(&path, format!("{old}\n{new}\n\n{evaluation}\n{{\"st")).unwrap();
        let lines = read_metrics(folder.path()).unwrap();
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[0].step, lines[0].seconds), (1, None));
        assert_eq!(lines[0].number("loss"), Some(2.5));
        assert_eq!(lines[0].number("tokens_per_second"), None);
        assert_eq!((lines[1].step, lines[1].seconds), (2, Some(0.5)));
        assert!(lines[1].number("loss").unwrap().is_nan());
        assert!(!lines[1].is_evaluation() && lines[2].is_evaluation());
        assert_eq!(lines[2].number("exact_match"), None);
        let all = format!("{old}\n{evaluation}\n{old}\n{new}\n{evaluation}\n{{\"st");
        fs::write(&path, all).unwrap();
        let steps = |lines: Vec<MetricsLine>| -> Vec<(usize, bool)> {
            let of = |line: &MetricsLine| (line.step, line.is_evaluation());
            lines.iter().map(of).collect()
        };
        assert_eq!(steps(read_metrics(folder.path()).unwrap()).len(), 5);
        let expected = [(2, true), (2, false), (2, true)];
        assert_eq!(steps(read_evaluations(folder.path()).unwrap()), expected);
        for damaged in ["{}", "[1]", "x", r#"{"step":-1}"#] {
            fs::write(&path, format!("{old}\n{damaged}\n")).unwrap();
            let error = read_metrics(folder.path()).unwrap_err().to_string();
            assert!(
                error.contains("metrics.jsonl: line 2 is damaged"),
                "{error}"
            );
        }
    }
}
