//! What a search finds.

/// A target, with its probability.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// The tokens, a forced prefix included, without begin and end symbol.
    pub tokens: Vec<u32>,
    /// Log-probability of each token, and after them that of the end symbol if it was reached.
    /// They are the model's own for the tokens of a forced prefix, and for the others those of
    /// what the search was allowed to choose from (forbidden tokens have no share), before
    /// temperature, `top_k` and `top_p`.
    pub token_log_probabilities: Vec<f32>,
    /// Their sum.
    pub log_probability: f64,
    /// The log-probability over the length penalty: what hypotheses are sorted by.
    pub score: f64,
    /// Whether the end symbol was reached; otherwise `max_length` was, or the search was stopped.
    pub is_finished: bool,
}

/// One row's new token: what a [`Search`](super::Search) yields, step by step.
///
/// Where the method is greedy decoding or sampling, a row goes on from the same row; in a beam,
/// several may go on from one, and others end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepToken {
    /// Which source this is a target of.
    pub source: usize,
    /// The row of the step before that this one goes on from, counted over all sources.
    pub parent: usize,
    /// The new token; the end symbol too.
    pub token: u32,
    /// Its log-probability, as in [`Hypothesis::token_log_probabilities`].
    pub log_probability: f32,
}
