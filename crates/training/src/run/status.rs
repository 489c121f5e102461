//! Reads and writes `status.json`: the status of a run, and why it ended.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::layout::{STATUS, read_json};
use super::lock::{LockedFolder, is_locked};
use crate::error::{DivergedError, UsageError};
use crate::evaluation::rounded;
use crate::files::write_json;
use crate::number::grouped;
use crate::setting::choices;

choices! {
    /// Status of a run.
    #[derive(Hash)]
    pub enum Status {
        /// A process trains or tests the model.
        Running = "running",
        /// A user stopped the run, which can be resumed.
        Stopped = "stopped",
        /// The run has imported weights and was not trained yet. It can be resumed, unless it is of
        /// texts, of which it has none.
        Imported = "imported",
        /// Training has ended, and the results are in `summary.json`.
        Finished = "finished",
        /// The loss, a gradient, a parameter or an output was not finite.
        Diverged = "diverged",
        /// Another error ended the run. The run can be resumed from its last checkpoint, if it has
        /// one.
        Failed = "failed",
        /// The process ended without recording why: it was killed, or the machine failed. The run
        /// can be resumed. `status.json` never has this status, but [`read_status`] derives it.
        Killed = "killed",
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Contents of `status.json`: the status of a run, its progress and why it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStatus {
    /// Status of the run.
    pub status: Status,
    /// Number of steps taken. While a run trains, this is the step of its last checkpoint.
    pub step: usize,
    /// Total number of configured steps.
    pub steps: usize,
    /// Why training ended, as a clause without a full stop; `None` if it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The model that the run began with; `None` for random parameters, drawn with the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_with: Option<Origin>,
}

/// A model that a run began with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// File or folder that was imported; `None` for a model of `fit --from`, whose folder is a
    /// setting, and for one that another program has given the trainer.
    pub imported: Option<PathBuf>,
    /// SHA-256 of the parameters in the checkpoint of step 0, in hexadecimal digits.
    pub sha256: String,
}

/// Why training ended by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// All configured steps were taken.
    AllSteps {
        /// Number of steps.
        steps: usize,
    },
    /// An evaluation reached the configured target.
    TargetReached {
        /// Exact match of the evaluation.
        exact_match: f64,
        /// Exact match at which training ends.
        target: f64,
        /// Step of the evaluation.
        step: usize,
    },
    /// The configured number of consecutive evaluations brought no improvement.
    OutOfPatience {
        /// Step of the best evaluation.
        best: usize,
    },
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AllSteps { steps: 1 } => f.write_str("the only step was taken"),
            Self::AllSteps { steps } => write!(f, "all {} steps taken", grouped(steps)),
            Self::TargetReached {
                exact_match,
                target,
                step,
            } => {
                let shown = rounded(exact_match);
                let shown = if shown < target { exact_match } else { shown };
                write!(
                    f,
                    "target reached: exact match {shown} >= {target} at step {step}"
                )
            }
            Self::OutOfPatience { best } => write!(f, "no better evaluation since step {best}"),
        }
    }
}

/// Reads the status of a run.
///
/// If the file says that the run is running but no process trains in the folder, the status is
/// [`Killed`](Status::Killed). If the file system does not support locks, the status stays
/// [`Running`](Status::Running).
///
/// # Errors
///
/// If the file cannot be read or is damaged. The message names the file.
pub fn read_status(folder: &Path) -> Result<RunStatus, UsageError> {
    let read = || read_json::<RunStatus>(&folder.join(STATUS));
    let status = read()?;
    if status.status != Status::Running || is_locked(folder) {
        return Ok(status);
    }
    // The process may have written its last status and ended after the first reading, so the status
    // is read again.
    let mut status = read()?;
    if status.status == Status::Running {
        status.status = Status::Killed;
        status.reason = Some("the process ended without recording why".into());
    }
    Ok(status)
}

/// Records that the run in a folder was stopped by `by`, such as `SIGINT`, if its status is
/// running. A process calls this if it exits while another of its threads is training.
///
/// # Errors
///
/// If the file cannot be read or written.
pub fn record_stop(folder: &Path, by: &str) -> Result<()> {
    let mut status: RunStatus = read_json(&folder.join(STATUS))?;
    if status.status != Status::Running {
        return Ok(());
    }
    status.status = Status::Stopped;
    status.reason = Some(stopped_by(by));
    write(folder, &status)
}

pub(super) fn stopped_by(by: &str) -> String {
    format!("stopped by {by}")
}

/// Writes `status.json`. Threads of a process take turns, because they use the same temporary file.
fn write(folder: &Path, status: &RunStatus) -> Result<()> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(|turn| turn.into_inner());
    let path = folder.join(STATUS);
    write_json(&path, status).with_context(|| format!("cannot write {}", path.display()))
}

/// Writer of `status.json` for the process that trains in the folder. If it is dropped while the
/// run is running, it records that the run has failed.
#[derive(Debug)]
pub(super) struct StatusWriter {
    /// The folder, which stays locked until the last status is written.
    pub(super) folder: LockedFolder,
    /// `None` for an existing run until training begins, so that a process that ends earlier
    /// changes nothing.
    current: Option<RunStatus>,
}

impl StatusWriter {
    pub(super) fn new(folder: LockedFolder) -> Self {
        Self {
            folder,
            current: None,
        }
    }

    /// Records that the run is running, after `step` of `steps` steps.
    pub(super) fn begin(&mut self, step: usize, steps: usize) -> Result<()> {
        let before = read_json::<RunStatus>(&self.folder.path().join(STATUS));
        self.current = Some(RunStatus {
            status: Status::Running,
            step,
            steps,
            reason: None,
            began_with: before.ok().and_then(|before| before.began_with),
        });
        self.change(|_| ())
    }

    /// Changes the status if it is running, and does nothing otherwise.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut RunStatus)) -> Result<()> {
        let current = self.current.as_mut();
        let Some(current) = current.filter(|current| current.status == Status::Running) else {
            return Ok(());
        };
        change(current);
        self.folder.check()?;
        write(self.folder.path(), current)
    }

    pub(super) fn fail(&mut self, error: &anyhow::Error) -> Result<()> {
        match error.downcast_ref::<DivergedError>() {
            Some(diverged) => self.end(Status::Diverged, diverged.what.clone()),
            None => self.end(Status::Failed, format!("{error:#}")),
        }
    }

    /// Records that the run has ended with a status, if it was running.
    pub(super) fn end(&mut self, status: Status, reason: String) -> Result<()> {
        self.change(|current| {
            current.status = status;
            current.reason = Some(reason);
        })
    }
}

impl Drop for StatusWriter {
    fn drop(&mut self) {
        let reason = if std::thread::panicking() {
            "the program panicked"
        } else {
            "the program ended before it wrote the results"
        };
        // An error of writing `status.json` is ignored, because `drop` cannot return it. The run
        // then counts as killed.
        let _ = self.end(Status::Failed, reason.into());
    }
}

#[cfg(test)]
mod tests;
