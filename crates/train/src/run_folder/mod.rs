//! The folder that a run lives in and explains itself by.

mod records;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::checkpoint::Checkpoints;
use crate::config::{RunConfig, TaskConfig};
use crate::config_file;
use crate::disk::write_json;
use crate::error::UsageError;
use crate::task::Task;

pub use records::{Evaluation, StepMetrics, Summary};

/// The configuration, of a run or of one of its checkpoints.
pub const CONFIG: &str = "config.json";

const LOCK: &str = "lock";

/// The flag that names a new folder.
const RUN_DIR: &str = "--run-dir";

/// An open run folder: `config.json`, `metrics.jsonl`, `summary.json`, `checkpoints/step-N/`. No
/// other process can train in it as long as it is open.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    metrics: BufWriter<File>,
    /// Locked; the system unlocks it when the process ends, however it ends.
    _lock: File,
}

impl RunFolder {
    /// Creates the folder that `--run-dir` names, or else the next free one of
    /// `runs/TASK-1`, `runs/TASK-2`, ...; then writes `config.json`.
    ///
    /// # Errors
    ///
    /// A folder that cannot be written, or that holds something already.
    pub fn create(run_dir: Option<&Path>, config: &RunConfig) -> Result<Self> {
        Self::create_with(run_dir, config, |_| Ok(()))
    }

    /// The same, with other files that a run needs: they are there before `config.json` is.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create), and those of `others`.
    pub fn create_with(
        run_dir: Option<&Path>,
        config: &RunConfig,
        others: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let path = match run_dir {
            Some(path) => claim(path)?,
            None => next_free(Path::new("runs"), config.task.name())?,
        };
        let lock = lock(&path, RUN_DIR)?;
        others(&path)?;
        write_json(&path.join(CONFIG), config)
            .map_err(|error| cannot_write(RUN_DIR, &path, &error))?;
        let metrics = File::create(path.join("metrics.jsonl"))
            .map_err(|error| cannot_write(RUN_DIR, &path, &error))?;
        Ok(Self {
            path,
            metrics: BufWriter::new(metrics),
            _lock: lock,
        })
    }

    /// Refuses a `--run-dir` that holds something already, before anything that takes long.
    ///
    /// # Errors
    ///
    /// A folder that cannot be written, or that is not empty.
    pub fn check(run_dir: Option<&Path>) -> Result<(), UsageError> {
        match run_dir.filter(|path| path.exists()) {
            Some(path) => claim(path).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Where tokenised corpora are kept: beside the run's folder.
    pub fn caches(run_dir: Option<&Path>) -> PathBuf {
        let Some(run_dir) = run_dir else {
            return Path::new("runs").join("cache");
        };
        // `.` has a parent, too.
        let whole = std::path::absolute(run_dir).unwrap_or(run_dir.into());
        whole.parent().unwrap_or(&whole).join("cache")
    }

    /// Opens the folder of a run that is to go on, and puts right what a killed process left in it.
    ///
    /// # Errors
    ///
    /// A folder that cannot be written, or another process that trains in it.
    pub fn open(path: &Path) -> Result<Self> {
        let lock = lock(path, "RUN")?;
        Checkpoints::of(path).tidy();
        let metrics = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("metrics.jsonl"))
            .map_err(|error| cannot_write("RUN", path, &error))?;
        Ok(Self {
            path: path.into(),
            metrics: BufWriter::new(metrics),
            _lock: lock,
        })
    }

    /// Takes `metrics.jsonl` back to its first bytes; what was logged after them will be logged
    /// again.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or has fewer bytes.
    pub fn rewind(&mut self, bytes: u64) -> Result<()> {
        let path = self.path.join("metrics.jsonl");
        let file = self.metrics.get_mut();
        let rewind = |file: &mut File| {
            let length = file.metadata()?.len();
            file.set_len(bytes.min(length))?;
            file.seek(std::io::SeekFrom::End(0))?;
            Ok::<_, std::io::Error>(length)
        };
        let length = rewind(file).with_context(|| format!("cannot write {}", path.display()))?;
        if length < bytes {
            crate::output::note(&format!(
                "warning: {} has {length} bytes, but had {bytes} at the checkpoint: lines are missing",
                path.display()
            ));
        }
        Ok(())
    }

    /// The step after which the run ended, if it did.
    pub fn ended_at(&self) -> Option<usize> {
        let summary = fs::read(self.path.join("summary.json")).ok()?;
        let summary: serde_json::Value = serde_json::from_slice(&summary).ok()?;
        summary.get("steps")?.as_u64()?.try_into().ok()
    }

    /// Replaces `config.json`, and takes `summary.json` away until the run has ended again.
    ///
    /// # Errors
    ///
    /// If they cannot be.
    pub fn begin_again(&self, config: &RunConfig) -> Result<()> {
        write_json(&self.path.join(CONFIG), config).context("cannot write config.json")?;
        match fs::remove_file(self.path.join("summary.json")) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).context("cannot remove summary.json")
            }
            _ => Ok(()),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line to `metrics.jsonl`.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn log(&mut self, metrics: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(metrics)?;
        writeln!(self.metrics, "{line}").context("cannot write metrics.jsonl")
    }

