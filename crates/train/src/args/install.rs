//! Flags of `completions` and `man`.

use std::path::PathBuf;

use clap::Args;
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

/// Flags of `man`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  train man ~/.local/share/man/man1 && man train-fit")]
pub struct ManArgs {
    /// Folder of the pages, one for each command
    pub folder: PathBuf,
}
