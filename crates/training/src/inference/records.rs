//! Lines of results: records that are written as JSON, and texts.

use serde::Serialize;

/// Cross-attention weights: a row for each target token, with a weight for each source token.
pub(super) type Alignment = Vec<Vec<f32>>;

/// All outputs for one line of the input.
#[derive(Serialize)]
pub(super) struct Targets<'a> {
    pub(super) line: u64,
    pub(super) source: &'a str,
    pub(super) hypotheses: Vec<Target>,
}

/// One output, with its score and the log-probability of each of its tokens.
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

/// Score of the target on one line of the input. A blank line has no log-probabilities.
#[derive(Serialize)]
pub(super) struct Score<'a> {
    pub(super) line: u64,
    pub(super) source: &'a str,
    pub(super) target: String,
    pub(super) log_probability: Option<f64>,
    pub(super) tokens: Vec<String>,
    pub(super) token_log_probabilities: &'a [f32],
}

/// Returns a value as one line of JSON, including the line break.
pub(super) fn to_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it is plain data") + "\n"
}

/// Returns a text as one line: blanks replace its line breaks, those at which readers of files end a
/// line.
///
/// ```
/// assert_eq!(training::inference::one_line("a\nb\rc\u{2028}d\u{c}"), "a b c\u{2028}d\u{c}");
/// ```
pub fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
