//! The results of a search.

/// A generated target and its probability.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hypothesis {
    /// Tokens of the target, including a forced prefix, without begin and end symbol.
    pub tokens: Vec<u32>,
    /// Log-probability of each token in nats, including the end symbol if there is one.
    ///
    /// Tokens of a forced prefix have probability 1. For all other tokens, the constraints are
    /// applied to the distribution first, so that banned tokens have probability 0. Temperature,
    /// `top_k` and `top_p` have no effect on the log-probabilities.
    pub token_log_probabilities: Vec<f32>,
    /// Sum of `token_log_probabilities`.
    pub log_probability: f64,
    /// `log_probability` divided by the length penalty. Hypotheses are sorted by their scores.
    pub score: f64,
    /// The end symbol that ended the target: `eos_id` or one of `stop_ids`. `None` if the target reached
    /// its maximum length, every next token was banned, or the search was stopped.
    pub end_id: Option<u32>,
}

/// The new token of one row in a step of a [`Search`](super::Search).
///
/// A row is a target being decoded. In a beam search, several rows may continue the same row of the
/// previous step. The samples of a source all continue the same row at the step where they branch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepToken {
    /// Index of the source in the batch, from 0.
    pub source: usize,
    /// Index, from 0, of the row to which the token is appended, among all rows that were
    /// unfinished before this step. Before the first step, there is one row per source.
    pub parent: usize,
    /// The new token, which may be the end symbol.
    pub token: u32,
    /// Log-probability of the token, as in [`Hypothesis::token_log_probabilities`].
    pub log_probability: f32,
}
