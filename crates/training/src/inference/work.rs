//! What a predictor does with the lines of its input.

use transformer::generate::{GenerateConfig, Method};

/// What is done with each line.
#[derive(Clone, Debug)]
pub enum Work {
    /// Generates outputs for the source on a line.
    Generate(Generation),
    /// Scores the target on a line `SOURCE<TAB>TARGET`.
    Score,
}

/// Settings of a generation.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Decoding settings. The `first_source` of sampling is ignored: the number of a line decides.
    pub config: GenerateConfig,
    /// Token ids that every output begins with.
    pub prefix: Vec<u32>,
    /// Whether the records in JSON have the cross-attention of each token.
    pub alignments: bool,
    /// Whether sources that are longer than those of training may have outputs of more than
    /// `config.max_length` tokens.
    pub extends: bool,
}

impl Generation {
    /// Returns the decoding settings of a batch whose first source is on this line, with outputs of
    /// at most `max_length` tokens.
    pub(super) fn config_at(&self, line: u64, max_length: usize) -> GenerateConfig {
        let mut config = self.config.clone();
        config.max_length = max_length;
        if let Method::Sample { first_source, .. } = &mut config.method {
            *first_source = line - 1;
        }
        config
    }

    /// Whether tokens are drawn at random.
    pub(super) fn is_sampled(&self) -> bool {
        matches!(self.config.method, Method::Sample { .. })
    }
}