    /// Hands the lines to the system, so that they survive the process.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.metrics.flush().context("cannot write metrics.jsonl")
    }

    /// Writes the lines down to the disk and returns how many bytes they are.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn sync(&mut self) -> Result<u64> {
        self.flush()?;
        let file = self.metrics.get_ref();
        file.sync_data()
            .and_then(|()| Ok(file.metadata()?.len()))
            .context("cannot write metrics.jsonl")
    }

    /// Writes `summary.json` and what is left of `metrics.jsonl`.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn finish(mut self, summary: &Summary) -> Result<()> {
        self.sync()?;
        write_json(&self.path.join("summary.json"), summary).context("cannot write summary.json")
    }
}

/// Locks the folder against other processes, until the file is closed.
fn lock(folder: &Path, what: &str) -> Result<File, UsageError> {
    let path = folder.join(LOCK);
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| cannot_write(what, folder, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            let _ = file.read_to_string(&mut process);
            return Err(UsageError::new(
                what,
                folder.display(),
                format!(
                    "is in use by another process ({}); wait until it has ended",
                    process.trim()
                ),
            ));
        }
        // Some network folders have no locks.
        Err(TryLockError::Error(_)) => return Ok(file),
    }
    let name = format!("process {}\n", std::process::id());
    file.set_len(0)
        .and_then(|()| file.write_all(name.as_bytes()))
        .map_err(|error| cannot_write(what, folder, &error))?;
    Ok(file)
}

/// `what` says where the folder was named.
fn cannot_write(what: &str, path: &Path, error: &std::io::Error) -> UsageError {
    let expected = format!("cannot be written ({error}); name a folder that can");
    UsageError::new(what, path.display(), expected)
}

/// A new or empty folder at this path.
fn claim(path: &Path) -> Result<PathBuf, UsageError> {
    fs::create_dir_all(path).map_err(|error| cannot_write(RUN_DIR, path, &error))?;
    let mut entries = fs::read_dir(path).map_err(|error| cannot_write(RUN_DIR, path, &error))?;
    // What a process leaves that was killed before it wrote its config.json.
    let is_ours = path.join(LOCK).exists();
    let is_left = |name: &OsStr| {
        let name = name.to_string_lossy();
        let is_tokenizer = is_ours && name.contains("tokenizer.json");
        name == LOCK || name == "config.json.tmp" || is_tokenizer
    };
    if entries.any(|entry| !entry.is_ok_and(|entry| is_left(&entry.file_name()))) {
        let what = if path.join(CONFIG).exists() {
            "already holds a run"
        } else {
            "is not empty"
        };
        return Err(UsageError::new(
            RUN_DIR,
            path.display(),
            format!("{what}; name another folder, or remove this one first"),
        ));
    }
    Ok(path.into())
}

