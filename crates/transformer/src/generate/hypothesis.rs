//! The results of a search.

/// A generated target and its probability.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// Tokens with the forced prefix, without begin and end symbol.
    pub tokens: Vec<u32>,
    /// Log-probability of each token, followed by that of the end symbol if the target is finished.
    ///
    /// For the tokens of a forced prefix these are the model's. For the others they are those of
    /// the constrained distribution, in which banned tokens have probability 0, before
    /// temperature, `top_k` and `top_p`.
    pub token_log_probabilities: Vec<f32>,
    /// Sum of the log-probabilities.
    pub log_probability: f64,
    /// Log-probability divided by the length penalty; hypotheses are sorted by it.
    pub score: f64,
    /// Whether the target ends with the end symbol. Otherwise it reached its maximum length, every
    /// next token was banned, or the search was stopped.
    pub is_finished: bool,
}

/// The new token of one row in a step of a [`Search`](super::Search).
///
/// In greedy decoding and sampling, each row continues its own row of the previous step. In a beam
/// search several rows may continue the same row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepToken {
    /// Index of the source.
    pub source: usize,
    /// Index of the row of the previous step that this row continues, counted over all sources.
    pub parent: usize,
    /// The new token, which may be the end symbol.
    pub token: u32,
    /// Log-probability of the token, as in [`Hypothesis::token_log_probabilities`].
    pub log_probability: f32,
}
