//! Settings of evaluations: the section `evaluation` of a run's configuration.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::quote;
use crate::setting::{MANY, Tasks, choice, choices, custom, group, number, settings, whole};

settings! {
    /// Settings of evaluations, and of early stopping.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct EvaluationConfig in "evaluation." {
        /// Steps between evaluations on the validation split; without it 100, or for texts an epoch,
        /// but at most 5000.
        every: Option<usize> = None, whole(1, MANY).flag("--eval-every", "STEPS").may_change();
        /// Sequences of the validation split in an evaluation.
        validation_size: usize = 500, whole(1, 1_000_000);
        /// Test sequences that are decoded after training.
        test_size: usize = 1000, whole(1, 1_000_000).of(Tasks::Synthetic("use evaluation.validation_size")).may_change();
        /// Metric that decides which evaluation is the best, and so which checkpoint is the run's model;
        /// with --target, exact match decides.
        best_by: BestBy = BestBy::Loss, choice(BestBy::choices).rare_flag("--best-by", "METRIC");
        /// Exact match on the validation split at which training ends, such as 0.99.
        target: Option<f64> = None, number("an exact match above 0 and at most 1", |x| x > 0.0 && x <= 1.0)
            .flag("--target", "EXACT_MATCH").of(Tasks::Synthetic("texts have many correct outputs")).may_change();
        /// Stop after N evaluations without improvement.
        patience: Option<usize> = None, whole(1, MANY).flag("--patience", "N").may_change();
        /// Evaluation by length after training; `None` for no such evaluation.
        by_length: Option<LengthsConfig> = None, group::<LengthsConfig>().may_change();
    }
}

choices! {
    /// Metric that decides which evaluation is the best.
    pub enum BestBy {
        /// Smallest validation loss.
        Loss = "loss",
        /// Largest exact match on the validation split.
        ExactMatch = "exact_match",
        /// Largest BLEU on the validation split (text only).
        Bleu = "bleu",
    }
}

impl EvaluationConfig {
    /// Returns the metric that decides which evaluation is the best. If training ends at a target,
    /// this is exact match, so that the evaluation that reaches the target is the best one.
    pub fn decides(&self) -> BestBy {
        self.target.map_or(self.best_by, |_| BestBy::ExactMatch)
    }
}

impl BestBy {
    /// Returns the name of the metric's field in `metrics.jsonl`.
    pub fn field(self) -> &'static str {
        match self {
            Self::Loss => "valid_loss",
            Self::ExactMatch | Self::Bleu => self.name(),
        }
    }

    /// Returns how good `a` is compared with `b`: greater if it is better.
    pub fn compare(self, a: f64, b: f64) -> Ordering {
        // Differences beyond nine decimal places do not count.
        let [a, b] = [a, b].map(|x| (x * 1e9).round() + 0.0);
        match self {
            Self::Loss => b.total_cmp(&a),
            Self::ExactMatch | Self::Bleu => a.total_cmp(&b),
        }
    }
}

settings! {
    /// Settings of an evaluation by length.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct LengthsConfig in "evaluation.by_length." {
        /// Report exact match by length, such as 4,8,16 or 1..32, also beyond the lengths of training.
        ///
        /// The unit is that of the task, such as symbols or digits of the longer number.
        lengths: Vec<usize> = Vec::new(), custom(lengths).rare_flag("--eval-lengths", "LENGTHS").may_change();
        /// Maximum number of different sequences of each length of --eval-lengths.
        sequences: usize = 250, whole(1, 1_000_000).rare_flag("--sequences", "N").needs(Self::lengths, "").may_change();
    }
}

/// Maximum length in an evaluation by length. For a sequence of 10,000 tokens, the attention
/// weights of a single head take 400 MB in f32.
pub const MAX_LENGTH: usize = 10_000;

/// Reads lengths: an array of numbers, or a list such as `4,8,16` or `1..8,16` whose ranges include
/// both ends. Returns the lengths in increasing order and without repetitions.
fn lengths(value: &Value) -> Result<Value, String> {
    let number = |word: &str| -> Result<usize, String> {
        let number = word.trim().parse().map_err(|_| {
            let hint = "name some lengths, such as 4,8,16 or 1..32";
            format!("{} is not a length; {hint}", quote(word))
        })?;
        let is_valid = (1..=MAX_LENGTH).contains(&number);
        let expected = || format!("a length must be at least 1 and at most {MAX_LENGTH}");
        is_valid.then_some(number).ok_or_else(expected)
    };
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(lengths) if lengths.is_empty() => return Err("must name a length".into()),
        Value::Array(lengths) => {
            let lengths = lengths.iter().map(Value::to_string);
            lengths.collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    };
    let mut lengths = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!(
                "must begin with the shorter length: {last}..{first}"
            ));
        }
        lengths.extend(first..=last);
    }
    lengths.sort_unstable();
    lengths.dedup();
    Ok(lengths.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_lists_and_ranges() {
        let parse = |text| LengthsConfig::lengths.read_text(text);
        assert_eq!(parse("7").unwrap(), Value::from(vec![7]));
        assert_eq!(parse("[3, 2]").unwrap(), Value::from(vec![2, 3]));
        let mixed = parse("1..3, 2..5,32").unwrap();
        assert_eq!(mixed, Value::from(vec![1, 2, 3, 4, 5, 32]));
        for text in ["", "x", "1,,2", "4..", "1...4", "-1", "1-4", "1.5"] {
            let error = parse(text).unwrap_err();
            assert!(error.ends_with("such as 4,8,16 or 1..32"), "{error}");
        }
        for text in ["0", "0..4", "10001", "1..18446744073709551615"] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("at least 1 and at most 10000"), "{text}");
        }
        assert!(parse("8..4").unwrap_err().contains("4..8"));
        assert_eq!(parse("[]").unwrap_err(), "must name a length");
    }
}
