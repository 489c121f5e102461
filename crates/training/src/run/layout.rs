//! Names of the files in a run folder, and errors about files and folders that cannot be used.

use std::io;
use std::path::Path;

use crate::error::{UsageError, unwritable};

/// Configuration of the run, or of one of its checkpoints.
pub const CONFIG: &str = "config.json";

/// Metrics of every step and evaluation, one line of JSON each.
pub const METRICS: &str = "metrics.jsonl";

/// Results of the finished run.
pub const SUMMARY: &str = "summary.json";

/// Status of the run, and why it ended.
pub const STATUS: &str = "status.json";

/// Where and how the run was started, and each time it was resumed.
pub const ENVIRONMENT: &str = "environment.json";

/// Scores by sequence length.
pub const LENGTHS: &str = "lengths.json";

/// Folder of the checkpoints.
pub const CHECKPOINTS: &str = "checkpoints";

/// File that is locked while a process trains in the folder.
pub(super) const LOCK: &str = "lock";

/// Maximum size of a JSON file in a run folder, in MiB. Metrics and checkpoints have no maximum.
pub(super) const LARGEST: u64 = 64;

/// Returns the error that a run's file or folder, `path`, cannot be used. `what` says why. The
/// error is about the argument `run`.
pub fn unusable(path: &Path, what: impl Into<String>) -> UsageError {
    UsageError::setting("run", path.display(), what)
}

/// Returns the error for a folder that cannot be written. `argument` is the name of the setting for
/// this folder.
pub(super) fn cannot_write(argument: &str, path: &Path, error: &io::Error) -> UsageError {
    let expected = format!("cannot be written ({error}); name a folder that can");
    UsageError::setting(argument, path.display(), expected)
}

/// Returns the error for a file that cannot be written. `argument` is the name of the setting for
/// the file's folder.
pub(super) fn cannot_write_file(
    argument: &str,
    folder: &Path,
    name: &str,
    error: io::Error,
) -> anyhow::Error {
    let usage = cannot_write(argument, folder, &error);
    unwritable(&folder.join(name), error, usage)
}