/// Creates `NAME-N` with the smallest `N` above all that are there.
fn next_free(parent: &Path, name: &str) -> Result<PathBuf, UsageError> {
    fs::create_dir_all(parent).map_err(|error| cannot_write(RUN_DIR, parent, &error))?;
    let entries = fs::read_dir(parent).map_err(|error| cannot_write(RUN_DIR, parent, &error))?;
    let taken = entries.filter_map(|entry| {
        let file_name = entry.ok()?.file_name();
        let number = file_name.to_str()?.strip_prefix(name)?.strip_prefix('-')?;
        number.parse::<u64>().ok()
    });
    let first = taken.max().map_or(1, |last| last.saturating_add(1));
    for number in first.. {
        let path = parent.join(format!("{name}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            // Another run was faster.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot_write(RUN_DIR, &path, &error)),
        }
    }
    unreachable!("there are not that many runs")
}

/// A path of a run folder, and what is wrong there.
pub(crate) fn wrong(path: &Path, what: impl Into<String>) -> UsageError {
    UsageError::new("RUN", path.display(), what)
}

/// The bytes of a run folder's `config.json`.
///
/// # Errors
///
/// A folder that is no run's.
pub(crate) fn read_config_json(folder: &Path) -> Result<Vec<u8>, UsageError> {
    const HINT: &str = "name the folder of a run, such as runs/copy-1";
    if !folder.is_dir() {
        let what = if folder.exists() {
            "is not a folder"
        } else {
            "does not exist"
        };
        return Err(wrong(folder, format!("{what}; {HINT}")));
    }
    let path = folder.join(CONFIG);
    if !path.exists() {
        return Err(wrong(folder, format!("has no config.json; {HINT}")));
    }
    fs::read(&path).map_err(|error| wrong(&path, format!("cannot be read ({error})")))
}

/// The configuration of a run folder, and its task.
///
/// # Errors
///
/// A folder that is no run's.
pub fn read_config(folder: &Path) -> Result<(RunConfig, Box<dyn Task>), UsageError> {
    let json = read_config_json(folder)?;
    let unusable = |what: &str| {
        let what = what.lines().next().unwrap_or_default();
        let what = format!("is not the configuration of a run ({what})");
        wrong(&folder.join(CONFIG), what)
    };
    let file: serde_json::Value =
        serde_json::from_slice(&json).map_err(|error| unusable(&error.to_string()))?;
    // What is not said elsewhere may be a default; a run without these was written by nobody.
    for key in ["task", "model"] {
        if file.get(key).is_none() {
            return Err(unusable(&format!("it has no key {key}")));
        }
    }
    let mut config = config_file::over_defaults(file).map_err(|what| unusable(&what))?;
    let task = config
        .resolve_in(Some(folder))
        .map_err(|error| match config.task {
            // It names the tokeniser.
            TaskConfig::Text(_) => error,
            _ => unusable(&error.to_string()),
        })?;
    Ok((config, task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_numbered() {
        let parent = tempfile::tempdir().unwrap();
        let create = || next_free(parent.path(), "copy").unwrap();
        assert!(create().ends_with("copy-1"));
        assert!(create().ends_with("copy-2"));
        fs::create_dir(parent.path().join("copy-9")).unwrap();
        fs::create_dir(parent.path().join("copy-x")).unwrap();
        assert!(
            next_free(parent.path(), "copy")
                .unwrap()
                .ends_with("copy-10")
        );
    }

    #[test]
    fn only_new_or_empty_folders_are_taken() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        assert_eq!(claim(&path).unwrap(), path);
        assert_eq!(claim(&path).unwrap(), path);
        drop(lock(&path, "RUN").unwrap());
        assert_eq!(claim(&path).unwrap(), path);
        fs::write(path.join("notes"), "").unwrap();
        assert!(
            claim(&path)
                .unwrap_err()
                .to_string()
                .contains("is not empty")
        );
        fs::write(path.join(CONFIG), "").unwrap();
        let error = claim(&path).unwrap_err().to_string();
        assert!(error.contains("already holds a run"), "{error}");
    }
}
