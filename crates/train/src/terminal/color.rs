//! Decides whether lines have colours: by flag, environment and stream.

use clap::ValueEnum;

use super::capability::variable;

/// Choices of `--color`, which says when output has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// Nowhere if NO_COLOR is set; else everywhere if CLICOLOR_FORCE is set; else on terminals,
    /// unless CLICOLOR is 0 or the terminal is dumb
    #[default]
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

impl ColorChoice {
    /// Sets whether stdout and stderr have colours. The crate `console` knows the streams, the
    /// terminal, `CLICOLOR` and `CLICOLOR_FORCE`, but not [NO_COLOR](https://no-color.org).
    pub(super) fn apply(self) {
        let has_color = match self {
            Self::Auto if variable("NO_COLOR").is_none() => return,
            choice => choice == Self::Always,
        };
        console::set_colors_enabled(has_color);
        console::set_colors_enabled_stderr(has_color);
    }
}
