//! The program's commands.

use clap::{Parser, Subcommand};

use super::bench::BenchArgs;
use super::eval::EvalArgs;
use super::fit::FitArgs;
use super::generate::GenerateArgs;
use super::output::OutputArgs;
use super::plot::PlotArgs;
use super::report::ReportArgs;
use super::resume::ResumeArgs;
use super::score::ScoreArgs;
use super::tokenize::TokenizeArgs;
use super::weights::{ExportArgs, ImportArgs, InspectArgs};

/// Trains Transformers on any Burn backend. Without a command: trains the copy task.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// The command; `None` for `fit`.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Flags of every command.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Flags of `fit`, which need no command.
    #[command(flatten)]
    pub fit: FitArgs,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a model, then test it on unseen sequences
    Fit(Box<FitArgs>),
    /// Resume a stopped run
    Resume(ResumeArgs),
    /// Generate an output for each input line
    Generate(Box<GenerateArgs>),
    /// Evaluate a trained model on unseen sequences
    Eval(EvalArgs),
    /// Score texts against references: BLEU, chrF, error rates
    Score(ScoreArgs),
    /// Turn lines of text into tokens by a run's tokeniser, and back
    Tokenize(TokenizeArgs),
    /// Plot a run's curves and attention, as SVG and PNG
    Plot(PlotArgs),
    /// Write runs as one HTML page: curves, attention, samples, settings
    Report(ReportArgs),
    /// Import weights from PyTorch, or from a file of an earlier import
    Import(Box<ImportArgs>),
    /// Export a model's weights so that PyTorch's classes load them
    Export(ExportArgs),
    /// List the contents of a file of weights, and its layout
    Inspect(InspectArgs),
    /// Measure how fast this machine and backend are
    Bench(BenchArgs),
    /// List the backends of this build
    Backends,
    /// Print the help of all commands as Markdown, which is docs/command-line.md
    #[command(hide = true)]
    MarkdownHelp,
}

/// Returns clap's message as one line: the mistake, the expected value, and the help to read.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    let words = usage.unwrap_or("train").split(' ');
    let command = words.take_while(|word| !word.starts_with(['-', '[', '<']));
    let command = command.collect::<Vec<_>>().join(" ");
    let lines = text.lines().map(str::trim);
    let lines = lines.take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let message = lines.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
    format!("{message}; see `{command} --help`")
}
