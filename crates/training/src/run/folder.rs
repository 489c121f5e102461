//! The folder that a run writes everything about itself into.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::checkpoint::Checkpoints;
use super::layout::{CONFIG, LOCK, METRICS, SUMMARY, cannot_write};
use super::lock::{lock, open};
use super::status::{EndReason, StatusWriter};
use super::{Event, Observer, Summary};
use crate::config::RunConfig;
use crate::error::UsageError;
use crate::files::{remove_file, write_json};
use crate::notes;

/// Names of the arguments that name a folder, for errors: of a new run, and of an existing run.
const RUN_DIR: &str = "run_dir";
const RUN: &str = "run";

/// An open run folder. No other process can train in it as long as it is open.
///
/// As an [`Observer`], it writes the metrics of steps and evaluations to `metrics.jsonl`.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    metrics: BufWriter<File>,
    status: StatusWriter,
    /// The locked file. It is the last field, so that the folder is unlocked after the last status
    /// is written.
    _lock: File,
}

impl RunFolder {
    /// Creates the folder `run_dir`, or else the next free one of `runs/TASK-1`, `runs/TASK-2`, ...,
    /// and writes `config.json`.
    ///
    /// # Errors
    ///
    /// A folder that cannot be written, or that is not empty.
    pub fn create(run_dir: Option<&Path>, config: &RunConfig) -> Result<Self> {
        Self::create_with(run_dir, config, |_| Ok(()))
    }

