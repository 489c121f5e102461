//! Flags about the comparison of texts.

use clap::Args;
use training::metrics::Tokenizer;

use super::parse::one_of;

/// Flags about the comparison of texts.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct MetricArgs {
    /// BLEU tokenisation: that of mteval-v13a, or none for texts that are tokenised already [default:
    /// 13a]
    #[arg(long, value_parser = one_of(Tokenizer::ALL.map(|one| (one.name(), one))))]
    pub tokenize: Option<Tokenizer>,
    /// Ignore case
    #[arg(long)]
    pub lower_case: bool,
}
