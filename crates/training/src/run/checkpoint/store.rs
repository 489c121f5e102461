//! Stores checkpoints in folders `checkpoints/step-N`. A folder is written whole or not at all. Its
//! manifest has a checksum of each other file.

mod manifest;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use transformer::weights::Parameters;

use crate::error::UsageError;
use crate::files::{
    Checksum, TemporaryFolder, open_regular, read_regular, remove_file, remove_files,
    remove_folder, remove_replaced, sync_folder, write_through,
};
use crate::run::layout::{CHECKPOINTS, CONFIG};
use manifest::Manifest;

/// Version of the checkpoint format.
pub(crate) const FORMAT: u32 = 1;

const MANIFEST: &str = "manifest.json";

/// File of the optimizer's moments, in safetensors format.
pub const OPTIMIZER: &str = "optimizer.safetensors";

const MISSING: &str = "is missing";

/// The content of a file of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// The bytes of the file.
    Bytes(&'a [u8]),
    /// Parameters that the file holds in safetensors format.
    Parameters(&'a Parameters),
}

/// Reason why a checkpoint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct CheckpointError {
    /// Path of the file that cannot be used, or of the folder of checkpoints if it has no usable
    /// one.
    pub path: String,
    /// What is wrong with the file or folder.
    pub what: String,
    /// Whether the checkpoint may be whole: a newer version of this program wrote it, or a file cannot
    /// be read for now, as without permission. Otherwise, a file is missing or differs from what was
    /// written, or no checkpoint of the run is usable.
    pub may_be_whole: bool,
}

