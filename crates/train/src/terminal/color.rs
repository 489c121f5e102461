//! Decides whether lines have colours: by flag, environment and stream.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ValueEnum;

use super::capability::{is_dumb, variable};

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
    Rules::of_process().allow(std::io::stdout().is_terminal())
}

/// Returns whether lines on stderr have colours.
pub(super) fn on_stderr() -> bool {
    Rules::of_process().allow(std::io::stderr().is_terminal())
}

/// The flag and the environment. Together with the stream, they decide whether lines have colours.
/// Earlier fields take precedence over later ones.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    choice: ColorChoice,
    /// Whether `NO_COLOR` is set (<https://no-color.org>).
    no_color: bool,
    /// Whether `CLICOLOR_FORCE` is set to a value other than 0 (<https://bixense.com/clicolors>).
    is_forced: bool,
    /// Whether `CLICOLOR` is 0.
    is_off: bool,
    is_dumb: bool,
}

impl Rules {
    fn of_process() -> Self {
        Self {
            choice: CHOICE.get().copied().unwrap_or_default(),
            no_color: variable("NO_COLOR").is_some(),
            is_forced: variable("CLICOLOR_FORCE").is_some_and(|value| value != "0"),
            is_off: variable("CLICOLOR").is_some_and(|value| value == "0"),
            is_dumb: is_dumb(),
        }
    }

    fn allow(self, is_terminal: bool) -> bool {
        match self.choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if self.no_color => false,
            ColorChoice::Auto if self.is_forced => true,
            ColorChoice::Auto => is_terminal && !self.is_off && !self.is_dumb,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_stronger_than_the_environment_and_that_than_the_stream() {
        let auto = Rules::default();
        assert!(auto.allow(true) && !auto.allow(false));
        let no_color = Rules {
            no_color: true,
            is_forced: true,
            ..auto
        };
        assert!(!no_color.allow(true));
        let forced = Rules {
            is_forced: true,
            is_dumb: true,
            ..auto
        };
        assert!(forced.allow(false));
        for rules in [
            Rules {
                is_off: true,
                ..auto
            },
            Rules {
                is_dumb: true,
                ..auto
            },
        ] {
            assert!(!rules.allow(true), "{rules:?}");
        }
        let choice = ColorChoice::Always;
        assert!(Rules { choice, ..no_color }.allow(false));
        let choice = ColorChoice::Never;
        assert!(!Rules { choice, ..forced }.allow(true));
    }

    #[test]
    fn painted_text_ends_its_colour() {
        assert_eq!(Paint::Good.paint("(right)", true), "\x1b[32m(right)\x1b[0m");
        assert_eq!(Paint::Good.paint("(right)", false), "(right)");
    }
}
