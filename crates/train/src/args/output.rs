//! Flags of every command about what is printed.

use clap::Args;

use crate::terminal::ColorChoice;

/// Flags of every command about what is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Args)]
pub struct OutputArgs {
    /// When output has colours
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true
    )]
    pub color: ColorChoice,
}