impl CheckpointError {
    pub(super) fn damaged<S: Into<String>>(path: &Path, what: S) -> Self {
        Self {
            path: path.display().to_string(),
            what: what.into(),
            may_be_whole: false,
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> CheckpointError {
    use ErrorKind::{InvalidInput, IsADirectory, NotADirectory};
    let kind = error.kind();
    if kind == ErrorKind::NotFound {
        return CheckpointError::damaged(path, MISSING);
    }
    CheckpointError {
        may_be_whole: !matches!(kind, InvalidInput | NotADirectory | IsADirectory),
        ..CheckpointError::damaged(path, format!("cannot be read ({error})"))
    }
}

impl From<CheckpointError> for UsageError {
    fn from(error: CheckpointError) -> Self {
        Self::argument("run", error.path, error.what)
    }
}

/// All checkpoints of a run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoints {
    /// Returns the checkpoints of a run folder.
    pub fn of(run: &Path) -> Self {
        Self {
            folder: run.join(CHECKPOINTS),
        }
    }

    /// Returns the folder that holds all checkpoints.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder of the checkpoint of step `step`.
    pub fn path(&self, step: usize) -> PathBuf {
        self.folder.join(format!("step-{step}"))
    }

    /// Returns whether the folder of checkpoints does not exist or is empty.
    ///
    /// # Errors
    ///
    /// If the folder of checkpoints exists but cannot be read.
    pub fn is_new(&self) -> std::io::Result<bool> {
        match fs::read_dir(&self.folder) {
            Ok(entries) => Ok(entries.count() == 0),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns the steps that have a folder `step-N`, in increasing order. The checkpoints in these
    /// folders may be damaged.
    pub fn steps(&self) -> Vec<usize> {
        let step = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let step = name.to_str()?.strip_prefix("step-")?.parse().ok();
            // Another spelling of a number, such as step-007, is not the name of a checkpoint.
            step.filter(|step| self.path(*step).ends_with(&name))
        };
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut steps: Vec<usize> = entries.filter_map(step).collect();
        steps.sort_unstable();
        steps
    }

    /// Returns the SHA-256 of a file of the checkpoint of step `step`, as in its manifest; `None` if it
    /// has none.
    pub(crate) fn sha256(&self, step: usize, name: &str) -> Option<String> {
        let file = manifest_of(&self.path(step))?.files.remove(name)?;
        Some(file.sha256)
    }

    /// Writes a checkpoint with `files`, each a name and its contents, and returns the checkpoint's
    /// folder. An older checkpoint of the same step is replaced.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be written. An older checkpoint of the same step is then kept,
    /// unless the new one is already in place.
    pub fn save(&self, step: usize, files: &[(&str, Content<'_>)]) -> Result<PathBuf> {
        let path = self.path(step);
        let write = || -> Result<()> {
            fs::create_dir_all(&self.folder)?;
            if let Some(run) = self.folder.parent() {
                sync_folder(run)?;
            }
            let folder = TemporaryFolder::create(self.folder.join(format!(".step-{step}.new")))?;
            let mut manifest = Manifest {
                format: FORMAT,
                files: BTreeMap::new(),
            };
            for (name, content) in files {
                let checksum = manifest::write(&folder.path().join(name), content)?;
                manifest.files.insert(String::from(*name), checksum);
            }
            let manifest = serde_json::to_vec_pretty(&manifest)?;
            write_through(&folder.path().join(MANIFEST), &manifest)?;
            let is_own = own_files(&path);
            Ok(folder.becomes(&path, is_own)?)
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Opens a checkpoint's files and verifies the checksums of all of them.
    ///
    /// # Errors
    ///
    /// If a file is missing or damaged, or if a newer version of this program wrote the checkpoint.
    pub fn read(&self, step: usize) -> Result<LoadedCheckpoint, CheckpointError> {
        let folder = self.path(step);
        let damaged = CheckpointError::damaged::<String>;
        let path = folder.join(MANIFEST);
        let bytes = read_regular(&path, 16).map_err(|error| unreadable(&path, &error))?;
        let foreign = |error| damaged(&path, format!("is not a manifest ({error})"));
        let manifest: Value = serde_json::from_slice(&bytes).map_err(foreign)?;
        let format = manifest["format"].as_u64().unwrap_or_default();
        if format > FORMAT.into() {
            let what = format!(
                "was written by a newer version of this program (format {format}, this one reads up to {FORMAT}); use that version"
            );
            return Err(CheckpointError {
                may_be_whole: true,
                ..damaged(&path, what)
            });
        }
        let manifest: Manifest = serde_json::from_value(manifest).map_err(foreign)?;
        let mut files = BTreeMap::new();
        for (name, entry) in manifest.files {
            if Path::new(&name).file_name() != Some(name.as_ref()) {
                let what = format!("names {name:?}, which is not a file of this folder");
                return Err(damaged(&path, what));
            }
            let path = folder.join(&name);
            let length = fs::metadata(&path).map(|file| file.len());
            // The length is checked before reading, because a file that has grown may not fit into
            // memory.
            if let Ok(length) = length
                && length != entry.bytes
            {
                let what = format!("has {length} bytes, but was written with {}", entry.bytes);
                return Err(damaged(&path, what));
            }
            let read = || -> io::Result<_> {
                let file = open_regular(&path)?;
                Ok((Checksum::of(&file)?, file))
            };
            let (found, file) = match read() {
                // Only training needs the moments, which take two thirds of the space.
                Err(error) if name == OPTIMIZER && error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(&path, &error)),
                Ok(read) => read,
            };
            if found != entry {
                return Err(damaged(&path, "differs from its SHA-256".into()));
            }
            files.insert(name, file);
        }
        Ok(LoadedCheckpoint { folder, files })
    }

    /// Reads the newest checkpoint that is undamaged and passes `check`. Returns its step, its
    /// files, and the reasons why newer checkpoints were skipped.
    ///
    /// # Errors
    ///
    /// If no checkpoint can be used, or the newest one that is not damaged [may be
    /// whole](CheckpointError::may_be_whole).
    pub fn newest(
        &self,
        check: impl Fn(usize, &LoadedCheckpoint) -> Result<(), CheckpointError>,
    ) -> Result<(usize, LoadedCheckpoint, Vec<CheckpointError>), CheckpointError> {
        let mut skipped = Vec::new();
        let mut steps = self.steps();
        let mut last = steps.last().copied();
        while let Some(step) = steps.pop() {
            let read = self.read(step);
            match read.and_then(|files| check(step, &files).map(|()| files)) {
                Ok(files) => return Ok((step, files, skipped)),
                Err(error) if error.may_be_whole => return Err(error),
                Err(damaged) => skipped.push(damaged),
            }
            // A training process may have written a newer checkpoint, and removed this one before
            // it was read. The search then starts again.
            let now = self.steps();
            if now.last().copied() > last {
                last = now.last().copied();
                steps = now;
                skipped.clear();
            }
        }
        let what = match (skipped.first(), self.is_new()) {
            (Some(first), _) => format!("has no checkpoint that is whole ({first})"),
            (None, Err(_)) if self.folder.is_file() => "is not a folder".into(),
            (None, Err(error)) => format!("cannot be read ({error})"),
            (None, Ok(_)) => "has no checkpoint step-N; train again, or wait for the first".into(),
        };
        Err(CheckpointError::damaged(&self.folder, what))
    }

    /// Removes all checkpoints except the `keep` newest ones and the checkpoints of the steps in
    /// `also`. A folder `step-N` without a manifest is no checkpoint, and does not count as kept.
    ///
    /// # Errors
    ///
    /// If a checkpoint cannot be removed.
    pub(crate) fn prune(&self, keep: usize, also: &[usize]) -> Result<()> {
        let steps = self.steps();
        let is_whole = |step: &&usize| self.path(**step).join(MANIFEST).exists();
        let whole = steps.iter().filter(is_whole);
        let oldest = whole.rev().take(keep).last();
        let is_old = |step: &&usize| oldest > Some(*step) && !also.contains(step);
        let mut old = steps.iter().filter(is_old);
        old.try_for_each(|&step| self.remove(step))
    }

    /// Removes the checkpoints of steps after `step`. A run that resumes from `step` writes them
    /// again.
    ///
    /// # Errors
    ///
    /// If a checkpoint cannot be removed.
    pub(crate) fn remove_after(&self, step: usize) -> Result<()> {
        let mut newer = self.steps().into_iter().filter(|&newer| newer > step);
        newer.try_for_each(|newer| self.remove(newer))
    }

    /// Removes the files of a checkpoint, and its folder unless something else is in it.
    fn remove(&self, step: usize) -> Result<()> {
        let path = self.path(step);
        let is_own = own_files(&path);
        // The manifest is removed first, so that a half-removed checkpoint counts as damaged.
        let removed = remove_file(&path.join(MANIFEST)).and_then(|()| remove_files(&path, is_own));
        removed.with_context(|| format!("cannot remove {}", path.display()))
    }

    /// Removes checkpoints that a killed process left half written, and restores the checkpoints
    /// that they would have replaced.
    pub(crate) fn tidy(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_str().and_then(|name| name.strip_prefix(".step-"));
            let Some((step, state)) = name.and_then(|name| name.split_once('.')) else {
                continue;
            };
            let Ok(step) = step.parse() else {
                continue;
            };
            let whole = self.path(step);
            if state == "old" && !whole.exists() {
                let _ = fs::rename(&path, whole);
            } else if state == "old" {
                let _ = remove_replaced(&path, &whole, own_files(&path));
            } else if state == "new" {
                let _ = remove_folder(&path);
            }
        }
    }
}

fn manifest_of(folder: &Path) -> Option<Manifest> {
    let json = read_regular(&folder.join(MANIFEST), 16).ok()?;
    serde_json::from_slice(&json).ok()
}

/// Returns whether a file of a checkpoint's folder, given by its name, is the checkpoint's own.
fn own_files(folder: &Path) -> impl Fn(&str) -> bool + use<> {
    let manifest = manifest_of(folder);
    move |name| match &manifest {
        Some(manifest) => name == MANIFEST || manifest.files.contains_key(name),
        None => name.ends_with(".safetensors") || [CONFIG, "state.json"].contains(&name),
    }
}

/// The files of one checkpoint, with their checksums verified. They are open, so that they keep
/// their contents if training removes the checkpoint.
#[derive(Debug)]
pub struct LoadedCheckpoint {
    folder: PathBuf,
    files: BTreeMap<String, File>,
}

impl LoadedCheckpoint {
    /// Returns the path of the file `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the open file `name`.
    ///
    /// # Errors
    ///
    /// If the checkpoint has no such file.
    pub fn open(&self, name: &str) -> Result<&File, CheckpointError> {
        let missing = || CheckpointError::damaged(&self.path(name), MISSING);
        self.files.get(name).ok_or_else(missing)
    }

    /// Reads the file `name` into memory.
    ///
    /// # Errors
    ///
    /// If the checkpoint has no such file, or if it cannot be read.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, CheckpointError> {
        let mut file = self.open(name)?;
        let mut bytes = Vec::new();
        match file.rewind().and_then(|()| file.read_to_end(&mut bytes)) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(unreadable(&self.path(name), &error)),
        }
    }

    /// Returns whether the checkpoint has the file `name`.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }
}

#[cfg(test)]
mod tests;
