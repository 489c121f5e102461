//! Names of the files in a run folder, and errors about files and folders that cannot be used.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf, absolute};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::data::parallel::is_in_cache;
use crate::error::{UsageError, unwritable};
use crate::files::read_regular;

/// Name of the argument for the folder of a new run, as errors show it.
pub(super) const RUN_DIR: &str = "run_dir";

/// Configuration of the run, or of one of its checkpoints.
pub const CONFIG: &str = "config.json";

/// Metrics of every step and evaluation, one line of JSON each.
pub const METRICS: &str = "metrics.jsonl";

/// A damaged `metrics.jsonl` that a resumed run has repaired, as it was.
pub(super) const DAMAGED: &str = "metrics.damaged.jsonl";

/// Results of the finished run.
pub(crate) const SUMMARY: &str = "summary.json";

/// Status of the run, and why it ended.
pub const STATUS: &str = "status.json";

/// Where and how each process of the run was started or resumed.
pub(crate) const ENVIRONMENT: &str = "environment.json";

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
    for name in FILES.iter().chain(&FOLDERS) {
        let path = folder.join(name);
        // For a link, this is the metadata of the link itself, not of its target.
        let Ok(found) = path.symlink_metadata() else {
            continue;
        };
        let (fits, what) = if FOLDERS.contains(name) {
            (found.is_dir(), "folder")
        } else {
            (found.is_file(), "regular file")
        };
        if !fits {
            let why =
                format!("must be a {what}, and not a link; a whole run may be moved or linked");
            return Err(UsageError::argument(argument, path.display(), why));
        }
    }
    Ok(())
}

/// Rejects an output that would replace a file of a run, of a Hugging Face model or of a cache, or
/// a lock, or that would be inside the checkpoints of a run, which training removes; and a new run
/// anywhere inside another one. `name` is the name of the output in the error.
///
/// # Errors
///
/// If `path`, a file or a folder, is in such a place.
pub fn check_output(name: &'static str, path: &Path) -> Result<(), UsageError> {
    let whole = resolved(path);
    let is_inside = |run: &Path| {
        let inside = whole.strip_prefix(run).ok();
        let inside = inside.and_then(|path| path.iter().next());
        let is_own = |own: &OsStr| name == RUN_DIR || is_own(&own.to_string_lossy());
        is_run(run) && inside.is_some_and(is_own)
    };
    let whose = if let Some(run) = whole.ancestors().skip(1).find(|run| is_inside(run)) {
        format!("in the folder of the run {}", run.display())
    } else if whole.is_file() && whole.parent().is_some_and(is_pretrained) {
        "a file of a Hugging Face model".into()
    } else if whole.is_file() && whole.file_name() == Some(LOCK.as_ref()) {
        "the lock of a run or of a cache".into()
    } else if is_in_cache(&whole) {
        "among the files of a cache".into()
    } else if path.starts_with("/dev") && !whole.starts_with("/dev") && whole.is_file() {
        // Such as /dev/stdout, where a shell has appended to the file.
        format!("{}, which is open already", whole.display())
    } else {
        return Ok(());
    };
    let what = format!("is {whose}; name another path");
    Err(UsageError::argument(name, path.display(), what))
}

/// Returns whether a folder holds a run.
pub(super) fn is_run(folder: &Path) -> bool {
    let marks = [STATUS, METRICS, CHECKPOINTS];
    let has = |name: &str| folder.join(name).exists();
    has(CONFIG) && marks.into_iter().any(has)
}

/// Returns whether a folder holds a Hugging Face model, and not a run.
pub fn is_pretrained(folder: &Path) -> bool {
    let config: Value = read_json(&folder.join(CONFIG)).unwrap_or_default();
    config.get("model_type").is_some()
}

/// Returns whether an entry of a run folder has a name that a run gives to its own files.
pub(super) fn is_own(name: &str) -> bool {
    FILES.contains(&name)
        || name == CHECKPOINTS
        || name.starts_with("metrics.damaged")
        || name.ends_with("tokenizer.json")
        || name.starts_with("events.out.tfevents.")
}

/// Returns a path without links and `..`. What does not exist of it is taken as it is named.
fn resolved(path: &Path) -> PathBuf {
    let path = absolute(path).unwrap_or(path.into());
    let found = path
        .ancestors()
        .find_map(|known| Some((known, known.canonicalize().ok()?)));
    let Some((known, mut whole)) = found else {
        return path;
    };
    let rest = path.strip_prefix(known).into_iter();
    for part in rest.flat_map(Path::components) {
        if part == Component::ParentDir {
            whole.pop();
        } else {
            whole.push(part);
        }
    }
    whole
}

/// Returns whether a file or folder is known not to exist. It may exist if, for example, its folder
/// cannot be read.
pub fn is_missing(path: &Path) -> bool {
    match path.try_exists() {
        Ok(exists) => !exists,
        Err(error) => error.kind() == ErrorKind::NotADirectory,
    }
}

/// Returns the error that a run's file or folder, `path`, cannot be used. `what` says why. The
/// error is about the argument `run`.
pub fn unusable(path: &Path, what: impl Into<String>) -> UsageError {
    UsageError::argument("run", path.display(), what)
}

/// Reads a file of a run that has at most `mebibytes` MiB.
pub(super) fn read_file(path: &Path, mebibytes: u64) -> Result<Vec<u8>, UsageError> {
    read_regular(path, mebibytes)
        .map_err(|error| unusable(path, format!("cannot be read ({error})")))
}

/// Reads a JSON file of a run.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, UsageError> {
    let json = read_file(path, LARGEST)?;
    let damaged = |what: String| unusable(path, format!("is damaged ({what})"));
    let json: Value = serde_json::from_slice(&json).map_err(|error| damaged(error.to_string()))?;
    // The error names the key.
    serde_path_to_error::deserialize(json).map_err(|error| damaged(error.to_string()))
}

/// Reads a JSON file that a run may not have. Returns an empty value if it does not exist.
pub(crate) fn read_json_if_any<T: DeserializeOwned + Default>(
    path: &Path,
) -> Result<T, UsageError> {
    if is_missing(path) {
        Ok(T::default())
    } else {
        read_json(path)
    }
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
