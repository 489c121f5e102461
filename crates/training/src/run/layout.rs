//! Names of the files in a run folder, and errors about files and folders that cannot be used.

use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::error::{UsageError, unwritable};
use crate::files::read_regular;

/// Configuration of the run, or of one of its checkpoints.
pub const CONFIG: &str = "config.json";

/// Metrics of every step and evaluation, one line of JSON each.
pub const METRICS: &str = "metrics.jsonl";

/// Results of the finished run.
pub const SUMMARY: &str = "summary.json";

/// Status of the run, and why it ended.
pub const STATUS: &str = "status.json";

/// Where and how each process of the run was started or resumed.
pub const ENVIRONMENT: &str = "environment.json";

/// Scores by sequence length.
pub const LENGTHS: &str = "lengths.json";

/// Folder of the checkpoints.
pub const CHECKPOINTS: &str = "checkpoints";

/// Folder of the plots.
pub const PICTURES: &str = "pictures";

/// File that is locked while a process trains in the folder.
pub(super) const LOCK: &str = "lock";

/// Maximum size of a JSON file in a run folder, in MiB. Metrics and checkpoints have no maximum.
pub(super) const LARGEST: u64 = 64;

/// Names of a run's files other than tokenisers.
const FILES: [&str; 7] = [CONFIG, METRICS, SUMMARY, STATUS, ENVIRONMENT, LENGTHS, LOCK];

/// Names of a run's folders.
const FOLDERS: [&str; 2] = [CHECKPOINTS, PICTURES];

/// Returns whether a path is one of a run's own files, or is in one of its folders.
pub fn is_own(path: &Path) -> bool {
    let parent = path.parent().map(|parent| Path::new(".").join(parent));
    let parent = parent.and_then(|parent| parent.canonicalize().ok());
    let (Some(parent), Some(name)) = (parent, path.file_name()) else {
        return false;
    };
    let path = path.canonicalize().unwrap_or_else(|_| parent.join(name));
    let is_own = |run: &Path| {
        let within = path.strip_prefix(run).ok().and_then(|it| it.iter().next());
        let name = within.unwrap_or_default().to_string_lossy();
        let is_run = [METRICS, CHECKPOINTS]
            .iter()
            .any(|name| run.join(name).exists());
        let mut names = FILES.iter().chain(&FOLDERS);
        run.join(CONFIG).exists()
            && is_run
            && (name.ends_with("tokenizer.json") || names.any(|own| *own == name))
    };
    path.ancestors().skip(1).any(is_own)
}

/// Checks that a run's files are regular files, and that its folders are folders.
///
/// Only entries with the names in this module are checked, and entries may be missing. Symbolic
/// links are rejected, because a link in a run folder from an untrusted source could make `train`
/// write outside the run folder.
///
/// # Errors
///
/// If one of these entries is of another kind, such as a link. The error names the entry and
/// `argument`, the argument for the folder.
pub fn check_names(argument: &'static str, folder: &Path) -> Result<(), UsageError> {
    let wrong = |name: &str, what: &str| {
        let why = format!("must be a {what}, and not a link; a whole run may be moved or linked");
        Err(UsageError::argument(
            argument,
            folder.join(name).display(),
            why,
        ))
    };
    // For a link, this is the metadata of the link itself, not of its target.
    let metadata = |name: &str| folder.join(name).symlink_metadata().ok();
    for name in FILES {
        if metadata(name).is_some_and(|found| !found.is_file()) {
            return wrong(name, "regular file");
        }
    }
    for name in FOLDERS {
        if metadata(name).is_some_and(|found| !found.is_dir()) {
            return wrong(name, "folder");
        }
    }
    Ok(())
}

/// Returns the error that a run's file or folder, `path`, cannot be used. `what` says why. The
/// error is about the argument `run`.
pub fn unusable(path: &Path, what: impl Into<String>) -> UsageError {
    UsageError::argument("run", path.display(), what)
}

/// Reads a JSON file of a run.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, UsageError> {
    let json = read_regular(path, LARGEST)
        .map_err(|error| unusable(path, format!("cannot be read ({error})")))?;
    serde_json::from_slice(&json).map_err(|error| unusable(path, format!("is damaged ({error})")))
}

/// Returns the error for a folder that cannot be written. `argument` is the name of the setting for
/// this folder.
pub(super) fn cannot_write(argument: &'static str, path: &Path, error: &io::Error) -> UsageError {
    // A broken link exists, too, although `Path::exists` returns false for it.
    let expected = if path.symlink_metadata().is_ok() && !path.is_dir() {
        "is not a folder; name one, or a path that does not exist".into()
    } else {
        format!("cannot be written ({error}); name a folder that can")
    };
    UsageError::argument(argument, path.display(), expected)
}

/// Returns the error for a file that cannot be written. `argument` is the name of the setting for
/// the file's folder.
pub(super) fn cannot_write_file(
    argument: &'static str,
    folder: &Path,
    name: &str,
    error: io::Error,
) -> anyhow::Error {
    let what = format!("its file {name} cannot be written ({error}); name another folder");
    let usage = UsageError::argument(argument, folder.display(), what);
    unwritable(&folder.join(name), error, usage)
}
