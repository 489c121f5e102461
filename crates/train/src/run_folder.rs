//! The folder that a run lives in and explains itself by.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use burn::module::Module;
use serde::Serialize;
use transformer::Transformer;

use crate::config::RunConfig;
use crate::error::UsageError;

/// An open run folder: `config.json`, `metrics.jsonl`, `summary.json`, `checkpoints/step-N/`.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    metrics: BufWriter<File>,
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
    /// Target tokens that are not padding.
    pub tokens: usize,
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
        write_json(&path.join("config.json"), config)
            .map_err(|error| cannot_write(&path, &error))?;
        let metrics = File::create(path.join("metrics.jsonl"))
            .map_err(|error| cannot_write(&path, &error))?;
        Ok(Self {
            path,
            metrics: BufWriter::new(metrics),
        })
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
    pub fn log(&mut self, metrics: &StepMetrics) -> Result<()> {
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

    /// Writes the parameters to `checkpoints/step-N/model.bpk`. The folder appears whole or not
    /// at all.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save_model(&self, model: &Transformer, step: usize) -> Result<PathBuf> {
        let checkpoints = self.path.join("checkpoints");
        let folder = checkpoints.join(format!("step-{step}"));
        let temporary = checkpoints.join(format!(".step-{step}.tmp"));
        let write = || -> Result<()> {
            fs::create_dir_all(&temporary)?;
            let bytes = model.valid().into_record().into_bytes()?;
            let mut file = File::create(temporary.join("model.bpk"))?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &folder)?;
            Ok(())
        };
        write().with_context(|| format!("cannot write {}", folder.display()))?;
        Ok(folder)
    }

    /// Writes `summary.json` and what is left of `metrics.jsonl`.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn finish(mut self, summary: &Summary) -> Result<()> {
        self.flush()?;
        write_json(&self.path.join("summary.json"), summary).context("cannot write summary.json")
    }
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
    fs::write(&temporary, json)?;
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
