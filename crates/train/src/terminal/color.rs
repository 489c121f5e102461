//! Decides whether lines have colours: by flag, environment and stream.

use std::sync::OnceLock;

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

/// The value of `--color`.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Sets the value of `--color`. Only the first call has an effect.
pub(super) fn choose(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// A meaning that a colour expresses.
#[derive(Clone, Copy, Debug)]
pub enum Paint {
    /// Correct results.
    Good,
    /// Wrong results and errors.
    Bad,
    /// Warnings.
    Warning,
}

impl Paint {
    /// Returns `text`, coloured if stdout has colours.
    pub fn on_stdout(self, text: &str) -> String {
        self.paint(text, on_stdout())
    }

    /// Returns `text`, coloured if stderr has colours.
    pub(super) fn on_stderr(self, text: &str) -> String {
        self.paint(text, on_stderr())
    }

    fn paint(self, text: &str, has_color: bool) -> String {
        let code = match self {
            Self::Good => 32,
            Self::Bad => 31,
            Self::Warning => 33,
        };
        if has_color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.into()
        }
    }
}

/// Returns whether lines on stdout have colours.
pub(super) fn on_stdout() -> bool {
    allows(console::colors_enabled)
}

/// Returns whether lines on stderr have colours.
pub(super) fn on_stderr() -> bool {
    allows(console::colors_enabled_stderr)
}

/// Returns whether a stream has colours. `by_default` looks at the stream, the terminal,
/// `CLICOLOR` and `CLICOLOR_FORCE` (<https://bixense.com/clicolors>).
fn allows(by_default: fn() -> bool) -> bool {
    match CHOICE.get().copied().unwrap_or_default() {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        // See <https://no-color.org>.
        ColorChoice::Auto => variable("NO_COLOR").is_none() && by_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn painted_text_ends_its_colour() {
        assert_eq!(Paint::Good.paint("(right)", true), "\x1b[32m(right)\x1b[0m");
        assert_eq!(Paint::Good.paint("(right)", false), "(right)");
    }
}
