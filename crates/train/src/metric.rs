//! How metrics are shown everywhere: their labels, colours and numbers.

use training::evaluation::rounded;
use training::run::{RunStatus, Status};

use crate::number::{grouped, seconds, short};

/// Fields of `metrics.jsonl`, with their labels and the numbers of their colours.
const METRICS: [(&str, &str, usize); 9] = [
    ("loss", "training", 0),
    ("valid_loss", "validation", 1),
    ("exact_match", "exact match", 2),
    ("token_accuracy", "token accuracy", 3),
    ("bleu", "BLEU", 2),
    ("chrf", "chrF", 3),
    ("learning_rate", "learning rate", 0),
    ("gradient_norm", "gradient norm", 0),
    ("tokens_per_second", "tokens per second", 0),
];

fn shown(field: &str) -> (&'static str, usize) {
    let found = METRICS.iter().find(|(known, ..)| *known == field);
    found.map_or(("", 0), |(_, label, color)| (*label, *color))
}

/// Returns the label of a metric that has a curve.
pub fn label(field: &str) -> &'static str {
    shown(field).0
}

/// Returns the number of a metric's colour.
pub fn color(field: &str) -> usize {
    shown(field).1
}

/// Formats the value of a metric. Only a perfect share, such as exact match, is shown as 1. The name may begin with `test_` and the like.
pub fn text(name: &str, value: f64) -> String {
    if name.ends_with("exact_match") || name.ends_with("accuracy") {
        format!("{:.4}", rounded(value))
    } else if name.ends_with("bleu") || name.ends_with("chrf") {
        format!("{value:.2}")
    } else if name == "seconds" {
        seconds(value)
    } else {
        short(value)
    }
}

/// Returns the name and the value of a metric of evaluations: `loss 0.1235`, `exact match 0.7500`,
/// `BLEU 31.42`.
pub fn named(field: &str, value: f64) -> String {
    let label = match field {
        "valid_loss" => "loss",
        _ => label(field),
    };
    format!("{label} {}", text(field, value))
}

/// Returns the number of steps taken and, if there are more, the number of all steps. Imported
/// weights have none to come.
pub fn steps(status: &RunStatus) -> String {
    match (status.step, status.steps) {
        (0, _) if status.status == Status::Imported => "-".into(),
        (step, steps) if step == steps => grouped(step),
        (step, steps) => format!("{}/{}", grouped(step), grouped(steps)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_a_label_and_numbers_of_their_kind() {
        assert_eq!(named("valid_loss", 0.000_031_2), "loss 3.12e-5");
        assert_eq!(named("exact_match", 0.999_99), "exact match 0.9999");
        assert_eq!(named("exact_match", 0.176_06), "exact match 0.1761");
        assert_eq!(named("bleu", 31.416), "BLEU 31.42");
        assert_eq!(text("test_exact_match", 1.0), "1.0000");
        for (field, _) in training::run::CURVES {
            assert!(!label(field).is_empty(), "{field}");
        }
    }
}
