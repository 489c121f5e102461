//! Names of the files in a run folder, and the errors about a file or folder that cannot be used.

use std::io;
use std::path::Path;

use crate::error::{UsageError, unwritable};

/// Configuration of the run, or of one of its checkpoints.
pub const CONFIG: &str = "config.json";

/// Metrics of every step and evaluation, a line of JSON each.
pub const METRICS: &str = "metrics.jsonl";

/// Results of the finished run.
pub const SUMMARY: &str = "summary.json";

/// How the run stands, and why it ended.
pub const STATUS: &str = "status.json";

/// Where and how each process of the run was started.
pub const ENVIRONMENT: &str = "environment.json";

/// Exact match by length.
pub const LENGTHS: &str = "lengths.json";

/// Folder of the checkpoints.
pub const CHECKPOINTS: &str = "checkpoints";

/// File that is locked as long as a process trains in the folder.
pub(super) const LOCK: &str = "lock";

/// Returns the error of a run whose folder or file at `path` cannot be used. The error's subject is
/// the argument `run`.
pub fn unusable(path: &Path, what: impl Into<String>) -> UsageError {
    UsageError::setting("run", path.display(), what)
}

/// Returns the error of a folder that cannot be written. The argument `argument` names the folder.
pub(super) fn cannot_write(argument: &str, path: &Path, error: &io::Error) -> UsageError {
    let expected = format!("cannot be written ({error}); name a folder that can");
    UsageError::setting(argument, path.display(), expected)
}

/// Returns the error of a file in a folder. The argument `argument` names the folder.
pub(super) fn cannot_write_file(
    argument: &str,
    folder: &Path,
    name: &str,
    error: io::Error,
) -> anyhow::Error {
    let usage = cannot_write(argument, folder, &error);
    unwritable(&folder.join(name), error, usage)
}
