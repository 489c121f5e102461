//! Handles Ctrl-C, SIGTERM and SIGHUP. During training, the first signal stops a run after the
//! current step, and the second signal stops it at once.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use training::run::checkpoint::Checkpoints;
use training::run::{quoted, record_stop};

use super::{output, screen};
use crate::exit::Exit;

/// Requests within this time after the first count as the same request. `timeout` and other
/// programs send each signal twice: to the process and to its group.
const AT_ONCE: Duration = Duration::from_millis(300);

/// Names of requests that the user makes in the dashboard.
pub(super) const Q: &str = "the key q";
pub(super) const CTRL_C: &str = "Ctrl-C";

/// The run that this process trains or tests.
static RUN: Mutex<Option<Run>> = Mutex::new(None);

struct Run {
    folder: PathBuf,
    /// Whether this process writes the folder.
    is_own: bool,
    /// Whether a training loop is running. The loop checks for requests to stop.
    is_training: bool,
    /// Name and time of the first request to stop, which is a signal, [`Q`] or [`CTRL_C`]; `None`
    /// without a request.
    request: Option<(&'static str, Instant)>,
}

/// Begins to receive signals for the run in `folder`. Call this function at most once in a process.
///
/// The training loop reads requests to stop with [`requested_by`]. `is_own` says whether this
/// process writes the folder.
///
/// # Errors
///
/// If the system does not allow signal handlers.
pub(super) fn listen(folder: &Path, is_own: bool) -> Result<Listening> {
    *run() = Some(Run {
        folder: folder.into(),
        is_own,
        is_training: true,
        request: None,
    });
    signals::listen(receive).context("cannot listen for Ctrl-C")?;
    Ok(Listening)
}

fn run() -> MutexGuard<'static, Option<Run>> {
    screen::lock(&RUN)
}

/// Handles a signal, on the thread that receives signals.
fn receive(signal: &'static str) {
    if signal == "SIGHUP" {
        output::hang_up();
    }
    let mut current = run();
    let Some(run) = &mut *current else {
        return;
    };
    match run.request {
        // A signal after a key still waits for the end of the step.
        None | Some((Q | CTRL_C, _)) if run.is_training => {
            run.request = Some((signal, Instant::now()));
            drop(current);
            // The dashboard itself shows that the run is stopping.
            if !screen::is_taken() {
                output::note("stopping after this step; once more to stop at once");
            }
        }
        Some((_, first)) if first.elapsed() < AT_ONCE => {}
        _ => {
            drop(current);
            stop_at_once(signal)
        }
    }
}

/// Asks the run to stop after the current step, because of `key`, which is [`Q`] or [`CTRL_C`].
pub(super) fn stop_by_key(key: &'static str) {
    if let Some(run) = &mut *run() {
        run.request.get_or_insert((key, Instant::now()));
    }
}

/// Ends the process because of `by`, a signal or the dashboard.
///
/// Before that, this function restores the screen and prints the lines that were held back. If this
/// process writes the run folder, it also records there that the run was stopped.
///
/// Steps since the last checkpoint are lost. The last checkpoint is intact, because a checkpoint is
/// written completely or not at all.
pub(super) fn stop_at_once(by: &str) -> ! {
    screen::restore();
    if let Some(run) = run().as_ref().filter(|run| run.is_own) {
        let folder = quoted(&run.folder.display().to_string());
        let is_new = Checkpoints::of(&run.folder).is_new().unwrap_or(false);
        if let Err(error) = record_stop(&run.folder, by) {
            output::warn(&format!("{error:#}"));
        }
        // A request during training stops the run after the current step, so that steps usually
        // remain.
        let is_incomplete = run.is_training || run.request.is_some();
        let next = if is_incomplete && is_new {
            "stopped at once, before the first checkpoint; begin again with"
        } else if is_incomplete {
            "stopped at once; resume from the last checkpoint with"
        } else {
            "stopped at once; training has ended, so only test the model with"
        };
        output::note(next);
        output::note(&format!("  train resume {folder}"));
    }
    std::process::exit(Exit::stopped_by(by) as i32)
}

/// Guard of a training loop.
///
/// Until it is dropped, the first request waits for the end of the current step. Afterwards, a
/// request ends the process at once. This loses no training, because a trained model is already
/// saved.
pub(super) struct Listening;

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(run) = &mut *run() {
            run.is_training = false;
        }
    }
}

/// Returns what asked to stop, a signal or a key; `None` without a request.
pub(super) fn requested_by() -> Option<&'static str> {
    let request = run().as_ref().and_then(|run| run.request);
    request.map(|(by, _)| by)
}

#[cfg(unix)]
mod signals {
    use std::io;
    use std::thread;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXCPU};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::signal_name;

    /// Starts a thread that calls `receive` with the name of every signal.
    pub fn listen(receive: fn(&'static str)) -> io::Result<()> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        // Under `nohup` on Linux, SIGHUP stays ignored, so that a run continues when its terminal
        // is closed. SIGINT is received even if a shell has set it to be ignored, as
        // non-interactive shells do for background processes.
        let has_nohup = ignores(&status, SIGHUP);
        let hang_up = (!has_nohup).then_some(SIGHUP);
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGXCPU].into_iter().chain(hang_up))?;
        let forward = move || signals.forever().filter_map(signal_name).for_each(receive);
        let thread = thread::Builder::new().name("signals".into());
        thread.spawn(forward).map(drop)
    }

    /// Returns whether the process ignored a signal when it was started. `status` is the text of
    /// `/proc/self/status` on Linux.
    fn ignores(status: &str, signal: i32) -> bool {
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        set.is_some_and(|set| set >> (signal - 1) & 1 == 1)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_signals_that_nohup_ignores_are_known() {
            let status = "Name:\ttrain\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
            assert!(ignores(status, SIGHUP));
            assert!(!ignores(status, SIGINT) && !ignores(status, SIGTERM));
            assert!(!ignores("", SIGHUP));
        }
    }
}

#[cfg(not(unix))]
mod signals {
    /// Calls `receive` for every Ctrl-C, on a separate thread.
    pub fn listen(receive: fn(&'static str)) -> Result<(), ctrlc::Error> {
        ctrlc::set_handler(move || receive("SIGINT"))
    }
}
