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

/// Checks that each file that a run replaces or removes is a regular file or does not exist.
pub(super) fn check_files(folder: &Path) -> Result<(), UsageError> {
    for name in [CONFIG, METRICS, SUMMARY, STATUS, ENVIRONMENT, LOCK] {
        let path = folder.join(name);
        if path.metadata().is_ok_and(|file| !file.is_file()) {
            let what = "is not a regular file, but this run needs one there; remove it";
            return Err(unusable(&path, what));
        }
    }
    Ok(())
}

/// Returns the error that a run's file or folder, `path`, cannot be used. `what` says why. The
/// error is about the argument `run`.
pub fn unusable(path: &Path, what: impl Into<String>) -> UsageError {
    UsageError::setting("run", path.display(), what)
}

/// Returns the error for a folder that cannot be written. `argument` is the name of the setting for
/// this folder.
pub(super) fn cannot_write(argument: &str, path: &Path, error: &io::Error) -> UsageError {
    // A link to nothing exists, too, although `Path::exists` denies it.
    let expected = match path.symlink_metadata().is_ok() && !path.is_dir() {
        true => "is not a folder; name one, or a path that does not exist".into(),
        false => format!("cannot be written ({error}); name a folder that can"),
    };
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
    let what = format!("{name} cannot be written in it ({error}); name another folder");
    let usage = UsageError::setting(argument, folder.display(), what);
    unwritable(&folder.join(name), error, usage)
}
