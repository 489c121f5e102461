//! Flags of `score`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use training::metrics::Tokenizer;

/// Flags of `score`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
With several references, BLEU counts the matches of an n-gram up to its largest count in any reference, and its brevity penalty uses the reference length closest to that of the output. chrF uses the reference with the best score, and the error rates use the one with the fewest edits. All files have the same number of lines.")]
pub struct ScoreArgs {
    /// File of a model's outputs, one segment per line; - for standard input
    pub hypotheses: PathBuf,
    /// File of the references, one segment per line; several files for several references of each
    /// segment
    #[arg(required = true, num_args = 1..)]
    pub references: Vec<PathBuf>,
    #[command(flatten)]
    pub metric: MetricArgs,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// Flags about the comparison of texts.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct MetricArgs {
    /// BLEU tokenisation: that of mteval-v13a, or none for texts that are tokenised already
    #[arg(long, default_value = "13a", value_parser = bleu_tokenizer())]
    pub tokenize: Tokenizer,
    /// Ignore case
    #[arg(long)]
    pub lower_case: bool,
}

fn bleu_tokenizer() -> impl TypedValueParser<Value = Tokenizer> {
    PossibleValuesParser::new(Tokenizer::ALL.map(Tokenizer::name)).map(|name| {
        let found = Tokenizer::ALL.into_iter().find(|one| one.name() == name);
        found.expect("clap checks the name")
    })
}