    /// Creates a folder like [`create`](Self::create). Before `config.json`, `write_others` writes
    /// other files that the run needs, such as those of
    /// [`Dataset::save`](crate::data::Dataset::save).
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create), and those of `write_others`.
    pub fn create_with(
        run_dir: Option<&Path>,
        config: &RunConfig,
        write_others: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let path = match run_dir {
            Some(path) => claim(path)?,
            None => next_free(Path::new("runs"), config.data.name())?,
        };
        let lock = lock(&path, RUN_DIR)?;
        write_others(&path)?;
        let written = write_json(&path.join(CONFIG), config);
        let metrics = written.and_then(|()| File::create(path.join(METRICS)));
        let metrics = metrics.map_err(|error| cannot_write(RUN_DIR, &path, &error))?;
        let mut status = StatusWriter::new(&path);
        status.begin(0, config.optimization.steps)?;
        Ok(Self {
            path,
            metrics: BufWriter::new(metrics),
            status,
            _lock: lock,
        })
    }

    /// Rejects a `run_dir` that [`create`](Self::create) would reject, or that is the folder
    /// `caches` of tokenised corpora. A check before a long preparation of data saves the wait.
    ///
    /// # Errors
    ///
    /// A folder that cannot be written, that is not empty, or that is `caches`.
    pub fn check(run_dir: Option<&Path>, caches: &Path) -> Result<(), UsageError> {
        let Some(path) = run_dir else {
            return Ok(());
        };
        if absolute(path).ok() == absolute(caches).ok() {
            let what = "is where tokenised corpora are kept; name another folder";
            return Err(UsageError::setting(RUN_DIR, path.display(), what));
        }
        if path.exists() {
            claim(path)?;
        }
        Ok(())
    }

    /// Returns the default folder of tokenised corpora: `cache` beside the run's folder.
    pub fn caches(run_dir: Option<&Path>) -> PathBuf {
        let Some(run_dir) = run_dir else {
            return Path::new("runs").join("cache");
        };
        // A relative path such as `.` has no parent.
        let whole = absolute(run_dir).unwrap_or(run_dir.into());
        whole.parent().unwrap_or(&whole).join("cache")
    }

    /// Opens the folder of a run that is resumed, and tidies up what a killed process left in it.
    ///
    /// # Errors
    ///
    /// A folder that cannot be written, or in which another process trains.
    pub fn open(path: &Path) -> Result<Self> {
        let lock = lock(path, RUN)?;
        Checkpoints::of(path).tidy();
        let metrics = open(&path.join(METRICS)).map_err(|error| cannot_write(RUN, path, &error))?;
        Ok(Self {
            path: path.into(),
            metrics: BufWriter::new(metrics),
            status: StatusWriter::new(path),
            _lock: lock,
        })
    }

    /// Truncates `metrics.jsonl` to its first `bytes` bytes, after which a resumed run logs again.
    /// Warns if the file is shorter.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn rewind(&mut self, bytes: u64) -> Result<()> {
        let path = self.path.join(METRICS);
        let file = self.metrics.get_mut();
        let rewind = |file: &mut File| {
            let length = file.metadata()?.len();
            file.set_len(bytes.min(length))?;
            file.seek(SeekFrom::End(0))?;
            Ok::<_, io::Error>(length)
        };
        let length = rewind(file).with_context(|| format!("cannot write {}", path.display()))?;
        if length < bytes {
            notes::warn(&format!(
                "{} has {length} bytes, but had {bytes} at the checkpoint: lines are missing",
                path.display()
            ));
        }
        Ok(())
    }

    /// Returns the number of steps after which the run has ended; `None` if it has not.
    pub fn ended_at(&self) -> Option<usize> {
        let summary = fs::read(self.path.join(SUMMARY)).ok()?;
        let summary: Value = serde_json::from_slice(&summary).ok()?;
        summary.get("steps")?.as_u64()?.try_into().ok()
    }

    /// Replaces `config.json`, removes `summary.json` until the run ends again, and records that the
    /// run is running after `step` steps.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be replaced or removed.
    pub fn begin_again(&mut self, config: &RunConfig, step: usize) -> Result<()> {
        write_json(&self.path.join(CONFIG), config).context("cannot write config.json")?;
        self.status.begin(step, config.optimization.steps)?;
        remove_file(&self.path.join(SUMMARY)).context("cannot remove summary.json")
    }

    /// Records in `status.json` how many steps were taken, and why training ended if it has.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn record_progress(&mut self, step: usize, end: Option<&EndReason>) -> Result<()> {
        self.status.progress(step, end)
    }

    /// Records in `status.json` that `by`, such as `SIGINT`, stopped the run.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn record_stop(&mut self, by: &str) -> Result<()> {
        self.status.stop(by)
    }

    /// Records in `status.json` the error that ended the run. A file that cannot be written is not
    /// an error, because the first one is the one to report.
    pub fn record_failure(&mut self, error: &anyhow::Error) {
        let _ = self.status.fail(error);
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line to `metrics.jsonl`.
    fn log(&mut self, metrics: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(metrics)?;
        writeln!(self.metrics, "{line}").context("cannot write metrics.jsonl")
    }

    /// Passes the lines of `metrics.jsonl` to the system, so that they outlive the process.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.metrics.flush().context("cannot write metrics.jsonl")
    }

    /// Waits until `metrics.jsonl` is on the disk, and returns its length in bytes.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn sync(&mut self) -> Result<u64> {
        self.flush()?;
        let file = self.metrics.get_ref();
        file.sync_data()
            .and_then(|()| Ok(file.metadata()?.len()))
            .context("cannot write metrics.jsonl")
    }

    /// Writes `summary.json` and the last lines of `metrics.jsonl`. From now on, the run counts as
    /// finished.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be written.
    pub fn finish(mut self, summary: &Summary) -> Result<()> {
        self.sync()?;
        write_json(&self.path.join(SUMMARY), summary).context("cannot write summary.json")?;
        self.status.finish()
    }
}

impl Observer for RunFolder {
    fn event(&mut self, event: Event<'_>) -> Result<()> {
        match event {
            Event::Metrics(metrics) => self.log(metrics),
            Event::Evaluation(evaluation) => self.log(evaluation),
            _ => Ok(()),
        }
    }
}

/// Creates the folder at this path, or rejects one that is not empty.
fn claim(path: &Path) -> Result<PathBuf, UsageError> {
    let mut entries = entries(path)?;
    // These files are left by a process that was killed before it had written its config.json.
    let is_ours = path.join(LOCK).exists();
    let is_left = |name: &OsStr| {
        let name = name.to_string_lossy();
        let is_tokenizer = is_ours && name.contains("tokenizer.json");
        let is_config = name.starts_with(CONFIG) && name.ends_with(".tmp");
        name == LOCK || is_config || is_tokenizer
    };
    if entries.any(|entry| !entry.is_ok_and(|entry| is_left(&entry.file_name()))) {
        let what = match path.join(CONFIG).exists() {
            true => "already holds a run",
            false => "is not empty",
        };
        let expected = format!("{what}; name another folder, or remove this one first");
        return Err(UsageError::setting(RUN_DIR, path.display(), expected));
    }
    Ok(path.into())
}

