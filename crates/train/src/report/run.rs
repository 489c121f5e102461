//! The data of a run that the page shows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use training::error::UsageError;
use training::evaluation::LengthScore;
use training::pretrained::is_pretrained;
use training::run::layout::{CONFIG, SUMMARY};
use training::run::{read_config_json, read_lengths, read_status, unusable};

use super::curve::{Curve, rounded};
use super::examples::Examined;
use super::facts::Facts;
use super::metrics::Metrics;
use crate::plot::readings;

/// Fields of `metrics.jsonl` that the page shows as curves.
const CURVES: [&str; 9] = [
    "loss",
    "valid_loss",
    "token_accuracy",
    "exact_match",
    "bleu",
    "chrf",
    "learning_rate",
    "gradient_norm",
    THROUGHPUT,
];

const THROUGHPUT: &str = "tokens_per_second";

/// The data of a run that the page shows.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// Name that tells the run apart from other runs on the page.
    pub name: String,
    status: StatusText,
    #[serde(flatten)]
    facts: Facts,
    curves: BTreeMap<&'static str, Curve>,
    /// Curve of the training time: seconds by step. `None` if `metrics.jsonl` has no times.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_by_step: Option<Curve>,
    lengths: Vec<LengthScore>,
    examples: Option<Examined>,
    /// Sentences that say which data the page lacks, and why, or how to get them.
    notes: Vec<String>,
    #[serde(skip)]
    config: Value,
}

/// The status of a run, as the page shows it.
#[derive(Clone, Debug, Serialize)]
struct StatusText {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl RunReport {
    /// Reads the files of a run folder. If data are missing, the page gets a note.
    ///
    /// # Errors
    ///
    /// The folder is not a run folder, or its configuration, metrics, status or scores by length
    /// cannot be read. The message names the path.
    pub fn read(folder: &Path) -> Result<Self, UsageError> {
        if is_pretrained(folder) {
            let what = "is a Hugging Face model, not a run: `train import` makes a run of it";
            return Err(unusable(folder, what));
        }
        let config: Option<Value> = serde_json::from_slice(&read_config_json(folder)?).ok();
        let config = config
            .filter(Value::is_object)
            .ok_or_else(|| unusable(&folder.join(CONFIG), "is not the configuration of a run"))?;
        let metrics = Metrics::read(folder)?;
        let mut notes = Vec::new();
        let metrics = metrics.unwrap_or_else(|| {
            notes.push("There are no curves: the run has no metrics.jsonl.".into());
            Metrics::default()
        });
        let status = status(folder)?;
        let facts = Facts::of(folder, &config, &metrics);
        // The path `.` has no file name, so the name comes from the absolute path.
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.into());
        let name = whole.file_name().unwrap_or(whole.as_os_str());
        let name = name.to_string_lossy().into_owned();
        let curve = |field| {
            let points = match field {
                THROUGHPUT => Cow::Owned(readings(metrics.field(field))),
                field => Cow::Borrowed(metrics.field(field)),
            };
            (!points.is_empty()).then(|| (field, Curve::new(&points)))
        };
        let curves: BTreeMap<_, _> = CURVES.into_iter().filter_map(curve).collect();
        let seconds = metrics.field("seconds");
        let seconds_by_step = (!seconds.is_empty()).then(|| Curve::increasing(seconds));
        let lengths = read_lengths(folder)?.unwrap_or_default();
        if !curves.is_empty() && !curves.contains_key("valid_loss") {
            notes.push("There are no validation curves: the run has not been evaluated.".into());
        }
        if !curves.is_empty() && !curves.contains_key(THROUGHPUT) {
            let what = "There is no throughput: an earlier version of train wrote metrics.jsonl.";
            notes.push(what.into());
        }
        if lengths.is_empty() && facts.task != "text" {
            notes.push(format!(
                "There is no exact match by length: `train eval {} --eval-lengths 1..32` measures it.",
                folder.display()
            ));
        }
        if !folder.join(SUMMARY).exists() {
            let what = "There are no scores of the test split: the run has no summary.json, which \
                        it writes when training has ended.";
            notes.push(what.into());
        }
        Ok(Self {
            name,
            status,
            facts,
            curves,
            seconds_by_step,
            lengths: lengths.into_iter().map(shortened).collect(),
            examples: None,
            notes,
            config,
        })
    }

    /// Adds the outputs and attention weights for some examples, or a note that says why they are
    /// missing.
    pub fn add_examples(&mut self, examined: Result<Examined, String>) {
        match examined {
            Ok(examined) => {
                if !examined.has_attention() {
                    let what = "There is no attention: all examples are too long to show it.";
                    self.notes.push(what.into());
                }
                self.facts.parameters = self.facts.parameters.or(Some(examined.parameters));
                self.examples = Some(examined);
            }
            Err(why) => self
                .notes
                .push(format!("There are no samples and no attention: {why}.")),
        }
    }

    /// Returns the contents of `config.json`.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// Returns the notes on data that the page lacks, each a sentence.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

fn shortened(score: LengthScore) -> LengthScore {
    let short = |share: Option<f64>| share.map(|share| rounded(share, 4));
    LengthScore {
        exact_match: short(score.exact_match),
        token_accuracy: short(score.token_accuracy),
        ..score
    }
}

/// Returns the status of a run. A run of an earlier version of this program has no `status.json`.
/// Such a run counts as finished if it has a `summary.json`.
fn status(folder: &Path) -> Result<StatusText, UsageError> {
    let (name, reason) = match read_status(folder)? {
        Some(status) => (status.status.name(), status.reason),
        None if folder.join(SUMMARY).exists() => ("finished", None),
        None => ("not finished", None),
    };
    Ok(StatusText {
        name: name.into(),
        reason,
    })
}
