//! Lines on stdout and stderr, which may be closed or full.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// Prints a result. Where nobody reads any more (`train | head`), the line is lost and all is
/// well: the run's folder has everything.
///
/// # Errors
///
/// If stdout cannot be written for another reason.
pub fn result(line: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// Tells the user something; not worth failing for.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
