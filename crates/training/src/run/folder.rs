//! The folder in which a run keeps its settings, metrics, status and results.

use std::io;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result};
use serde::Serialize;

use super::checkpoint::{Checkpoints, MODEL};
use super::environment::{Environment, add_environment};
use super::latest::{CACHE, RUNS};
use super::layout::{
    CONFIG, METRICS, RUN_DIR, SUMMARY, cannot_write_file, check_names, check_output, is_own,
};
use super::lock::{LockedFolder, lock};
use super::metrics_log::MetricsLog;
use super::new_folder::{claim, next_free};
use super::status::{EndReason, Origin, RunStatus, Status, StatusWriter, read_status, stopped_by};
use super::{Event, Observer, Summary};
use crate::config::RunConfig;
use crate::error::UsageError;
use crate::files::{Checksum, remove_file, remove_files, remove_temporaries, write_json};

/// Name of the argument for the folder of an existing run, as errors show it.
const RUN: &str = "run";

fn cannot_write(file: &Path) -> String {
    format!("cannot write {}", file.display())
}

/// A run folder that this process has opened. Until the `RunFolder` is dropped, no other process
/// can open the folder, unless the file system does not support locks.
///
/// As an [`Observer`], it writes the metrics of steps and evaluations to `metrics.jsonl`.
///
/// If several processes train a run together, one of them opens or creates the folder, and the
/// others [follow](Self::follow) it.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Writers of the files; `None` in a process that follows another one.
    files: Option<Files>,
    /// Environment of this process; `None` until the process begins to train.
    environment: Option<Environment>,
}

/// The files that change during training.
#[derive(Debug)]
struct Files {
    metrics: MetricsLog,
    status: StatusWriter,
}

impl RunFolder {
    /// Creates the folder of a new run, with `config.json` and `status.json`. The folder is
    /// `run_dir` or, by default, the next free one of `runs/TASK-1`, `runs/TASK-2`, ...
    ///
    /// # Errors
    ///
    /// If the folder cannot be written, or if it is not empty.
    pub fn create(run_dir: Option<&Path>, config: &RunConfig) -> Result<Self> {
        Self::create_with(run_dir, config, |_| Ok(()))
    }

