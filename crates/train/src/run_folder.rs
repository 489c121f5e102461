//! The folder that a run lives in and explains itself by.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::checkpoint::Checkpoints;
use crate::config::RunConfig;
use crate::error::UsageError;

/// An open run folder: `config.json`, `metrics.jsonl`, `summary.json`, `checkpoints/step-N/`. No
/// other process can train in it as long as it is open.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    metrics: BufWriter<File>,
    /// Locked; the system unlocks it when the process ends, however it ends.
    _lock: File,
}

/// A line of `metrics.jsonl`: one training step.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StepMetrics {
    /// Counted from 1.
    pub step: usize,
    /// Mean loss a token, in nats, with label smoothing.
    pub loss: f32,
    /// Learning rate.
    pub learning_rate: f64,
    /// Length of the gradient over all parameters, before clipping.
    pub gradient_norm: f32,
    /// Target tokens that are not padding.
    pub tokens: usize,
    /// Share of padding among the tokens of sources and targets.
    pub padding: f32,
    /// Whether the step changed nothing, since its gradients overflowed in f16.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}

/// A line of `metrics.jsonl`: one evaluation on the validation split.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Evaluation {
    /// After this step.
    pub step: usize,
    /// Mean loss a token, in nats, without label smoothing.
    pub valid_loss: f64,
    /// Share of tokens that are the likeliest, given the right ones before them.
    pub token_accuracy: f64,
    /// Share of sequences that greedy decoding gets just right, where it was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_match: Option<f64>,
}

/// What a run came to: `summary.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Name of the task.
    pub task: String,
    /// Name of the backend.
    pub backend: String,
    /// Number of parameters.
    pub parameters: usize,
    /// Training steps taken.
    pub steps: usize,
    /// Seconds spent on them, without evaluations.
    pub train_seconds: f64,
    /// Share of unseen sequences that greedy decoding gets just right.
    pub exact_match: f64,
    /// Number of those sequences.
    pub test_sequences: usize,
    /// Share of their tokens predicted right, given the right ones before.
    pub token_accuracy: f64,
    /// Mean loss a token on the validation split, in nats, without label smoothing.
    pub valid_loss: f64,
    /// Target tokens, without padding, a second of training.
    pub tokens_per_second: f64,
    /// The most memory that the process held, where the system tells (Linux).
    pub peak_rss_bytes: Option<u64>,
    /// Seed of the run.
    pub seed: u64,
    /// Version of this program.
    pub version: &'static str,
}

impl RunFolder {
    /// Creates the folder that `--run-dir` names, or else the next free one of
    /// `runs/TASK-1`, `runs/TASK-2`, ...; then writes `config.json`.
    ///
    /// # Errors
    ///
    /// A folder that cannot be written, or that holds something already.
    pub fn create(run_dir: Option<&Path>, config: &RunConfig) -> Result<Self> {
        let path = match run_dir {
            Some(path) => claim(path)?,
            None => next_free(Path::new("runs"), config.task.name())?,
        };
        let lock = lock(&path)?;
        write_json(&path.join("config.json"), config)
            .map_err(|error| cannot_write(&path, &error))?;
        let metrics = File::create(path.join("metrics.jsonl"))
            .map_err(|error| cannot_write(&path, &error))?;
        Ok(Self {
            path,
            metrics: BufWriter::new(metrics),
            _lock: lock,
        })
    }

    /// Opens the folder of a run that is to go on, and puts right what a killed process left in it.
    ///
    /// # Errors
    ///
    /// A folder that cannot be written, or another process that trains in it.
    pub fn open(path: &Path) -> Result<Self> {
        let lock = lock(path)?;
        Checkpoints::of(path).tidy();
        let metrics = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("metrics.jsonl"))
            .map_err(|error| cannot_write(path, &error))?;
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
        write_json(&self.path.join("config.json"), config).context("cannot write config.json")?;
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
fn lock(folder: &Path) -> Result<File, UsageError> {
    let path = folder.join("lock");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|error| cannot_write(folder, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut process = String::new();
            let _ = file.read_to_string(&mut process);
            return Err(UsageError::new(
                "RUN",
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
        .map_err(|error| cannot_write(folder, &error))?;
    Ok(file)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> UsageError {
    UsageError::new(
        "--run-dir",
        path.display(),
        format!("cannot be written ({error}); name a folder that can"),
    )
}

/// A new or empty folder at this path.
fn claim(path: &Path) -> Result<PathBuf, UsageError> {
    fs::create_dir_all(path).map_err(|error| cannot_write(path, &error))?;
    let mut entries = fs::read_dir(path).map_err(|error| cannot_write(path, &error))?;
    if entries.next().is_some() {
        let what = if path.join("config.json").exists() {
            "already holds a run"
        } else {
            "is not empty"
        };
        return Err(UsageError::new(
            "--run-dir",
            path.display(),
            format!("{what}; name another folder, or remove this one first"),
        ));
    }
    Ok(path.into())
}

/// Creates `NAME-N` with the smallest `N` above all that are there.
fn next_free(parent: &Path, name: &str) -> Result<PathBuf, UsageError> {
    fs::create_dir_all(parent).map_err(|error| cannot_write(parent, &error))?;
    let entries = fs::read_dir(parent).map_err(|error| cannot_write(parent, &error))?;
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
            Err(error) => return Err(cannot_write(&path, &error)),
        }
    }
    unreachable!("there are not that many runs")
}

/// Through a temporary file, so that no reader ever sees half of it.
fn write_json(path: &Path, value: &impl Serialize) -> std::io::Result<()> {
    let temporary = path.with_extension("json.tmp");
    let mut json = serde_json::to_vec_pretty(value)?;
    json.push(b'\n');
    let mut file = File::create(&temporary)?;
    file.write_all(&json)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

/// The most memory that this process held so far, in bytes, where the system tells.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Begins to count [`peak_rss_bytes`] anew, where the system can (Linux).
pub fn forget_peak_rss() {
    let _ = fs::write("/proc/self/clear_refs", "5");
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
        fs::write(path.join("notes"), "").unwrap();
        assert!(
            claim(&path)
                .unwrap_err()
                .to_string()
                .contains("is not empty")
        );
        fs::write(path.join("config.json"), "").unwrap();
        let error = claim(&path).unwrap_err().to_string();
        assert!(error.contains("already holds a run"), "{error}");
    }
}
