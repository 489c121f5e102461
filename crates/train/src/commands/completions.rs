//! `train completions`: print completions for a shell.

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::terminal::output;

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

/// Prints the completions of a command line for a shell.
///
/// # Errors
///
/// If stdout cannot be written.
pub(super) fn run(args: &CompletionsArgs, mut line: Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut line, "train", &mut script);
    output::results(&String::from_utf8(script)?)
}
