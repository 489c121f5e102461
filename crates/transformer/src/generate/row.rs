//! The state of one target during a search.

use super::config::GenerateConfig;
use super::hypothesis::Hypothesis;

/// A target being decoded.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Index of the source, from 0.
    pub source: usize,
    /// Index, from 0, of the row that this row continues, among all rows before the latest step.
    /// Before the first step, it is the index of the source.
    pub parent: usize,
    /// Tokens so far, without the begin symbol.
    pub tokens: Vec<u32>,
    /// Log-probability of each token.
    pub token_log_probabilities: Vec<f32>,
    /// Sum of `token_log_probabilities`.
    pub log_probability: f64,
    /// Index of the sample within its source, from 0. `None` before the samples branch, and for
    /// methods other than sampling.
    pub sample: Option<u64>,
}

impl Row {
    /// Adds the log-probability of one more token.
    pub fn add(&mut self, log_probability: f32) {
        self.token_log_probabilities.push(log_probability);
        self.log_probability += f64::from(log_probability);
    }

    /// Turns the row into a hypothesis with its score, ended by the symbol `end_id` if there is one. A
    /// length penalty does not count the first `uncounted` tokens.
    pub fn into_hypothesis(
        self,
        config: &GenerateConfig,
        uncounted: usize,
        end_id: Option<u32>,
    ) -> Hypothesis {
        // A search that is stopped may have rows within their prefixes.
        let length = self.token_log_probabilities.len().saturating_sub(uncounted);
        Hypothesis {
            score: self.log_probability / config.length_penalty().divisor(length),
            tokens: self.tokens,
            token_log_probabilities: self.token_log_probabilities,
            log_probability: self.log_probability,
            end_id,
        }
    }
}
