//! What a run folder's files hold.

use serde::Serialize;

/// A line of `metrics.jsonl`: one training step.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StepMetrics {
    /// Counted from 1.
    pub step: usize,
    /// Mean loss a token, in nats, with label smoothing.
    pub loss: f32,
    /// Learning rate.
    pub learning_rate: f64,
    /// Length of the gradient over all parameters, before clipping.
    pub gradient_norm: f32,
    /// Target tokens that are not padding.
    pub tokens: usize,
    /// Share of padding among the tokens of sources and targets.
    pub padding: f32,
    /// Whether the step changed nothing, since its gradients overflowed in f16.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// A line of `metrics.jsonl`: one evaluation on the validation split.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Evaluation {
    /// After this step.
    pub step: usize,
    /// Mean loss a token, in nats, without label smoothing.
    pub valid_loss: f64,
    /// Share of tokens that are the likeliest, given the right ones before them.
    pub token_accuracy: f64,
    /// Share of sequences that greedy decoding gets just right, where it was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_match: Option<f64>,
    /// BLEU of greedy decoding, where targets are texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bleu: Option<f64>,
    /// chrF of greedy decoding, where targets are texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chrf: Option<f64>,
}

/// What a run came to: `summary.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Name of the task.
    pub task: String,
    /// Name of the backend.
    pub backend: String,
    /// Number of parameters.
    pub parameters: usize,
    /// Training steps taken.
    pub steps: usize,
    /// Seconds spent on them, without evaluations.
    pub train_seconds: f64,
    /// Share of unseen sequences that greedy decoding gets just right.
    pub exact_match: f64,
    /// Number of those sequences.
    pub test_sequences: usize,
    /// Share of their tokens predicted right, given the right ones before.
    pub token_accuracy: f64,
    /// Mean loss a token on the validation split, in nats, without label smoothing.
    pub valid_loss: f64,
    /// BLEU of those sequences, where targets are texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bleu: Option<f64>,
    /// chrF of those sequences, where targets are texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chrf: Option<f64>,
    /// Share of the time of training that went by waiting for data, since it last began.
    pub data_wait: f64,
    /// Target tokens, without padding, a second of training.
    pub tokens_per_second: f64,
    /// The most memory that the process held, where the system tells (Linux).
    pub peak_rss_bytes: Option<u64>,
    /// Seed of the run.
    pub seed: u64,
    /// Version of this program.
    pub version: &'static str,
}
