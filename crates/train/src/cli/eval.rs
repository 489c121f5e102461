//! Flags of `eval`.

use std::path::PathBuf;

use crate::checkpoint::Which;
use clap::{Args, ValueEnum};

use super::lengths::LengthArgs;
use super::search::BeamArgs;
use super::text::{Fields, fields};
use super::whole_number;
use crate::metric::Tokenizer;
use crate::task::Split;

/// Sequences that no run trains on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HeldOut {
    /// What was looked at during training
    Validation,
    /// What was decoded at its end
    Test,
}

impl From<HeldOut> for Split {
    fn from(split: HeldOut) -> Self {
        match split {
            HeldOut::Validation => Self::Validation,
            HeldOut::Test => Self::Test,
        }
    }
}

/// Flags of `eval`.
#[derive(Clone, Debug, Args)]
pub struct EvalArgs {
    /// Folder of a run
    pub run: PathBuf,
    /// Which checkpoint: last, best, the number of a step, or average:K of the last K
    #[arg(long, value_name = "WHICH", default_value = "last")]
    pub checkpoint: Which,
    /// Backend and device, `NAME` or `NAME:INDEX` [default: see `train backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// Texts to translate, one a line; of --task text [default: the run's own for validation]
    #[arg(long, value_name = "FILE", requires = "target")]
    pub source: Option<PathBuf>,
    /// Their translations, line by line, which the model's are scored by
    #[arg(long, value_name = "FILE", requires = "source")]
    pub target: Option<PathBuf>,
    /// Both in one file: lines `SOURCE<TAB>TARGET`, or JSON Lines with the run's fields
    #[arg(long, value_name = "FILE", conflicts_with = "source")]
    pub pairs: Option<PathBuf>,
    /// Fields of source and target in JSON Lines [default: the run's]
    #[arg(long, value_name = "SOURCE,TARGET", value_parser = fields, requires = "pairs")]
    pub fields: Option<Fields>,
    /// Replace bytes that are no UTF-8, instead of refusing them
    #[arg(long)]
    pub lossy: bool,
    /// Do not tell capital letters from small ones
    #[arg(long)]
    pub lower_case: bool,
    /// How BLEU takes texts apart
    #[arg(long, default_value = "13a")]
    pub tokenize: Tokenizer,
    /// Sequences to decode, as many as the run did; not of --task text
    #[arg(long, default_value = "test")]
    pub split: HeldOut,
    /// Sequences that are worked on together [default: as at the end of training]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub batch_size: Option<usize>,
    /// Flags of a beam search.
    #[command(flatten)]
    pub beam: BeamArgs,
    /// What is reported by length, instead of the run's own sequences.
    #[command(flatten)]
    pub lengths: LengthArgs,
    /// Round the matrices of the linear layers to eight bits first
    #[arg(long, conflicts_with = "eval_lengths")]
    pub int8: bool,
    /// Print one JSON object, or one for each length
    #[arg(long)]
    pub json: bool,
}
