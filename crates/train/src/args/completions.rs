//! Flags of `completions`.

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
