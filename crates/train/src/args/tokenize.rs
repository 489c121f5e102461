//! Flags of `tokenize`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::input::InputArgs;
use super::run_folder::run_folder;

/// Flags of `tokenize`.
#[derive(Clone, Debug, Args)]
pub struct TokenizeArgs {
    /// Folder of a run, `latest`, or a tokenizer.json
    #[arg(value_name = "TOKENIZER", value_parser = run_folder())]
    pub tokenizer: PathBuf,
    /// Tokeniser of the run to use [default: source]
    #[arg(long)]
    pub side: Option<Side>,
    /// Print the ids of tokens instead of their names; with --decode, read ids
    #[arg(long)]
    pub ids: bool,
    /// Turn lines of tokens, separated by blanks, back into text
    #[arg(long)]
    pub decode: bool,
    #[command(flatten)]
    pub input: InputArgs,
}

/// One of the two tokenisers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// The tokeniser of what the encoder reads
    Source,
    /// The tokeniser of what the decoder writes
    Target,
}
