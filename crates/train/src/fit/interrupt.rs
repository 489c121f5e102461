//! Ctrl-C and SIGTERM: once to stop after the step, twice to stop at once.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result};

use crate::{monitor, output};

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// Whether there is a loop that will see a request.
static IS_TRAINING: AtomicBool = AtomicBool::new(false);

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
            0 if !IS_TRAINING.load(Ordering::SeqCst) => std::process::exit(130),
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

/// Until it is dropped, the first request waits for the end of a step; without it, every request
/// ends the process: nothing is lost then, since training is over and saved.
pub(super) struct Listening;

/// From now on, requests are seen.
pub(super) fn listen() -> Listening {
    IS_TRAINING.store(true, Ordering::SeqCst);
    Listening
}

impl Drop for Listening {
    fn drop(&mut self) {
        IS_TRAINING.store(false, Ordering::SeqCst);
    }
}

/// Whether somebody asked to stop.
pub(super) fn is_requested() -> bool {
    REQUESTS.load(Ordering::SeqCst) > 0
}
