//! The outcome of a command, and checks for faults.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Maximum number of lines on stderr of a command that fails.
///
/// Notes may come before the error.
const LINES: usize = 30;

/// Maximum number of characters in the line of the error.
const CHARACTERS: usize = 1500;

/// Outcome of a command.
#[derive(Clone, Debug)]
pub struct Answer {
    command: String,
    pub code: Option<i32>,
    signal: Option<i32>,
    is_late: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Answer {
    pub fn new(command: String, status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            command,
            code: status.code(),
            signal: status.signal(),
            is_late: false,
            stdout: text(stdout),
            stderr: text(stderr),
        }
    }

    /// Records that the command was killed because it took too long.
    pub fn late(mut self) -> Self {
        self.is_late = true;
        self
    }

    /// Rejects what a command must never do: panic, end by a signal, take too long, end with
    /// another exit code than 0 to 3, or fail without a short message.
    ///
    /// # Errors
    ///
    /// A description of the fault, followed by the command, its exit code and the end of stderr.
    pub fn check(&self) -> Result<(), String> {
        let fault = if self.is_late {
            "takes too long"
        } else if self.stderr.contains("panicked") || self.code == Some(101) {
            "panics"
        } else if self.signal.is_some() {
            "ends by a signal"
        } else if !matches!(self.code, Some(0..=3)) {
            "ends with a code that is not 0, 1, 2 or 3"
        } else {
            return self.check_message();
        };
        Err(self.fault(fault))
    }

    /// Rejects a failure whose last line is not a short message, or that prints too many lines.
    fn check_message(&self) -> Result<(), String> {
        let last = self.stderr.lines().last().unwrap_or_default();
        let fault = if self.code == Some(0) {
            return Ok(());
        } else if last.trim().is_empty() {
            "fails without a message"
        } else if self.stderr.lines().count() > LINES {
            "fails with too many lines"
        } else if last.chars().count() > CHARACTERS {
            "fails with a message that is too long"
        } else {
            return Ok(());
        };
        Err(self.fault(fault))
    }

    /// Returns whether stderr contains one of these words.
    pub fn names(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.stderr.contains(word))
    }

    /// Returns a description of the fault `what`, followed by the command, its exit code and the
    /// end of stderr.
    pub fn fault(&self, what: &str) -> String {
        format!("{what}: {self}")
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ends: Vec<&str> = self.stderr.lines().rev().take(4).collect();
        ends.reverse();
        let mut stderr: String = ends.join("\n    ");
        if let Some((end, _)) = stderr.char_indices().nth(1200) {
            stderr.truncate(end);
        }
        let (command, code, signal) = (&self.command, self.code, self.signal);
        write!(
            f,
            "{command}\n    code {code:?}, signal {signal:?}\n    {stderr}"
        )
    }
}
