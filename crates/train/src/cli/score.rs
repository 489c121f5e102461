//! Flags of `score`.

use std::path::PathBuf;

use clap::Args;

use crate::metric::Tokenizer;

/// Flags of `score`.
#[derive(Clone, Debug, Args)]
pub struct ScoreArgs {
    /// What a model wrote, a segment a line; - for standard input
    pub hypotheses: PathBuf,
    /// What it should have written, a segment a line
    pub references: PathBuf,
    /// How BLEU takes texts apart
    #[arg(long, default_value = "13a")]
    pub tokenize: Tokenizer,
    /// Do not tell capital letters from small ones
    #[arg(long)]
    pub lower_case: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
