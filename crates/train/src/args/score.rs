//! Flags of `score`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::TypedValueParser;
use training::metrics::Tokenizer;

use super::parse::{described, parser};
use super::values::BLEU_TOKENIZER;

/// Flags of `score`.
#[derive(Clone, Debug, Args)]
pub struct ScoreArgs {
    /// File of a model's outputs, one segment per line; - for standard input
    pub hypotheses: PathBuf,
    /// File of the references, one segment per line
    pub references: PathBuf,
    /// Flags about the comparison of texts.
    #[command(flatten)]
    pub metric: MetricArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Flags about the comparison of texts.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct MetricArgs {
    /// BLEU tokenisation
    #[arg(long, default_value = "13a", value_parser = bleu_tokenizer())]
    pub tokenize: Tokenizer,
    /// Ignore case
    #[arg(long)]
    pub lower_case: bool,
}

fn bleu_tokenizer() -> impl TypedValueParser<Value = Tokenizer> {
    parser(described(BLEU_TOKENIZER), |name| {
        let found = Tokenizer::ALL.into_iter().find(|one| one.name() == name);
        found.expect("clap checks the name")
    })
}