/// Creates a folder if it does not exist, and returns what is in it.
fn entries(folder: &Path) -> Result<fs::ReadDir, UsageError> {
    let entries = fs::create_dir_all(folder).and_then(|()| fs::read_dir(folder));
    entries.map_err(|error| cannot_write(RUN_DIR, folder, &error))
}

/// Creates the folder `NAME-N` with the smallest `N` above those of all existing folders.
fn next_free(parent: &Path, name: &str) -> Result<PathBuf, UsageError> {
    let taken = entries(parent)?.filter_map(|entry| {
        let file_name = entry.ok()?.file_name();
        let number = file_name.to_str()?.strip_prefix(name)?.strip_prefix('-')?;
        number.parse::<u64>().ok()
    });
    let first = taken.max().map_or(1, |last| last.saturating_add(1));
    for number in first.. {
        let path = parent.join(format!("{name}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            // Another process has created it in the meantime.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot_write(RUN_DIR, &path, &error)),
        }
    }
    unreachable!("there are fewer than 2^64 runs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::records::StepMetrics;

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
    fn only_new_or_empty_folders_are_claimed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        assert_eq!(claim(&path).unwrap(), path);
        assert_eq!(claim(&path).unwrap(), path);
        drop(lock(&path, RUN).unwrap());
        assert_eq!(claim(&path).unwrap(), path);
        fs::write(path.join("config.json.tmp"), "").unwrap();
        fs::write(path.join("config.json.123.tmp"), "").unwrap();
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
    #[test]
    fn a_run_folder_cannot_be_the_folder_of_caches() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("cache");
        let caches = RunFolder::caches(Some(&parent.path().join("run")));
        let error = RunFolder::check(Some(&path), &caches).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("cache: is where tokenised corpora are kept; name another folder"),
            "{error}"
        );
        assert!(!path.exists());
        let path = parent.path().join("run");
        assert_eq!(RunFolder::check(Some(&path), &caches), Ok(()));
        assert_eq!(RunFolder::check(None, &caches), Ok(()));
        fs::create_dir_all(path.join("something")).unwrap();
        let error = RunFolder::check(Some(&path), &caches).unwrap_err();
        assert!(error.to_string().contains("run: is not empty"), "{error}");
    }

    #[test]
    fn the_observer_logs_metrics_and_rewind_removes_them() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let config = RunConfig::copy();
        let mut folder = RunFolder::create(Some(&path), &config).unwrap();
        let metrics = |step| StepMetrics {
            step,
            loss: 0.5,
            learning_rate: 0.25,
            gradient_norm: 2.0,
            tokens: 8,
            padding: 0.0,
            seconds: 0.123_46,
            tokens_per_second: 64.79,
            skipped: false,
        };
        let line = |step: usize| {
            format!(
                r#"{{"step":{step},"loss":0.5,"learning_rate":0.25,"gradient_norm":2.0,"tokens":8,"padding":0.0,"seconds":0.1235,"tokens_per_second":64.8}}"#
            )
        };
        let read = || fs::read_to_string(path.join(METRICS)).unwrap();
        folder.event(Event::Metrics(&metrics(1))).unwrap();
        let bytes = folder.sync().unwrap();
        assert_eq!(read(), line(1) + "\n");
        assert_eq!(bytes, line(1).len() as u64 + 1);
        let (first, steps) = (1, 2);
        folder.event(Event::Begin { first, steps }).unwrap();
        folder.event(Event::Metrics(&metrics(2))).unwrap();
        folder.flush().unwrap();
        folder.rewind(bytes).unwrap();
        folder.event(Event::Metrics(&metrics(3))).unwrap();
        folder.flush().unwrap();
        assert_eq!(read(), format!("{}\n{}\n", line(1), line(3)));
    }

    #[test]
    fn a_folder_in_use_is_not_opened_again() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let folder = RunFolder::create(Some(&path), &RunConfig::copy()).unwrap();
        let error = RunFolder::open(&path).unwrap_err().to_string();
        let process = format!(
            "is in use by another process (process {})",
            std::process::id()
        );
        assert!(
            error.starts_with("run ") && error.contains(&process),
            "{error}"
        );
        drop(folder);
        RunFolder::open(&path).unwrap();
    }
}
