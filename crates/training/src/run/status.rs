//! How a run stands, and why it ended: `status.json`.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::layout::{STATUS, unusable};
use super::lock::is_locked;
use crate::error::{DivergedError, UsageError};
use crate::files::write_json;

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A process trains or tests the model.
    Running,
    /// A user stopped the run. It can be resumed.
    Stopped,
    /// Training has ended, and the results are in `summary.json`.
    Finished,
    /// The loss, a gradient or a parameter was not finite.
    Diverged,
    /// Another error ended the run. It can be resumed from its last checkpoint.
    Failed,
    /// The process ended without recording why: it was killed, or the machine failed. The run can
    /// be resumed. No file has this status; [`read_status`] derives it.
    Killed,
}

impl Status {
    /// Returns the status in lower case, as `status.json` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Finished => "finished",
            Self::Diverged => "diverged",
            Self::Failed => "failed",
            Self::Killed => "killed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Status of a run, its progress and why it ended: the contents of `status.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStatus {
    /// How the run stands.
    pub status: Status,
    /// Number of steps taken. Of a run that is running, has failed or was killed, only those up to
    /// the last checkpoint count.
    pub step: usize,
    /// Total number of steps of the configuration.
    pub steps: usize,
    /// Why training ended, as a clause without a full stop; `None` while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Why training ended by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// All steps of the configuration were taken.
    AllSteps {
        /// Number of steps.
        steps: usize,
    },
    /// An evaluation reached the target of the configuration.
    TargetReached {
        /// Exact match of the evaluation.
        exact_match: f64,
        /// The target.
        target: f64,
        /// Step of the evaluation.
        step: usize,
    },
    /// No evaluation was better than an earlier one for as long as the configuration allows.
    OutOfPatience {
        /// Step of the best evaluation.
        best: usize,
    },
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AllSteps { steps: 1 } => f.write_str("the only step was taken"),
            Self::AllSteps { steps } => write!(f, "all {steps} steps taken"),
            Self::TargetReached {
                exact_match,
                target,
                step,
            } => {
                // Rounded down, so that a score just below 1 is not shown as 1.
                let shown = (exact_match * 1e4).floor() / 1e4;
                let shown = if shown < target { exact_match } else { shown };
                let what = "target reached: exact match";
                write!(f, "{what} {shown} >= {target} at step {step}")
            }
            Self::OutOfPatience { best } => {
                write!(f, "no better evaluation since step {best}")
            }
        }
    }
}

/// Reads how a run stands; `None` for a run of an earlier version, which has no `status.json`.
///
/// A run whose file says that it is running, but in whose folder no process trains, is
/// [killed](Status::Killed). Where the file system has no locks, it stays running.
///
/// # Errors
///
/// A file that cannot be read or is damaged; the message names it.
pub fn read_status(folder: &Path) -> Result<Option<RunStatus>, UsageError> {
    let is_running = |read: &Option<RunStatus>| {
        let status = read.as_ref().map(|read| read.status);
        status == Some(Status::Running)
    };
    let read = read_file(folder)?;
    if !is_running(&read) || is_locked(folder) {
        return Ok(read);
    }
    // The process may have ended between the two looks; its last status counts then.
    let mut read = read_file(folder)?;
    if is_running(&read)
        && let Some(killed) = &mut read
    {
        killed.status = Status::Killed;
        killed.reason = Some("the process ended without recording why".into());
    }
    Ok(read)
}

fn read_file(folder: &Path) -> Result<Option<RunStatus>, UsageError> {
    let path = folder.join(STATUS);
    let json = match fs::read(&path) {
        Ok(json) => json,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(&path, format!("cannot be read ({error})"))),
    };
    let read = serde_json::from_slice(&json);
    read.map(Some)
        .map_err(|error| unusable(&path, format!("is damaged ({error})")))
}

/// Records that a user stopped the run in a folder, if its file says that it is running. For a
/// process that is about to exit while another thread of it trains.
///
/// # Errors
///
/// If the file cannot be read or written.
pub fn record_stop(folder: &Path, by: &str) -> Result<()> {
    match read_file(folder)? {
        Some(read) if read.status == Status::Running => {
            let stopped = RunStatus {
                status: Status::Stopped,
                reason: Some(stopped_by(by)),
                ..read
            };
            write(folder, &stopped).context("cannot write status.json")
        }
        _ => Ok(()),
    }
}

fn stopped_by(by: &str) -> String {
    format!("stopped by {by}")
}

/// Threads of a process take turns, because they write through the same temporary file.
fn write(folder: &Path, status: &RunStatus) -> io::Result<()> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(|turn| turn.into_inner());
    write_json(&folder.join(STATUS), status)
}

/// Writes `status.json` for the process that trains in the folder. Dropping it while the run is
/// running records that the run has failed.
#[derive(Debug)]
pub(super) struct StatusWriter {
    folder: PathBuf,
    /// `None` until training begins, so that a process that ends earlier changes nothing.
    current: Option<RunStatus>,
}

impl StatusWriter {
    /// Prepares to write the status of the run in a folder.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.into(),
            current: None,
        }
    }

    /// Records that the run is running, after `step` of `steps` steps.
    pub(super) fn begin(&mut self, step: usize, steps: usize) -> Result<()> {
        self.current = Some(RunStatus {
            status: Status::Running,
            step,
            steps,
            reason: None,
        });
        self.write()
    }

    /// Changes a status that is running. Does nothing otherwise.
    fn change(&mut self, change: impl FnOnce(&mut RunStatus)) -> Result<()> {
        match &mut self.current {
            Some(current) if current.status == Status::Running => change(current),
            _ => return Ok(()),
        }
        self.write()
    }

    /// Records the number of steps taken, and why training ended if it has.
    pub(super) fn progress(&mut self, step: usize, end: Option<&EndReason>) -> Result<()> {
        self.change(|current| {
            current.step = step;
            current.reason = end.map(ToString::to_string);
        })
    }

    /// Records that the results are written.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.change(|current| current.status = Status::Finished)
    }

    /// Records that `by` stopped the run.
    pub(super) fn stop(&mut self, by: &str) -> Result<()> {
        self.change(|current| {
            current.status = Status::Stopped;
            current.reason = Some(stopped_by(by));
        })
    }

    /// Records that an error ended the run.
    pub(super) fn fail(&mut self, error: &anyhow::Error) -> Result<()> {
        let (status, reason) = match error.downcast_ref::<DivergedError>() {
            Some(diverged) => (Status::Diverged, diverged.what.clone()),
            None => (Status::Failed, format!("{error:#}")),
        };
        self.change(|current| {
            current.status = status;
            current.reason = Some(reason);
        })
    }

    fn write(&self) -> Result<()> {
        let Some(current) = &self.current else {
            return Ok(());
        };
        write(&self.folder, current).context("cannot write status.json")
    }
}

impl Drop for StatusWriter {
    fn drop(&mut self) {
        let reason = match std::thread::panicking() {
            true => "the program panicked",
            false => "the program ended before it wrote the results",
        };
        // The status is not worth a panic; without it, the run counts as killed.
        let _ = self.change(|current| {
            current.status = Status::Failed;
            current.reason = Some(reason.into());
        });
    }
}

#[cfg(test)]
mod tests;
