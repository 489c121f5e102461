//! Ctrl-C and SIGTERM: the first stops a run after the step, the second stops it at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{output, screen};

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// Time of the first request.
static FIRST: OnceLock<Instant> = OnceLock::new();

/// Requests within this time after the first count as the same request.
const AT_ONCE: Duration = Duration::from_millis(300);

/// Whether a training loop is running, which sees requests.
static IS_TRAINING: AtomicBool = AtomicBool::new(false);

/// Begins to receive signals, and to pass requests on to the training loop. It can be called once
/// in the life of the process.
///
/// # Errors
///
/// If the system does not allow it.
pub(super) fn listen() -> Result<Listening> {
    let handler = || {
        let first = FIRST.get_or_init(Instant::now);
        match REQUESTS.fetch_add(1, Ordering::SeqCst) {
            0 if !IS_TRAINING.load(Ordering::SeqCst) => {
                output::note("stopped; `train resume` resumes the run");
                screen::restore();
                std::process::exit(130)
            }
            0 if screen::is_taken() => {}
            0 => output::note("stopping after this step; once more to stop at once"),
            // `timeout` and other programs send each signal twice: to the process and to its group.
            _ if first.elapsed() < AT_ONCE => {}
            _ => {
                screen::restore();
                // Checkpoints appear whole or not at all, so the last one is intact.
                std::process::exit(130)
            }
        }
    };
    ctrlc::set_handler(handler).context("cannot listen for Ctrl-C")?;
    IS_TRAINING.store(true, Ordering::SeqCst);
    Ok(Listening)
}

/// Guard of a training loop. Until it is dropped, the first request waits for the end of a step.
/// Afterwards every request ends the process, which loses nothing: training is over and saved.
pub(super) struct Listening;

impl Drop for Listening {
    fn drop(&mut self) {
        IS_TRAINING.store(false, Ordering::SeqCst);
    }
}

/// Returns the name of the signal by which the user asked to stop.
pub(super) fn requested_by() -> Option<&'static str> {
    (REQUESTS.load(Ordering::SeqCst) > 0).then_some("SIGINT")
}
