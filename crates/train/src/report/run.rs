//! What the page shows of a run, besides its curves.

use serde::Serialize;
use serde_json::Value;
use training::run::{RunData, quoted};
use training::setting::shown;

use super::examples::Examined;
use crate::metric;
use crate::number::{bytes, grouped, seconds};

/// What the page shows of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// Name that tells the run apart from other runs on the page.
    pub name: String,
    status: &'static str,
    reason: Option<String>,
    is_text: bool,
    /// Scores, size and progress.
    facts: Vec<Fact>,
    /// Names and values that say where and how the run was trained.
    environment: Vec<(String, String)>,
    examples: Option<Examined>,
    /// Sentences that say which data the page lacks, and why, or how to get them.
    pub notes: Vec<String>,
}

/// A fact about a run.
#[derive(Clone, Debug, Serialize)]
struct Fact {
    label: String,
    text: String,
    detail: String,
}

/// Scores that the page shows first, if a run has them.
const SCORES: &str = "test_bleu test_chrf test_exact_match valid_bleu valid_chrf valid_exact_match \
    valid_loss";

impl RunReport {
    /// Describes a run. `examined` has the outputs and attention weights for some examples, or says
    /// why they are missing.
    pub fn new(run: &RunData, name: String, examined: Result<Examined, String>) -> Self {
        let has_curves = !run.curves.get("learning_rate").is_empty();
        let has_evaluation = !run.curves.get("valid_loss").is_empty();
        let has_attention = examined.as_ref().is_ok_and(Examined::has_attention);
        let folder = quoted(&run.folder.display().to_string());
        let notes = [
            (!has_curves).then(|| "There are no curves: metrics.jsonl has no steps.".into()),
            (has_curves && !has_evaluation)
                .then(|| "There are no validation curves: the run has not been evaluated.".into()),
            (run.lengths.is_none() && !run.is_of_texts()).then(|| {
                format!("There is no exact match by length: `train eval {folder} --eval-lengths 1..32` measures it.")
            }),
            run.lengths_of().map(|of| format!("The exact match by length is that of {of}.")),
            run.results.is_empty().then(|| {
                "There are no scores of the trained model: only a run that finishes is tested.".into()
            }),
            (examined.is_ok() && !has_attention)
                .then(|| "There is no attention: all examples are too long to show it.".into()),
            examined.as_ref().err().map(|why| format!("There are no samples and no attention: {why}.")),
        ];
        let examples = examined.ok();
        Self {
            name,
            status: run.status.status.name(),
            reason: run.status.reason.clone(),
            is_text: run.is_of_texts(),
            facts: facts(run, examples.as_ref()),
            environment: environment(run),
            examples,
            notes: notes.into_iter().flatten().collect(),
        }
    }
}

fn facts(run: &RunData, examples: Option<&Examined>) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |label: &str, text: Option<String>, detail: Option<String>| {
        facts.push(Fact {
            label: label.into(),
            text: text.unwrap_or("–".into()),
            detail: detail.unwrap_or_default(),
        });
    };
    let sequences = run.results.get("sequences").and_then(Value::as_u64);
    let sequences = sequences.map(|count| format!("{} sequences", grouped(count)));
    for name in SCORES.split_whitespace() {
        let (split, field) = name.split_once('_').expect("a score has its split");
        // A good translation is rarely the same as its reference.
        let is_shown = !run.is_of_texts() || field != "exact_match";
        let Some(value) = run.metric(name).filter(|_| is_shown) else {
            continue;
        };
        let (split, detail) = match split {
            "test" => (split, sequences.clone()),
            _ => ("validation", None),
        };
        let label = match field {
            "loss" => field,
            _ => metric::label(field),
        };
        let text = metric::text(name, value);
        add(&format!("{split} {label}"), Some(text), detail);
    }
    if let Some(best) = run.best {
        let text = metric::named(best.field(), best.value);
        let step = format!("step {}", grouped(best.step));
        add("best evaluation", Some(text), Some(step));
    }
    add("task", Some(run.task().into()), None);
    let backend = run.config["execution"]["backend"].as_str();
    add("backend", backend.map(String::from), None);
    let counted = examples.map(|it| it.parameters as f64);
    let parameters = run.metric("parameters").or(counted);
    add("parameters", parameters.map(grouped), None);
    add("steps", Some(metric::steps(&run.status)), None);
    add("training time", run.metric("seconds").map(seconds), None);
    facts
}

/// Returns the measurements of the last process, and the environment of each process. Their names
/// have numbers if there are several.
fn environment(run: &RunData) -> Vec<(String, String)> {
    let result = |name: &str| run.results.get(name)?.as_f64();
    let mut found = Vec::new();
    let mut add = |name: &str, text: Option<String>| {
        found.extend(text.map(|text| (name.to_owned(), text)));
    };
    let date = run.results.get("date").and_then(Value::as_str);
    add("finished", date.map(String::from));
    let memory = result("peak_rss_bytes").map(|size| bytes(size as usize));
    add("peak memory", memory);
    let share = |share: f64| format!("{:.1} %", 100.0 * share);
    let waiting = result("data_wait").map(share);
    add("time spent waiting for data", waiting);
    add("time of communication", result("communication").map(share));
    let processes = result("processes").map(grouped);
    add("processes that trained together", processes);
    let rate = result("tokens_per_second").map(|rate| grouped(rate.round()));
    add("target tokens per second", rate);
    for (number, process) in (1..).zip(&run.environments) {
        let suffix = match run.environments.len() {
            1 => String::new(),
            _ => format!(", process {number}"),
        };
        let process = serde_json::to_value(process).expect("it is plain data");
        let facts = process.as_object().into_iter().flatten();
        for (name, value) in facts.filter(|(_, value)| !value.is_null()) {
            let name = name.replace('_', " ");
            add(&format!("{name}{suffix}"), Some(shown(value)));
        }
    }
    found
}
