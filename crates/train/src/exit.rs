//! Exit codes of the program.

use std::fmt::Write;

use clap::ValueEnum;
use training::error::{DivergedError, UsageError};
use transformer::generate::GenerateError;

/// How a command ended. The value of each variant is the exit code. If a signal stopped a run, the
/// code is 128 plus the number of the signal, as in a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[repr(u8)]
pub enum Exit {
    /// The command succeeded
    Success = 0,
    /// The command failed: a file, a device or an output could not be used
    Failure = 1,
    /// Wrong usage: a flag, a setting or an input that you can correct
    Usage = 2,
    /// Not finite: the loss, its gradient norm or a parameter in training, or the outputs of a model
    Diverged = 3,
    /// A run was stopped by SIGHUP: its terminal was closed
    HungUp = 129,
    /// A run was stopped by Ctrl-C (SIGINT) or from the dashboard
    Interrupted = 130,
    /// A run was stopped by SIGTERM
    Terminated = 143,
}

impl Exit {
    /// Returns the variant for a command that failed with `error`.
    pub fn of_error(error: &anyhow::Error) -> Self {
        let is_not_finite = matches!(error.downcast_ref(), Some(GenerateError::NotFinite { .. }));
        if error.is::<UsageError>() {
            Self::Usage
        } else if error.is::<DivergedError>() || is_not_finite {
            Self::Diverged
        } else {
            Self::Failure
        }
    }

    /// Returns the variant for a run that was stopped by `name`, which is a signal such as
    /// `SIGTERM`, or a key such as `Ctrl-C`.
    pub fn stopped_by(name: &str) -> Self {
        match name {
            "SIGHUP" => Self::HungUp,
            "SIGTERM" => Self::Terminated,
            _ => Self::Interrupted,
        }
    }
}

/// Returns the list of all exit codes for the help.
pub fn help() -> String {
    let mut help = String::from("Exit codes:\n\n");
    for exit in Exit::value_variants() {
        let value = exit.to_possible_value().expect("no code is hidden");
        let meaning = value.get_help().expect("every code has a comment");
        writeln!(help, "- {}: {meaning}", *exit as u8).expect("a string can be written");
    }
    help + "\nA stopped run has a checkpoint of its last step; `train resume RUN` resumes it."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_signals_have_their_codes() {
        let code = |error: anyhow::Error| Exit::of_error(&error) as u8;
        assert_eq!(code(UsageError::new("a", "", "b").into()), 2);
        assert_eq!(code(anyhow::anyhow!("no space left")), 1);
        let diverged = DivergedError {
            what: "the loss is NaN".into(),
            advice: String::new(),
        };
        assert_eq!(code(diverged.into()), 3);
        let (sequence, position) = (0, 4);
        let not_finite = GenerateError::NotFinite { sequence, position };
        assert_eq!(code(not_finite.into()), 3);
        let of = |name| Exit::stopped_by(name) as u8;
        assert_eq!(
            ["SIGHUP", "SIGINT", "SIGTERM", "the key q"].map(of),
            [129, 130, 143, 130]
        );
    }

    #[test]
    fn the_help_lists_every_code() {
        let help = help();
        let lines = help.lines().filter(|line| line.starts_with("- "));
        assert_eq!(lines.count(), Exit::value_variants().len());
        assert!(
            help.contains("- 143: A run was stopped by SIGTERM\n"),
            "{help}"
        );
    }
}
