//! Detects what the terminal can show.

use std::io::{IsTerminal, stderr, stdin, stdout};

/// Returns the value of an environment variable; `None` if it is not set or is empty.
pub(super) fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    Some(value).filter(|value| !value.is_empty())
}

/// Returns the width of a terminal in columns; `None` if the stream is not a terminal.
pub fn width_of(stream: &console::Term) -> Option<usize> {
    let (_, columns) = stream.is_term().then(|| stream.size_checked()).flatten()?;
    Some(columns.into())
}

/// Returns whether the terminal cannot move its cursor.
pub(super) fn is_dumb() -> bool {
    // Windows does not set `TERM`.
    variable("TERM").map_or(cfg!(unix), |term| term == "dumb")
}

/// Returns whether the program runs in continuous integration, where a log would keep every redrawn
/// state of a progress bar.
fn is_ci() -> bool {
    variable("CI").is_some_and(|value| !["0", "false"].contains(&value.as_str()))
}

/// Returns whether a progress bar on stderr can be redrawn in place.
pub(super) fn has_bar() -> bool {
    stderr().is_terminal() && !is_dumb() && !is_ci()
}

/// Returns whether the dashboard can use the whole screen and receive keys.
pub(super) fn has_screen() -> bool {
    stdin().is_terminal() && stdout().is_terminal() && has_bar() && is_in_foreground()
}

/// Returns whether this process is in the foreground of the terminal and receives its keys. The
/// system stops a background process (`train &`) that changes the modes of the terminal.
#[cfg(unix)]
fn is_in_foreground() -> bool {
    let group = rustix::termios::tcgetpgrp(stdin());
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

#[cfg(not(unix))]
fn is_in_foreground() -> bool {
    true
}
