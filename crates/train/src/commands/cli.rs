//! The program's commands.

use std::ffi::OsString;

use clap::{ArgAction, Parser, Subcommand};

use super::bench::BenchArgs;
use super::completions::CompletionsArgs;
use super::fit::{FitArgs, HINT};
use super::plot::PlotArgs;
use super::presets::PresetsArgs;
use super::report::ReportArgs;
use super::resume::ResumeArgs;
use super::runs::{CompareArgs, RunsArgs};
use super::score::ScoreArgs;
use super::tokenize::TokenizeArgs;
use super::weights::{ExportArgs, ImportArgs, InspectArgs};
use crate::args::{EvalArgs, GenerateArgs, GlobalArgs};
use crate::exit;

/// Train Transformers on any Burn backend, and use them
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 120,
    disable_help_flag = true,
    disable_version_flag = true,
    help_template = "{about}\n\n{usage-heading} {usage}\n\n{all-args}{after-help}",
    subcommand_help_heading = "Commands",
    after_help = "\
Examples:
  train                                 train the copy task, in some seconds
  train --task sort --steps 5000        flags without a command are those of fit
  train fit --train-source a.de --train-target a.en
  train generate runs/text-1 < new.de > new.en
`train COMMAND --help` describes a command; `train fit --help` has exit codes."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Flags that go with every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// Print the version
    #[arg(long, short = 'V', action = ArgAction::Version)]
    pub version: Option<bool>,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a model, then test it on unseen sequences
    #[command(after_long_help = format!("{HINT}\n\n{}", exit::help()))]
    Fit(Box<FitArgs>),
    /// Resume a stopped run
    #[command(after_long_help = exit::help())]
    Resume(ResumeArgs),
    /// Generate an output for each input line
    Generate(Box<GenerateArgs>),
    /// Evaluate a trained model on unseen sequences
    Eval(EvalArgs),
    /// Score texts against references: BLEU, chrF, error rates
    Score(ScoreArgs),
    /// Turn lines of text into tokens by a run's tokeniser, and back
    Tokenize(TokenizeArgs),
    /// Plot the curves and the attention of runs as SVG files
    Plot(PlotArgs),
    /// Write runs as one HTML page: curves, attention, settings
    Report(ReportArgs),
    /// List runs: what differs from the preset, steps, best metric, time
    Runs(RunsArgs),
    /// Compare runs: settings that differ, and metrics side by side
    Compare(CompareArgs),
    /// Import weights from PyTorch, or from a file of an earlier import
    Import(Box<ImportArgs>),
    /// Export a model's weights for PyTorch, or for the page in demo/
    Export(ExportArgs),
    /// List the contents of a file of weights, and its layout
    Inspect(InspectArgs),
    /// Measure how fast this machine and backend are
    Bench(BenchArgs),
    /// List the backends of this build
    Backends,
    /// List presets, or print one as a commented file for fit --config
    Presets(PresetsArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

impl Cli {
    /// Parses the words of a command line, without the program's name. Flags without a command
    /// belong to `fit`.
    ///
    /// # Errors
    ///
    /// A mistake in the command line, or a request for help or the version, which clap also returns
    /// as an error.
    pub fn parse_words(words: &[OsString]) -> Result<Self, clap::Error> {
        let program = OsString::from("train");
        Self::try_parse_from(std::iter::once(program).chain(complete(words).0))
    }
}

/// The flags before a command, and the command as it is.
#[derive(Parser)]
#[command(version, disable_help_flag = true, disable_version_flag = true)]
struct Leading {
    #[command(flatten)]
    _global: GlobalArgs,
    #[arg(long, short = 'V', action = ArgAction::Version)]
    _version: Option<bool>,
    #[command(subcommand)]
    command: Option<Any>,
}

#[derive(Subcommand)]
enum Any {
    #[command(external_subcommand)]
    Words(Vec<OsString>),
}

/// Inserts `fit` into a command line without a command that does not ask for help or the version.
/// Returns the words and the name of the command; `None` without one.
pub(super) fn complete(words: &[OsString]) -> (Vec<OsString>, Option<String>) {
    let mut words = words.to_vec();
    let program = OsString::from("train");
    match Leading::try_parse_from(std::iter::once(&program).chain(&words)) {
        Ok(Leading {
            command: Some(Any::Words(command)),
            ..
        }) => (words, Some(command[0].to_string_lossy().into())),
        Err(error) if !error.use_stderr() => (words, None),
        _ => {
            words.insert(0, "fit".into());
            (words, Some("fit".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_without_a_command_are_those_of_fit() {
        for (line, is_added, command) in [
            ("", true, Some("fit")),
            ("--task sort", true, Some("fit")),
            ("--run-dir runs", true, Some("fit")),
            ("--quiet --threads 2 --task sort", true, Some("fit")),
            ("--threads=2", true, Some("fit")),
            ("--threads", true, Some("fit")),
            ("-q eval runs/copy-1", false, Some("eval")),
            ("--threads 2 bench --wrong", false, Some("bench")),
            ("fly", false, Some("fly")),
            ("help fit", false, Some("help")),
            ("--help", false, None),
            ("-q --help", false, None),
            ("--version", false, None),
        ] {
            let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
            let (completed, name) = complete(&words);
            assert_eq!(completed.len() > words.len(), is_added, "{line}");
            assert_eq!(name.as_deref(), command, "{line}");
        }
    }
}
