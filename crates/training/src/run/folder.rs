//! The folder that a run writes everything about itself into.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::checkpoint::Checkpoints;
use super::environment::{Environment, add_environment};
use super::latest::RUNS;
use super::layout::{CONFIG, METRICS, SUMMARY, cannot_write_file};
use super::lock::{lock, open};
use super::new_folder::{RUN_DIR, claim, next_free};
use super::status::{EndReason, Status, StatusWriter, read_status};
use super::{Event, Observer, Summary};
use crate::config::RunConfig;
use crate::error::UsageError;
use crate::files::{remove_file, remove_temporaries, write_json};
use crate::notes;

/// Name of the argument that names the folder of an existing run, for errors.
const RUN: &str = "run";

/// An open run folder. No other process can train in it as long as it is open.
///
/// As an [`Observer`], it writes the metrics of steps and evaluations to `metrics.jsonl`.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    metrics: BufWriter<File>,
    status: StatusWriter,
    /// Environment of this process; `None` until it begins to train.
    environment: Option<Environment>,
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
            None => next_free(Path::new(RUNS), config.data.name())?,
        };
        let lock = lock(&path, RUN_DIR)?;
        write_others(&path)?;
        let written = write_json(&path.join(CONFIG), config);
        written.map_err(|error| cannot_write_file(RUN_DIR, &path, CONFIG, error))?;
        let metrics = File::create(path.join(METRICS));
        let metrics = metrics.map_err(|error| cannot_write_file(RUN_DIR, &path, METRICS, error))?;
        let mut status = StatusWriter::new(&path);
        status.begin(0, config.optimization.steps)?;
        Ok(Self {
            path,
            metrics: BufWriter::new(metrics),
            status,
            environment: None,
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
            return Path::new(RUNS).join("cache");
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
        remove_temporaries(path);
        let metrics = open(&path.join(METRICS));
        let metrics = metrics.map_err(|error| cannot_write_file(RUN, path, METRICS, error))?;
        Ok(Self {
            path: path.into(),
            metrics: BufWriter::new(metrics),
            status: StatusWriter::new(path),
            environment: None,
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

    /// Returns the number of steps after which the run has ended; `None` if it has not. A process
    /// that is killed after it has written `summary.json` may leave a `status.json` that says that
    /// the run is running, which then has not ended.
    pub fn ended_at(&self) -> Option<usize> {
        let status = read_status(&self.path).ok()?;
        if status.is_some_and(|status| status.status != Status::Finished) {
            return None;
        }
        let summary = fs::read(self.path.join(SUMMARY)).ok()?;
        let summary: Value = serde_json::from_slice(&summary).ok()?;
        summary.get("steps")?.as_u64()?.try_into().ok()
    }

    /// Replaces `config.json`, removes `summary.json` until the run ends again, records that the run
    /// is running after `step` steps, and adds this process to `environment.json`.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be replaced or removed.
    pub fn begin_again(&mut self, config: &RunConfig, step: usize) -> Result<()> {
        write_json(&self.path.join(CONFIG), config).context("cannot write config.json")?;
        self.status.begin(step, config.optimization.steps)?;
        let environment = self.environment.insert(Environment::current());
        add_environment(&self.path, environment, step == 0)?;
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

    /// Returns the environment of this process; `None` before it [begins](Self::begin_again) to
    /// train.
    pub fn environment(&self) -> Option<&Environment> {
        self.environment.as_ref()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::layout::STATUS;
    use crate::run::records::StepMetrics;

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
    fn a_run_that_was_killed_between_its_last_two_files_has_not_ended() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        drop(RunFolder::create(Some(&path), &RunConfig::copy()).unwrap());
        fs::write(path.join(SUMMARY), r#"{"steps":12}"#).unwrap();
        fs::write(path.join("summary.json.12.tmp"), "{").unwrap();
        let running = r#"{"status":"running","step":12,"steps":12}"#;
        fs::write(path.join(STATUS), running).unwrap();
        let folder = RunFolder::open(&path).unwrap();
        assert_eq!(folder.ended_at(), None);
        assert!(!path.join("summary.json.12.tmp").exists());
        let finished = running.replace("running", "finished");
        fs::write(path.join(STATUS), finished).unwrap();
        assert_eq!(folder.ended_at(), Some(12));
        // A run of an earlier version has no status.
        fs::remove_file(path.join(STATUS)).unwrap();
        assert_eq!(folder.ended_at(), Some(12));
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
