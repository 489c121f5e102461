//! The command line.

mod eval;
mod fit;
mod generate;
mod lengths;
mod model;
mod plot;
mod score;
mod search;
mod task;
mod text;
mod training;
mod weights;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use eval::{EvalArgs, HeldOut};
pub use fit::{FitArgs, Preset, ScheduleKind};
pub use generate::GenerateArgs;
pub use lengths::{LengthArgs, Lengths, length_settings, lengths_of_text, of_any_length};
pub use model::{ActivationKind, Norm, PositionKind, Tying};
pub use plot::PlotArgs;
pub use score::ScoreArgs;
pub(crate) use search::needs;
pub use search::{BeamArgs, Penalty, check_batch_size, check_generation};
pub use task::{TaskArgs, TaskName};
pub use text::{Fields, TextArgs};
pub use training::{ResumeArgs, TrainingArgs};
pub use weights::{
    DtypeName, ExportArgs, ImportArgs, InspectArgs, LayoutName, ModelArgs, NameArgs,
};

use crate::error::UsageError;
use crate::fit::Precision;

/// Trains Transformers on any Burn backend. Without a command: trains the copy task.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do; `fit` if nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The flags of `fit`, which need no command.
    #[command(flatten)]
    pub fit: FitArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a model, then decode sequences that it has never seen
    Fit(Box<FitArgs>),
    /// Go on with a run that was stopped
    Resume(ResumeArgs),
    /// Make a target of each source, by a model that was trained
    Generate(Box<GenerateArgs>),
    /// Decode unseen sequences again, by a model that was trained
    Eval(EvalArgs),
    /// Score texts by references: BLEU, chrF, error rates
    Score(ScoreArgs),
    /// Draw a run's curves and attention, as SVG and PNG
    Plot(PlotArgs),
    /// Take over weights from PyTorch, or from a file of an earlier import
    Import(Box<ImportArgs>),
    /// Write a model's weights so that PyTorch's classes load them
    Export(ExportArgs),
    /// List what a file of weights holds, and whose names they are
    Inspect(InspectArgs),
    /// Measure how fast this machine and backend are
    Bench(BenchArgs),
    /// List the backends of this build
    Backends,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Measured {
    /// Targets from sources, by random weights, of a fixed length
    Generate,
    /// Training steps with dropout 0.1 and Adam
    Train,
}

/// Models of a size that others measure, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// d_model 64, 2 layers a side, 16 tokens, batch 32, length 16
    Tiny,
    /// The Annotated Transformer's copy task: d_model 512, 2 layers, 11 tokens, batch 80, length 10
    Copy,
    /// The paper's base model: d_model 512, 6 layers, 10000 tokens, batch 16, length 64
    Base,
    /// For an accelerator: d_model 1024, 6 layers, 32000 tokens, batch 32, length 128
    Big,
}

/// Flags of `bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// What to measure
    #[arg(long, default_value = "generate")]
    pub what: Measured,
    /// On which model [default: all of them but big]
    #[arg(long)]
    pub shape: Option<Shape>,
    /// Sequences at a time [default: the shape's own batch; generate: 1, too]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub batch_size: Option<usize>,
    /// Width of the beam, 1 for greedy decoding; of generate [default: 1, and 5]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub beam: Option<usize>,
    /// Tokens of every source and target [default: the shape's own]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub length: Option<usize>,
    /// Layers of the encoder, and of the decoder [default: the shape's own]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub layers: Option<usize>,
    /// Backend and device, `NAME` or `NAME:INDEX` [default: see `train backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// What the model computes with; of train
    #[arg(long)]
    pub precision: Option<Precision>,
    /// No fast paths: every operation as the backend has it
    #[arg(long)]
    pub no_fused: bool,
    /// Print what each kind of operation takes, too; of train
    #[arg(long)]
    pub operations: bool,
    /// Measure every backend of this build
    #[arg(long, conflicts_with = "backend")]
    pub all: bool,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Refuses a flag that was given.
fn refuse(
    flag: &str,
    value: Option<impl std::fmt::Display>,
    expected: &str,
) -> Result<(), UsageError> {
    value.map_or(Ok(()), |value| Err(UsageError::new(flag, value, expected)))
}

fn whole_number(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| "must be a whole number, written in digits".into())
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("must be a whole number from 0 to {}", u64::MAX))
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

/// Puts clap's message into one line: what is wrong, what would be right, and where to read on.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    let command: Vec<&str> = usage
        .unwrap_or("train")
        .split(' ')
        .take_while(|word| !word.starts_with(['-', '[', '<']))
        .collect();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:"))
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let message = lines.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    format!("{message}; see `{} --help`", command.join(" "))
}
