//! `train completions`: print completions for a shell.

use anyhow::Result;
use clap::{Args, CommandFactory};

use super::cli::Cli;
use crate::terminal::output;
use clap_complete::Shell;

/// Flags of `completions`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  train completions bash > ~/.local/share/bash-completion/completions/train
  train completions zsh > ~/.zfunc/_train
  train completions fish > ~/.config/fish/completions/train.fish")]
pub struct CompletionsArgs {
    /// Shell that reads the completions
    pub shell: Shell,
}

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
