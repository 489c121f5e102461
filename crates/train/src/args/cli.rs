//! The program's commands.

use std::ffi::OsString;

use clap::{Arg, ArgAction, CommandFactory, Parser, Subcommand};

use super::bench::BenchArgs;
use super::completions::CompletionsArgs;
use super::eval::EvalArgs;
use super::fit::{FitArgs, HINT};
use super::generate::GenerateArgs;
use super::global::GlobalArgs;
use super::plot::PlotArgs;
use super::presets::PresetsArgs;
use super::report::ReportArgs;
use super::resume::ResumeArgs;
use super::runs::{CompareArgs, RunsArgs};
use super::score::ScoreArgs;
use super::tokenize::TokenizeArgs;
use super::weights::{ExportArgs, ImportArgs, InspectArgs};
use crate::exit;

/// Train Transformers on any Burn backend, and use them
#[derive(Debug, Parser)]
#[command(
    version,
    max_term_width = 120,
    disable_help_flag = true,
    disable_help_subcommand = true,
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

/// Inserts `fit` into a command line that has a flag, or nothing, in place of a command, unless
/// this flag asks for help or the version. Turns `help COMMAND` into `COMMAND --help`. Returns the
/// words and the index of the command among them.
pub(super) fn complete(words: &[OsString]) -> (Vec<OsString>, usize) {
    let mut words = words.to_vec();
    let at = leading_global_flags(&words);
    if words.get(at).is_some_and(|word| word == "help") {
        words.remove(at);
        let command = words.get(at).map(|word| word.to_string_lossy());
        let has_command = command.is_some_and(|word| !word.starts_with('-'));
        words.insert(at + usize::from(has_command), "--help".into());
    }
    let is_complete = words.get(at).is_some_and(|word| {
        let word = word.to_string_lossy();
        !word.starts_with('-') || ["-h", "--help", "-V", "--version"].contains(&word.as_ref())
    });
    if !is_complete {
        words.insert(at, "fit".into());
    }
    (words, at)
}

/// Returns the number of words before the command: flags that every command has, and the values of
/// such flags.
fn leading_global_flags(words: &[OsString]) -> usize {
    let cli = Cli::command();
    let mut count = 0;
    while let Some(word) = words.get(count).map(|word| word.to_string_lossy()) {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (word.as_ref(), None),
        };
        let is_flag = |arg: &&Arg| {
            let long = flag.strip_prefix("--").map(Some) == Some(arg.get_long());
            let short = arg.get_short().map(|short| format!("-{short}"));
            (long || short.as_deref() == Some(flag))
                && !["help", "version"].contains(&arg.get_id().as_str())
        };
        let Some(arg) = cli.get_arguments().find(is_flag) else {
            break;
        };
        count += if arg.get_action().takes_values() && value.is_none() {
            2
        } else {
            1
        };
    }
    count.min(words.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(line: &str) -> String {
        let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        let (words, at) = complete(&words);
        let words: Vec<String> = words
            .iter()
            .map(|word| word.to_string_lossy().into())
            .collect();
        assert!(at < words.len() || words.is_empty());
        words.join(" ")
    }

    #[test]
    fn flags_without_a_command_are_those_of_fit() {
        for (line, expected) in [
            ("", "fit"),
            ("--task sort", "fit --task sort"),
            (
                "--quiet --threads 2 --task sort",
                "--quiet --threads 2 fit --task sort",
            ),
            ("--threads=2", "--threads=2 fit"),
            ("-q eval runs/copy-1", "-q eval runs/copy-1"),
            ("--threads 2 bench", "--threads 2 bench"),
            ("--threads", "--threads fit"),
            ("--help", "--help"),
            ("-q --help", "-q --help"),
            ("--version", "--version"),
            ("fly", "fly"),
            ("help", "--help"),
            ("help fit", "fit --help"),
            ("-q help runs", "-q runs --help"),
            ("help --color never", "--help --color never"),
        ] {
            assert_eq!(completed(line), expected);
        }
    }
}
