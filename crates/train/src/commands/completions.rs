//! `train completions`: print completions for a shell.

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::terminal::output;

/// Prints the completions for a shell.
///
/// # Errors
///
/// If stdout cannot be written.
pub(super) fn run(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "train", &mut script);
    output::results(&String::from_utf8(script)?)
}
