//! Lines on stdout and stderr, which may be closed or full.

use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::Serialize;

use super::color::Paint;
use super::screen::{self, Stream};

/// How much the program says besides its results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Only warnings, errors and the final result.
    Quiet,
    /// Also progress and notes.
    #[default]
    Normal,
    /// Also the log of the program's own crates.
    Verbose,
}

impl Verbosity {
    /// Returns what the flags `--quiet` and `--verbose` stand for.
    pub fn of(quiet: bool, verbose: bool) -> Self {
        match (quiet, verbose) {
            (true, _) => Self::Quiet,
            (_, true) => Self::Verbose,
            _ => Self::Normal,
        }
    }
}

static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// The progress bar on stderr, which lines must not break.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Whether the terminal was closed, so that writing to it fails.
static IS_HUNG_UP: AtomicBool = AtomicBool::new(false);

/// Sets how much the program says. Only the first call counts.
pub(super) fn choose(verbosity: Verbosity) {
    let _ = VERBOSITY.set(verbosity);
}

/// Returns how much the program says.
pub(super) fn verbosity() -> Verbosity {
    VERBOSITY.get().copied().unwrap_or_default()
}

/// Whether only warnings, errors and the final result are printed.
pub fn is_quiet() -> bool {
    verbosity() == Verbosity::Quiet
}

/// Prints a line of a result; while the dashboard has the screen, the line waits. A closed stdout,
/// as in `train | head`, is not an error: the run's folder has everything.
///
/// # Errors
///
/// If stdout cannot be written for another reason.
pub fn result(line: &str) -> Result<()> {
    if screen::hold(Stream::Stdout, line) {
        return Ok(());
    }
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
        Err(_) if IS_HUNG_UP.load(Ordering::SeqCst) => Ok(ControlFlow::Break(())),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Notes that the terminal was closed. From now on, a stdout that cannot be written is not an error.
pub(super) fn hang_up() {
    IS_HUNG_UP.store(true, Ordering::SeqCst);
}

/// Prints a line on stderr, unless the program is quiet.
pub fn note(line: &str) {
    if !is_quiet() {
        message(line);
    }
}

/// Prints a warning on stderr.
pub fn warn(line: &str) {
    message(&format!("{} {line}", Paint::Warning.on_stderr("warning:")));
}

/// Prints an error on stderr.
pub fn error(line: &str) {
    message(&format!("{} {line}", Paint::Bad.on_stderr("error:")));
}

/// Prints a line on stderr, also if the program is quiet. While the dashboard has the screen, the
/// line waits. A stderr that cannot be written is not an error.
pub fn message(line: &str) {
    if !screen::hold(Stream::Stderr, line) {
        let _ = beside_bar(|| writeln!(std::io::stderr(), "{line}"));
    }
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
