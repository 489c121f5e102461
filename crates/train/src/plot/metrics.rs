//! The curves of `metrics.jsonl`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::drawing::Point;
use crate::error::UsageError;

/// What a run wrote down, step by step. A loss that was not finite is NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Training loss, in nats a token.
    pub loss: Vec<Point>,
    /// Learning rate.
    pub learning_rate: Vec<Point>,
    /// Loss on the validation split, in nats a token.
    pub valid_loss: Vec<Point>,
    /// Share of that split's tokens that were predicted right.
    pub token_accuracy: Vec<Point>,
    /// Share of that split's sequences that were decoded just right.
    pub exact_match: Vec<Point>,
    /// BLEU of that split's texts.
    pub bleu: Vec<Point>,
    /// chrF of that split's texts.
    pub chrf: Vec<Point>,
}

impl Metrics {
    /// Reads `metrics.jsonl`. Where a step is there twice, the later line counts; what is not known
    /// is passed over, and so is a last line that was cut off.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or a line that is damaged; the message names them.
    pub fn read(path: &Path) -> Result<Self, UsageError> {
        let wrong = |what| UsageError::new("RUN", path.display(), what);
        let text =
            std::fs::read(path).map_err(|error| wrong(format!("cannot be read ({error})")))?;
        Self::parse(&text).map_err(wrong)
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        const NAMES: [&str; 7] = [
            "loss",
            "learning_rate",
            "valid_loss",
            "token_accuracy",
            "exact_match",
            "bleu",
            "chrf",
        ];
        let mut curves: [BTreeMap<u64, f64>; 7] = Default::default();
        let lines = text.split_inclusive(|&byte| byte == b'\n');
        for (number, line) in (1..).zip(lines) {
            let is_whole = line.ends_with(b"\n");
            if line.trim_ascii().is_empty() {
                continue;
            }
            let object: Map<String, Value> = match serde_json::from_slice(line) {
                Ok(object) => object,
                Err(_) if !is_whole => break,
                Err(error) => {
                    return Err(format!(
                        "line {number} is damaged, must be a JSON object ({error})"
                    ));
                }
            };
            let Some(step) = object.get("step").and_then(Value::as_u64) else {
                continue;
            };
            for (name, curve) in NAMES.iter().zip(&mut curves) {
                let value = match object.get(*name) {
                    None => continue,
                    Some(Value::Null) if name.ends_with("loss") => f64::NAN,
                    // Not measured.
                    Some(Value::Null) => continue,
                    Some(value) => value.as_f64().ok_or_else(|| {
                        format!("line {number} is damaged: its {name} must be a number or null")
                    })?,
                };
                curve.insert(step, value);
            }
        }
        let curves = curves.map(|curve| {
            let points: Vec<Point> = curve
                .into_iter()
                .map(|(step, value)| (step as f64, value))
                .collect();
            let is_known = points.iter().any(|(_, value)| value.is_finite());
            if is_known { points } else { Vec::new() }
        });
        let [
            loss,
            learning_rate,
            valid_loss,
            token_accuracy,
            exact_match,
            bleu,
            chrf,
        ] = curves;
        Ok(Self {
            loss,
            learning_rate,
            valid_loss,
            token_accuracy,
            exact_match,
            bleu,
            chrf,
        })
    }

    /// The last step that anything is known of.
    pub fn last_step(&self) -> f64 {
        let curves = [
            &self.loss,
            &self.learning_rate,
            &self.valid_loss,
            &self.token_accuracy,
            &self.exact_match,
        ];
        let last = curves.iter().filter_map(|curve| curve.last());
        last.map(|(step, _)| *step).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Metrics {
        Metrics::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn training_and_evaluations_are_told_apart_by_their_fields() {
        let metrics = parse(
            "{\"step\":1,\"loss\":3.5,\"learning_rate\":0.1,\"gradient_norm\":1.5,\"tokens\":7,\"new\":[1]}\n\
             {\"step\":2,\"loss\":3,\"learning_rate\":0.2,\"tokens\":8}\n\
             {\"step\":2,\"valid_loss\":3.1,\"token_accuracy\":0.25}\n\
             \n\
             {\"event\":\"resumed\"}\n\
             {\"step\":3,\"loss\":2.5,\"learning_rate\":0.1}\n\
             {\"step\":3,\"valid_loss\":2.9,\"token_accuracy\":0.5,\"exact_match\":0.125}\n",
        );
        assert_eq!(metrics.loss, [(1.0, 3.5), (2.0, 3.0), (3.0, 2.5)]);
        assert_eq!(metrics.learning_rate, [(1.0, 0.1), (2.0, 0.2), (3.0, 0.1)]);
        assert_eq!(metrics.valid_loss, [(2.0, 3.1), (3.0, 2.9)]);
        assert_eq!(metrics.token_accuracy, [(2.0, 0.25), (3.0, 0.5)]);
        assert_eq!(metrics.exact_match, [(3.0, 0.125)]);
        assert_eq!(metrics.last_step(), 3.0);
    }

    #[test]
    fn a_line_that_was_cut_off_is_passed_over_and_a_damaged_one_is_not() {
        let whole = "{\"step\":1,\"loss\":3.5}\n";
        let next = "{\"step\":2,\"loss\":2.5}";
        for length in 0..next.len() {
            let metrics = parse(&format!("{whole}{}", &next[..length]));
            assert_eq!(metrics.loss, [(1.0, 3.5)], "{length}");
        }
        assert_eq!(parse(&format!("{whole}{next}")).loss.len(), 2);
        let damaged = |text: &str| Metrics::parse(text.as_bytes()).unwrap_err();
        let error = damaged(&format!("{whole}{}\n{whole}", &next[..9]));
        assert!(error.starts_with("line 2 is damaged, must be"), "{error}");
        assert!(damaged("[1]\n").starts_with("line 1 is damaged"));
        assert!(damaged("{\"step\":1,\"loss\":\"x\"}\n").contains("its loss must be a number"));
        assert!(Metrics::parse(b"\xff\xfe\n").is_err());
    }

    #[test]
    fn losses_that_are_not_finite_are_gaps_and_repeated_steps_count_once() {
        let metrics =
            parse("{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":null}\n{\"step\":1,\"loss\":4}\n");
        assert_eq!(metrics.loss.len(), 2);
        assert_eq!(metrics.loss[0], (1.0, 4.0));
        assert!(metrics.loss[1].1.is_nan());
        let metrics = parse("{\"step\":1,\"loss\":null,\"exact_match\":null}\n");
        assert!(metrics.loss.is_empty() && metrics.exact_match.is_empty());
        assert_eq!(parse(""), Metrics::default());
    }
}
