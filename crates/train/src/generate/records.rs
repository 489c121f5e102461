//! What `--json` writes.

use anyhow::Result;
use serde::Serialize;

use super::Alignment;

/// `--json`: the targets of a line.
#[derive(Serialize)]
pub(super) struct Targets {
    pub(super) line: u64,
    pub(super) source: String,
    pub(super) hypotheses: Vec<Target>,
}

#[derive(Serialize)]
pub(super) struct Target {
    pub(super) target: String,
    pub(super) score: f64,
    pub(super) log_probability: f64,
    pub(super) tokens: Vec<String>,
    pub(super) token_log_probabilities: Vec<f32>,
    pub(super) finished: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) alignment: Option<Alignment>,
}

/// `--json --score`: the score of a line; none where the line is blank.
#[derive(Serialize)]
pub(super) struct Score {
    pub(super) line: u64,
    pub(super) source: String,
    pub(super) target: String,
    pub(super) log_probability: Option<f64>,
    pub(super) tokens: Vec<String>,
    pub(super) token_log_probabilities: Vec<f32>,
}

/// `--json --keep-going`: a wrong line.
#[derive(Serialize)]
pub(super) struct Refused {
    pub(super) line: u64,
    pub(super) error: String,
}

/// One line.
pub(super) fn to_line(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(value)? + "\n")
}
