//! Runs the command that the command line names.

use anyhow::Result;

use super::{backends, bench, eval, fit, generate, plot, report, resume, score, tokenize, weights};
use crate::args::{Cli, Command};
use crate::terminal::output;

/// Runs the command of a command line.
///
/// # Errors
///
/// The command's errors.
pub fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        None => fit::run(&cli.fit),
        Some(Command::Fit(args)) => fit::run(args),
        Some(Command::Resume(args)) => resume::run(args),
        Some(Command::Generate(args)) => generate::run(args),
        Some(Command::Eval(args)) => eval::run(args),
        Some(Command::Score(args)) => score::run(args),
        Some(Command::Tokenize(args)) => tokenize::run(args),
        Some(Command::Plot(args)) => plot::run(args),
        Some(Command::Report(args)) => report::run(args),
        Some(Command::Import(args)) => weights::import(args),
        Some(Command::Export(args)) => weights::export(args),
        Some(Command::Inspect(args)) => weights::inspect(args),
        Some(Command::Bench(args)) => bench::run(args),
        Some(Command::Backends) => backends::run(),
        Some(Command::MarkdownHelp) => output::result(&clap_markdown::help_markdown::<Cli>()),
    }
}
