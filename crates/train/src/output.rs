//! Lines on stdout and stderr, which may be closed or full.

use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;

use anyhow::{Context, Result};

/// Prints a result. Where nobody reads any more (`train | head`), the line is lost and all is
/// well: the run's folder has everything.
///
/// # Errors
///
/// If stdout cannot be written for another reason.
pub fn result(line: &str) -> Result<()> {
    stream(&format!("{line}\n")).map(|_| ())
}

/// Prints a part of a result at once; breaks off where nobody reads any more.
///
/// # Errors
///
/// If stdout cannot be written for another reason.
pub fn stream(text: &str) -> Result<ControlFlow<()>> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Tells the user something; not worth failing for.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
