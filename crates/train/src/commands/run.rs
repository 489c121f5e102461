//! Runs the command that the command line names.

use anyhow::Result;
use clap::CommandFactory;
use training::error::UsageError;

use super::bench::Measured;
use super::cli::{Cli, Command};
use super::{
    backends, bench, completions, eval, fit, generate, plot, presets, report, resume, runs, score,
    tokenize, weights,
};
use crate::exit::Exit;
use crate::group::Group;

/// Runs the command of a command line, together with the other processes of the group, and returns
/// how it ended.
///
/// # Errors
///
/// The errors of the command, a wrong number of threads, or a wrong environment variable.
pub fn run(cli: &Cli, group: &Group) -> Result<Exit> {
    let alone = Group::alone();
    let group = if is_shared(&cli.command) {
        group
    } else if group.is_first() {
        &alone
    } else {
        return Ok(Exit::Success);
    };
    cli.global.apply(group.collective())?;
    check_environment()?;
    match &cli.command {
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
        Command::Completions(args) => completions::run(args, Cli::command()),
    }?;
    Ok(Exit::Success)
}

/// Returns whether the processes of a group run a command together. All other commands are run by
/// rank 0 alone.
fn is_shared(command: &Command) -> bool {
    match command {
        Command::Fit(args) => !args.dry_run,
        Command::Bench(args) => args.what == Measured::Train,
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
