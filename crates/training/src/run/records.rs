//! Records that a run writes to `metrics.jsonl` and `summary.json`.

use serde::{Serialize, Serializer};

use super::environment::Environment;
use crate::config::BestBy;
use crate::data::{Split, TextScores};
use crate::evaluation::Scores;

/// A line of `metrics.jsonl`: one training step.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StepMetrics {
    /// Number of the step, counted from 1.
    pub step: usize,
    /// Mean loss per token, in nats, without label smoothing.
    pub loss: f32,
    /// Learning rate.
    pub learning_rate: f64,
    /// Global gradient norm before clipping.
    pub gradient_norm: f32,
    /// Number of target tokens, without padding.
    pub tokens: usize,
    /// Fraction of padding among all positions of sources and labels.
    pub padding: f32,
    /// Seconds of training since the run began, including those before it was last resumed, but
    /// without evaluations.
    #[serde(serialize_with = "four_decimals")]
    pub seconds: f64,
    /// Target tokens per second, without padding: the mean over the steps (at most ten) whose
    /// losses were read from the device together.
    #[serde(serialize_with = "one_decimal")]
    pub tokens_per_second: f64,
    /// Whether the step did not update the parameters because its gradients overflowed in f16.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// A line of `metrics.jsonl`: one evaluation on the validation split.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Evaluation {
    /// Number of steps taken before the evaluation.
    pub step: usize,
    /// Seconds of training since the run began, including those before it was last resumed, but
    /// without evaluations.
    #[serde(serialize_with = "four_decimals")]
    pub seconds: f64,
    /// Mean loss per token, in nats, without label smoothing.
    pub valid_loss: f64,
    /// Fraction of tokens whose most likely prediction is correct, given the correct tokens before
    /// them.
    pub token_accuracy: f64,
    /// Fraction of sequences whose greedily decoded output is correct; `None` if targets are texts,
    /// unless exact match decides which evaluation is the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_match: Option<f64>,
    /// BLEU and chrF, for texts only.
    #[serde(flatten)]
    pub texts: Option<TextScores>,
}

impl Evaluation {
    /// Returns the record of `scores` on the validation split, after `step` steps and `seconds`
    /// seconds of training. `by` is the metric that decides which evaluation is the best.
    pub fn new(step: usize, seconds: f64, scores: &Scores, by: BestBy) -> Self {
        let has_exact_match = scores.texts.is_none() || by == BestBy::ExactMatch;
        Self {
            step,
            seconds,
            valid_loss: scores.loss,
            token_accuracy: scores.token_accuracy,
            exact_match: has_exact_match.then_some(scores.exact_match),
            texts: scores.texts,
        }
    }
}

fn four_decimals<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 1e4).round() / 1e4)
}

fn one_decimal<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((value * 10.0).round() / 10.0)
}

/// Contents of `summary.json`: the results of a finished run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Name of the task.
    pub task: String,
    /// Name of the backend.
    pub backend: String,
    /// Number of parameters.
    pub parameters: usize,
    /// Number of training steps.
    pub steps: usize,
    /// Step of the run's model, which the scores are of.
    pub model_step: usize,
    /// Seconds of training, without evaluations.
    pub train_seconds: f64,
    /// Split on which the trained model was scored: validation if the data set has no test split.
    pub split: Split,
    /// Number of sequences of that split that were scored.
    pub sequences: usize,
    /// Fraction of these sequences whose greedily decoded output is correct.
    pub exact_match: f64,
    /// Fraction of their target tokens whose most likely prediction is correct, given the correct
    /// tokens before them.
    pub token_accuracy: f64,
    /// Mean loss per token on the validation split, in nats, without label smoothing.
    pub valid_loss: f64,
    /// BLEU and chrF, for texts only.
    #[serde(flatten)]
    pub texts: Option<TextScores>,
    /// Fraction of the training time that was spent waiting for data.
    pub data_wait: f64,
    /// Number of processes that trained together.
    pub processes: usize,
    /// Fraction of the training time in which rank 0 exchanged gradients and parameters with the
    /// other processes, or waited for them; `None` for a single process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub communication: Option<f64>,
    /// Target tokens per second of training, without padding.
    pub tokens_per_second: f64,
    /// Maximum resident memory of the process in bytes; `None` on systems other than Linux.
    pub peak_rss_bytes: Option<u64>,
    /// Seed of the run.
    pub seed: u64,
    /// Why training ended.
    pub reason: Option<String>,
    /// Date and time in UTC when the run finished, in RFC 3339 format.
    pub date: String,
    /// Environment of the process that finished the run.
    #[serde(flatten)]
    pub environment: Environment,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_has_exact_match_or_scores_of_texts() {
        let mut scores = Scores {
            loss: 1.5,
            token_accuracy: 0.25,
            exact_match: 0.5,
            texts: None,
        };
        let json = |scores: &Scores, by| {
            serde_json::to_string(&Evaluation::new(7, 1.0 / 3.0, scores, by)).unwrap()
        };
        assert_eq!(
            json(&scores, BestBy::Loss),
            r#"{"step":7,"seconds":0.3333,"valid_loss":1.5,"token_accuracy":0.25,"exact_match":0.5}"#
        );
        scores.texts = Some(TextScores {
            bleu: 30.0,
            chrf: 60.0,
        });
        assert_eq!(
            json(&scores, BestBy::Bleu),
            r#"{"step":7,"seconds":0.3333,"valid_loss":1.5,"token_accuracy":0.25,"bleu":30.0,"chrf":60.0}"#
        );
        assert!(json(&scores, BestBy::ExactMatch).contains(r#""exact_match":0.5,"bleu""#));
    }
}
