//! What the terminal can show.

use std::io::{IsTerminal, stderr, stdin, stdout};

/// Returns an environment variable that is set and not empty.
pub(super) fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    Some(value).filter(|value| !value.is_empty())
}

/// Whether the terminal has no cursor that can be moved.
pub(super) fn is_dumb() -> bool {
    // Windows has no `TERM`.
    match variable("TERM") {
        Some(term) => term == "dumb",
        None => cfg!(unix),
    }
}

/// Whether a service for continuous integration runs this program. Its logs keep every line, also of
/// a bar that is drawn again and again.
fn is_ci() -> bool {
    variable("CI").is_some_and(|value| !["0", "false"].contains(&value.as_str()))
}

/// Whether a progress bar on stderr can be drawn again in its place.
pub(super) fn has_bar() -> bool {
    stderr().is_terminal() && !is_dumb() && !is_ci()
}

/// Whether the dashboard can take the screen and receive keys.
pub(super) fn has_screen() -> bool {
    stdin().is_terminal() && stdout().is_terminal() && has_bar() && is_in_foreground()
}

/// Whether the terminal's keys are for this process. A shell stops a process in its background, as
/// in `train &`, that changes the terminal's modes.
#[cfg(unix)]
fn is_in_foreground() -> bool {
    let group = rustix::termios::tcgetpgrp(stdin());
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

#[cfg(not(unix))]
fn is_in_foreground() -> bool {
    true
}
