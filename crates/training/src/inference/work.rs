//! What a predictor does with each line of its input.

use transformer::generate::{GenerateConfig, Method};

/// What a predictor does with each line.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one value for a whole input"
)]
pub enum Work {
    /// Generates outputs for the source on a line.
    Generate(Generation),
    /// Scores the target on a line `SOURCE<TAB>TARGET`.
    Score,
}

/// Settings with which outputs are generated.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Decoding settings. `first_source` of sampling is ignored, because line numbers determine the
    /// random draws.
    pub config: GenerateConfig,
    /// Token ids that every output begins with.
    pub prefix: Vec<u32>,
    /// Whether JSON results include the cross-attention weights of each token.
    pub alignments: bool,
    /// Whether a long source may have an output of more than `config.max_length` tokens; see
    /// [`max_output`](crate::positions::max_output). Ignored if outputs have no end symbol.
    pub extends: bool,
}

impl Generation {
    /// Returns the decoding settings of a batch whose first source is on line number `line`.
    /// Outputs have at most `max_length` tokens.
    pub(super) fn config_at(&self, line: u64, max_length: usize) -> GenerateConfig {
        let mut config = self.config.clone();
        config.max_length = max_length;
        if let Method::Sample { first_source, .. } = &mut config.method {
            *first_source = line - 1;
        }
        config
    }
}
