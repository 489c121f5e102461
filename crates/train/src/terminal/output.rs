//! Lines on stdout and stderr, which may be closed or full.

use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::sync::Mutex;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::Serialize;

use super::screen;

/// The progress bar on stderr, which lines must not break.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Notes that wait until the dashboard leaves the screen.
static HELD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints a line of a result. A closed stdout, as in `train | head`, is not an error: the run's
/// folder has everything.
///
/// # Errors
///
/// If stdout cannot be written for another reason.
pub fn result(line: &str) -> Result<()> {
    stream(&format!("{line}\n")).map(|_| ())
}

/// Prints a result as a line of JSON, or in words.
///
/// # Errors
///
/// If stdout cannot be written for another reason than that it is closed.
pub fn json_or(json: bool, value: &impl Serialize, words: impl FnOnce() -> String) -> Result<()> {
    match json {
        true => result(&serde_json::to_string(value)?),
        false => result(&words()),
    }
}

/// Prints a part of a result at once. Returns `Break` if stdout is closed.
///
/// # Errors
///
/// If stdout cannot be written for another reason.
pub fn stream(text: &str) -> Result<ControlFlow<()>> {
    let written = beside_bar(|| {
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(text.as_bytes());
        written.and_then(|()| stdout.flush())
    });
    match written {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Prints a line on stderr; while the dashboard has the screen, the line waits. A stderr that
/// cannot be written is not an error.
pub fn note(line: &str) {
    if screen::is_taken() {
        HELD.lock()
            .expect("no thread panics with it")
            .push(line.into());
        return;
    }
    let _ = beside_bar(|| writeln!(std::io::stderr(), "{line}"));
}

/// Prints the notes that have waited for the dashboard to leave the screen.
pub(super) fn release_notes() {
    let held = std::mem::take(&mut *HELD.lock().expect("no thread panics with it"));
    held.iter().for_each(|line| note(line));
}

/// Sets or removes the bar that lines must not break.
pub(super) fn set_bar(bar: Option<ProgressBar>) {
    *BAR.lock().expect("no thread panics with it") = bar;
}

fn beside_bar<T>(write: impl FnOnce() -> T) -> T {
    let bar = BAR.lock().expect("no thread panics with it").clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}