    /// Creates a folder like [`create`](Self::create), with other files that the run needs.
    ///
    /// `write_others` writes these files, such as those of
    /// [`Dataset::save`](crate::data::Dataset::save), before `config.json` is written.
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create), and any error of `write_others`.
    pub fn create_with(
        run_dir: Option<&Path>,
        config: &RunConfig,
        write_others: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        let is_new = !run_dir.is_some_and(Path::exists);
        let path = match run_dir {
            Some(path) => claim(path)?,
            None => next_free(Path::new(RUNS), config.data.name())?,
        };
        let locked = lock(&path, RUN_DIR)?;
        remove_temporaries(&path);
        let written = write_others(&path).and_then(|()| {
            let written = write_json(&path.join(CONFIG), config);
            written.map_err(|error| cannot_write_file(RUN_DIR, &path, CONFIG, error))
        });
        written.inspect_err(|_| {
            // A run that cannot begin leaves no folder.
            if is_new {
                let _ = remove_files(&path, is_own);
            }
        })?;
        let mut folder = Self::of_locked(locked, RUN_DIR)?;
        folder.write(|files| files.status.begin(0, config.optimization.steps))?;
        Ok(folder)
    }

    /// Opens the files of a folder. Errors name `argument`, the argument for the folder.
    fn of_locked(locked: LockedFolder, argument: &'static str) -> Result<Self> {
        let path = locked.path().to_owned();
        let metrics = MetricsLog::open(&path)
            .map_err(|error| cannot_write_file(argument, &path, METRICS, error))?;
        let status = StatusWriter::new(locked);
        Ok(Self {
            path,
            files: Some(Files { metrics, status }),
            environment: None,
        })
    }

    /// Returns the folder of a run that another process writes. Methods that would write a file
    /// write nothing.
    pub fn follow(path: &Path) -> Self {
        Self {
            path: path.into(),
            files: None,
            environment: None,
        }
    }

    /// Rejects a `run_dir` that has `caches`, the folder of cached corpora, in it or equals it, or
    /// that exists and is not an empty folder.
    ///
    /// Files of a process that was killed before it wrote `config.json` do not count. Call this
    /// function before a long preparation of data, to fail early.
    ///
    /// # Errors
    ///
    /// If `run_dir` has `caches` in it, is not empty, or cannot be read as a folder.
    pub fn check(run_dir: Option<&Path>, caches: &Path) -> Result<(), UsageError> {
        if let Some(path) = run_dir {
            let [run, inside] = [path, caches].map(|path| absolute(path).unwrap_or_default());
            if inside.starts_with(run) {
                let caches = caches.display();
                let what = format!("has the cache of corpora in it, {caches}; name another folder");
                return Err(UsageError::argument(RUN_DIR, path.display(), what));
            }
            if path.exists() {
                claim(path)?;
            }
            check_output(RUN_DIR, path)?;
        }
        check_output("cache", caches)
    }

    /// Returns the default folder of cached tokenisers and tokenised corpora, which is `cache`
    /// beside the run's folder.
    pub fn caches(run_dir: Option<&Path>) -> PathBuf {
        let Some(run_dir) = run_dir else {
            return Path::new(RUNS).join(CACHE);
        };
        // The path `.` has no usable parent, so the path is made absolute first.
        let whole = absolute(run_dir).unwrap_or(run_dir.into());
        whole.parent().unwrap_or(&whole).join(CACHE)
    }

    /// Opens the folder of a run to resume, and tidies up what a killed process left in it.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written, if another process trains in it, or if something else, such
    /// as a link, has the name of a file or folder of the run.
    pub fn open(path: &Path) -> Result<Self> {
        check_names(RUN, path)?;
        let locked = lock(path, RUN)?;
        Checkpoints::of(path).tidy();
        remove_temporaries(path);
        Self::of_locked(locked, RUN)
    }

    /// Truncates `metrics.jsonl` to its position at the checkpoint after `step` steps, so that a
    /// resumed run adds lines from there.
    ///
    /// Repairs a damaged file as far as possible, with a warning.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub fn rewind(&mut self, position: &Checksum, step: usize) -> Result<()> {
        self.write(|files| {
            let rewound = files.metrics.rewind(position, step);
            rewound.with_context(|| cannot_write(&files.metrics.path))
        })
    }

    /// Returns the number of steps after which the run has ended; `None` if it has not ended.
    ///
    /// The run has ended if `summary.json` exists and the status is finished. If a process was
    /// killed between writing the two files, the status is not finished.
    pub fn ended_at(&self) -> Option<usize> {
        let status = read_status(self.path()).ok()?;
        let has_ended = status.status == Status::Finished && self.path().join(SUMMARY).exists();
        has_ended.then_some(status.step)
    }

    /// Prepares the folder for training after `step` steps.
    ///
    /// Replaces `config.json`, removes `summary.json`, sets the status to running, and adds this
    /// process to `environment.json`, whose earlier entries are removed if `step` is 0.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be replaced or removed.
    pub fn begin_again(&mut self, config: &RunConfig, step: usize) -> Result<()> {
        let environment = self.environment.insert(Environment::current());
        let (Some(files), path) = (&mut self.files, &self.path) else {
            return Ok(());
        };
        let file = path.join(CONFIG);
        write_json(&file, config).with_context(|| cannot_write(&file))?;
        files.status.begin(step, config.optimization.steps)?;
        add_environment(path, environment, step == 0)?;
        remove_file(&path.join(SUMMARY)).context("cannot remove summary.json")
    }

    /// Records in `status.json` the number of steps taken and, if training has ended, the reason.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn record_progress(&mut self, step: usize, end: Option<&EndReason>) -> Result<()> {
        let reason = end.map(ToString::to_string);
        self.write(|files| {
            let change = |current: &mut RunStatus| (current.step, current.reason) = (step, reason);
            files.status.change(change)
        })
    }

    /// Records in `status.json` that the run was stopped by `by`, such as `SIGINT`.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn record_stop(&mut self, by: &str) -> Result<()> {
        self.write(|files| files.status.end(Status::Stopped, stopped_by(by)))
    }

    /// Records in `status.json` that the run has imported its checkpoint of step 0 from the file or
    /// folder `imported`, and has not been trained yet.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn record_import(&mut self, imported: &Path) -> Result<()> {
        let imported = absolute(imported).unwrap_or(imported.into());
        self.record_origin(Some(imported))?;
        let reason = "not trained yet".into();
        self.write(|files| files.status.end(Status::Imported, reason))
    }

    /// Records in `status.json` the model in the checkpoint of step 0, unless it is recorded.
    pub(crate) fn record_origin(&mut self, imported: Option<PathBuf>) -> Result<()> {
        let sha256 = Checkpoints::of(&self.path).sha256(0, MODEL);
        let origin = sha256.map(|sha256| Origin { imported, sha256 });
        let change = |it: &mut RunStatus| it.began_with = it.began_with.take().or(origin);
        self.write(|files| files.status.change(change))
    }

    /// Records in `status.json` the error that ended the run, and returns the error to report. This is
    /// `error`, unless it is that of a missing file, because the folder was removed, renamed or
    /// replaced.
    pub fn record_failure(&mut self, error: anyhow::Error) -> anyhow::Error {
        let unrecorded = self.write(|files| files.status.fail(&error)).err();
        let cause = error.root_cause().downcast_ref::<io::Error>();
        let is_missing = cause.is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound);
        unrecorded.filter(|_| is_missing).unwrap_or(error)
    }

    /// Returns the environment of this process; `None` until the process
    /// [begins](Self::begin_again) to train.
    pub fn environment(&self) -> Option<&Environment> {
        self.environment.as_ref()
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `write`, unless another process writes the folder.
    fn write<T: Default>(&mut self, write: impl FnOnce(&mut Files) -> Result<T>) -> Result<T> {
        self.files.as_mut().map_or(Ok(T::default()), write)
    }

    /// Adds a line to `metrics.jsonl`.
    fn log(&mut self, metrics: &impl Serialize) -> Result<()> {
        self.write(|files| {
            let done = files.metrics.add(metrics);
            done.with_context(|| cannot_write(&files.metrics.path))
        })
    }

    /// Passes all lines of `metrics.jsonl` to the operating system, so that they are not lost if
    /// the process is killed.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the folder was removed, renamed or replaced.
    pub fn flush(&mut self) -> Result<()> {
        self.write(|files| {
            files.status.folder.check()?;
            let done = files.metrics.flush();
            done.with_context(|| cannot_write(&files.metrics.path))
        })
    }

    /// Waits until `metrics.jsonl` is on the disk, and returns its position. In a process that
    /// follows another one, the position is 0.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the folder was removed, renamed or replaced.
    pub fn sync(&mut self) -> Result<Checksum> {
        self.write(|files| {
            files.status.folder.check()?;
            let done = files.metrics.sync();
            done.with_context(|| cannot_write(&files.metrics.path))
        })
    }

    /// Writes `summary.json` and the last lines of `metrics.jsonl`. The run then counts as
    /// finished.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be written.
    pub fn finish(mut self, summary: &Summary) -> Result<()> {
        self.sync()?;
        let path = self.path.join(SUMMARY);
        self.write(|files| {
            write_json(&path, summary).with_context(|| cannot_write(&path))?;
            let finish = |current: &mut RunStatus| current.status = Status::Finished;
            files.status.change(finish)
        })
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
mod tests;
