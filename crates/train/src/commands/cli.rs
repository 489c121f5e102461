//! The command line, and the call of its command.

use std::ffi::OsString;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, Parser, Subcommand};
use training::error::UsageError;

use super::{
    backends, bench, completions, eval, fit, generate, plot, presets, report, resume, runs, score,
    tokenize, weights,
};
use crate::args::{EvalArgs, GenerateArgs, GlobalArgs};
use crate::exit::{self, Exit};
use crate::group::Group;

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
    #[command(after_long_help = format!("{}\n\n{}", fit::HINT, exit::help()))]
    Fit(Box<fit::FitArgs>),
    /// Resume a stopped run
    #[command(after_long_help = exit::help())]
    Resume(resume::ResumeArgs),
    /// Generate an output for each input line
    Generate(Box<GenerateArgs>),
    /// Evaluate a trained model on unseen sequences
    Eval(EvalArgs),
    /// Score texts against references: BLEU, chrF, error rates
    Score(score::ScoreArgs),
    /// Turn lines of text into tokens by a run's tokeniser, and back
    Tokenize(tokenize::TokenizeArgs),
    /// Plot the curves and the attention of runs as SVG files
    Plot(plot::PlotArgs),
    /// Write runs as one HTML page: curves, attention, settings
    Report(report::ReportArgs),
    /// List runs: what differs from the preset, steps, best metric, time
    Runs(runs::RunsArgs),
    /// Compare runs: settings that differ, and metrics side by side
    Compare(runs::CompareArgs),
    /// Import weights from PyTorch, or from a file of an earlier import
    Import(Box<weights::ImportArgs>),
    /// Export a model's weights for PyTorch, or for the page in demo/
    Export(weights::ExportArgs),
    /// List the contents of a file of weights, and its layout
    Inspect(weights::InspectArgs),
    /// Measure how fast this machine and backend are
    Bench(bench::BenchArgs),
    /// List the backends of this build
    Backends,
    /// List presets, or print one as a commented file for fit --config
    Presets(presets::PresetsArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
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

    /// Runs the command of a command line, together with the other processes of the group, and returns
    /// how it ended.
    ///
    /// # Errors
    ///
    /// The errors of the command, a wrong number of threads, or a wrong environment variable.
    pub fn run(&self, group: &Group) -> Result<Exit> {
        let alone = Group::alone();
        let group = if is_shared(&self.command) {
            group
        } else if group.is_first() {
            &alone
        } else {
            return Ok(Exit::Success);
        };
        self.global.apply(group.collective())?;
        check_environment()?;
        match &self.command {
            Command::Fit(args) => return fit::run(args, group),
            Command::Resume(args) => return resume::run(args, group),
            Command::Generate(args) => generate::run(args, group),
            Command::Eval(args) => eval::run(args, group),
            Command::Score(args) => score::run(args),
            Command::Tokenize(args) => tokenize::run(args),
            Command::Plot(args) => plot::run(args),
            Command::Report(args) => report::run(args),
            Command::Runs(args) => runs::list(args),
            Command::Compare(args) => runs::compare(args),
            Command::Import(args) => weights::import(args),
            Command::Export(args) => weights::export(args),
            Command::Inspect(args) => weights::inspect(args),
            Command::Bench(args) => bench::run(args, group),
            Command::Backends => backends::run(),
            Command::Presets(args) => presets::run(args),
            Command::Completions(args) => completions::run(args, Self::command()),
        }?;
        Ok(Exit::Success)
    }
}

/// Returns whether the processes of a group run a command together. All other commands are run by
/// rank 0 alone.
fn is_shared(command: &Command) -> bool {
    match command {
        Command::Fit(args) => !args.dry_run,
        Command::Bench(args) => args.what == bench::Measured::Train,
        Command::Resume(_) | Command::Eval(_) | Command::Generate(_) => true,
        _ => false,
    }
}

/// Checks the environment variables that select fast paths and vector instructions. Without this
/// check, a wrong value would cause a panic in the first operation.
fn check_environment() -> Result<(), UsageError> {
    fused::check_environment().map_err(|error| {
        let allowed = error.allowed.join(", ");
        let expected = format!("must be one of {allowed} on this machine");
        UsageError::new(error.variable, error.value, expected)
    })
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
    let leading = Leading::try_parse_from(std::iter::once(&program).chain(&words));
    match leading.map(|leading| leading.command) {
        Ok(Some(Any::Words(command))) => (words, Some(command[0].to_string_lossy().into())),
        // A wrong value of `--threads` hides the command.
        Err(error) if !error.use_stderr() || error.kind() == ErrorKind::ValueValidation => {
            (words, None)
        }
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
            ("--threads 0 eval run", false, None),
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
