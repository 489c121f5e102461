//! Ctrl-C and SIGTERM: once to stop after the step, twice to stop at once.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

use crate::{monitor, output};

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// Begins to listen, once in the life of the process.
///
/// # Errors
///
/// If the system does not let us.
pub(super) fn watch() -> Result<()> {
    static WATCH: Once = Once::new();
    let mut result = Ok(());
    WATCH.call_once(|| {
        result = ctrlc::set_handler(|| match REQUESTS.fetch_add(1, Ordering::SeqCst) {
            0 if monitor::has_screen() => {}
            0 => output::note("stopping after this step; once more to stop at once"),
            _ => {
                monitor::leave_screen();
                // Checkpoints appear whole or not at all, so that the last one is good.
                std::process::exit(130)
            }
        });
    });
    result.context("cannot listen for Ctrl-C")
}

/// Whether somebody asked to stop.
pub(super) fn is_requested() -> bool {
    REQUESTS.load(Ordering::SeqCst) > 0
}
