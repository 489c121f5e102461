//! Ctrl-C and SIGTERM: once to stop after the step, twice to stop at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{monitor, output};

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// When the first one came.
static FIRST: OnceLock<Instant> = OnceLock::new();

/// Requests so soon after the first are the same one.
const AT_ONCE: Duration = Duration::from_millis(300);

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
        result = ctrlc::set_handler(|| {
            let first = FIRST.get_or_init(Instant::now);
            match REQUESTS.fetch_add(1, Ordering::SeqCst) {
                0 if !IS_TRAINING.load(Ordering::SeqCst) => {
                    output::note("stopped; `train resume` goes on where the run was");
                    std::process::exit(130)
                }
                0 if monitor::has_screen() => {}
                0 => output::note("stopping after this step; once more to stop at once"),
                // `timeout` and others send a signal to the process and to its group.
                _ if first.elapsed() < AT_ONCE => {}
                _ => {
                    monitor::leave_screen();
                    // Checkpoints appear whole or not at all, so that the last one is good.
                    std::process::exit(130)
                }
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
