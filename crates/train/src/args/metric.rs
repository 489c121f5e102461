//! Flags about the comparison of texts.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use training::metrics::Tokenizer;

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
