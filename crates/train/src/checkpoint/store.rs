//! Folders `checkpoints/step-N` that appear whole or not at all, with a checksum of each file.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::disk::{sync_folder, write_through};

/// Version of what a checkpoint holds.
pub const FORMAT: u32 = 1;

const MANIFEST: &str = "manifest.json";

/// `manifest.json`: what the other files must be.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    files: BTreeMap<String, FileEntry>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct FileEntry {
    bytes: u64,
    sha256: String,
}

impl FileEntry {
    fn of(bytes: &[u8]) -> Self {
        let sha256 = Sha256::digest(bytes);
        Self {
            bytes: bytes.len() as u64,
            sha256: sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// Why a checkpoint cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is not what was written; another checkpoint may be.
    #[error("{path}: {what}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// It is whole, but this program is too old for it.
    #[error(
        "{path}: was written by a newer version of this program (format {format}, this one reads up to {FORMAT}); use that version"
    )]
    Newer {
        /// The manifest.
        path: String,
        /// Its format.
        format: u32,
    },
}

impl Unusable {
    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.display().to_string(),
            what: what.into(),
        }
    }
}

/// The checkpoints of a run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoints {
    /// Those of this run folder.
    pub fn of(run: &Path) -> Self {
        Self {
            folder: run.join("checkpoints"),
        }
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of one of them.
    pub fn path(&self, step: usize) -> PathBuf {
        self.folder.join(format!("step-{step}"))
    }

    /// Whether none has ever been written.
    ///
    /// # Errors
    ///
    /// If the folder is there, but cannot be read.
    pub fn is_new(&self) -> std::io::Result<bool> {
        match fs::read_dir(&self.folder) {
            Ok(entries) => Ok(entries.count() == 0),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The steps that have one, ascending.
    pub fn steps(&self) -> Vec<usize> {
        let step = |entry: fs::DirEntry| {
            let name = entry.file_name();
            name.to_str()?.strip_prefix("step-")?.parse().ok()
        };
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut steps: Vec<usize> = entries.filter_map(step).collect();
        steps.sort_unstable();
        steps
    }

    /// Writes a checkpoint; one of the same step that was there before is replaced.
    ///
    /// # Errors
    ///
    /// If it cannot be written; then there is nothing new, and what was there is untouched.
    pub fn save(&self, step: usize, files: &[(&str, Vec<u8>)]) -> Result<PathBuf> {
        let path = self.path(step);
        let temporary = self.folder.join(format!(".step-{step}.new"));
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(&self.folder)?;
            if let Some(run) = self.folder.parent() {
                sync_folder(run)?;
            }
            remove(&temporary)?;
            fs::create_dir(&temporary)?;
            let entries = files
                .iter()
                .map(|(name, bytes)| (String::from(*name), FileEntry::of(bytes)));
            let manifest = Manifest {
                format: FORMAT,
                files: entries.collect(),
            };
            for (name, bytes) in files {
                write_through(&temporary.join(name), bytes)?;
            }
            let manifest = serde_json::to_vec_pretty(&manifest)?;
            write_through(&temporary.join(MANIFEST), &manifest)?;
            sync_folder(&temporary)?;
            let replaced = self.folder.join(format!(".step-{step}.old"));
            remove(&replaced)?;
            if path.exists() {
                fs::rename(&path, &replaced)?;
            }
            fs::rename(&temporary, &path)?;
            sync_folder(&self.folder)?;
            remove(&replaced)
        };
        write()
            .inspect_err(|_| {
                let _ = remove(&temporary);
            })
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Reads a checkpoint's files and compares them with their checksums.
    ///
    /// # Errors
    ///
    /// If anything is not as it was written.
    pub fn read(&self, step: usize) -> Result<Files, Unusable> {
        let folder = self.path(step);
        let read = |path: &Path| {
            fs::read(path).map_err(|error| {
                let what = match error.kind() {
                    ErrorKind::NotFound => "is missing".into(),
                    _ => format!("cannot be read ({error})"),
                };
                Unusable::damaged(path, what)
            })
        };
        let path = folder.join(MANIFEST);
        let bytes = read(&path)?;
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let foreign = |error| Unusable::damaged(&path, format!("is no manifest ({error})"));
        let Version { format } = serde_json::from_slice(&bytes).map_err(foreign)?;
        if format == 0 {
            return Err(Unusable::damaged(&path, "is of format 0, which never was"));
        }
        if format > FORMAT {
            let path = path.display().to_string();
            return Err(Unusable::Newer { path, format });
        }
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(foreign)?;
        let mut files = BTreeMap::new();
        for (name, entry) in manifest.files {
            if Path::new(&name).file_name() != Some(name.as_ref()) {
                let what = format!("names {name:?}, which is no file of this folder");
                return Err(Unusable::damaged(&path, what));
            }
            let path = folder.join(&name);
            let length = fs::metadata(&path).map(|file| file.len());
            // Before anything is read: a file that has grown may not fit into memory.
            if let Ok(length) = length
                && length != entry.bytes
            {
                let what = format!("has {length} bytes, but was written with {}", entry.bytes);
                return Err(Unusable::damaged(&path, what));
            }
            let bytes = read(&path)?;
            if FileEntry::of(&bytes) != entry {
                return Err(Unusable::damaged(&path, "differs from its SHA-256"));
            }
            files.insert(name, bytes);
        }
        Ok(Files { folder, files })
    }

    /// The newest checkpoint that is good, and has what `check` asks for, and why newer ones are
    /// not.
    ///
    /// # Errors
    ///
    /// If there is none, or one was written by a newer version.
    pub fn newest(
        &self,
        check: impl Fn(usize, &Files) -> Result<(), Unusable>,
    ) -> Result<(usize, Files, Vec<Unusable>), Unusable> {
        let mut skipped = Vec::new();
        let mut steps = self.steps();
        let mut last = steps.last().copied();
        while let Some(step) = steps.pop() {
            let read = self.read(step);
            match read.and_then(|files| check(step, &files).map(|()| files)) {
                Ok(files) => return Ok((step, files, skipped)),
                Err(newer @ Unusable::Newer { .. }) => return Err(newer),
                Err(damaged) => skipped.push(damaged),
            }
            // A run that is under way may have written a newer one, and then removed this one.
            let now = self.steps();
            if now.last().copied() > last {
                last = now.last().copied();
                steps = now;
                skipped.clear();
            }
        }
        let what = match skipped.first() {
            None => "has no checkpoint step-N".into(),
            Some(first) => format!("has no checkpoint that is whole ({first})"),
        };
        Err(Unusable::damaged(&self.folder, what))
    }

    /// Removes all but the newest `keep` and those in `also`.
    ///
    /// # Errors
    ///
    /// If one cannot be removed.
    pub fn prune(&self, keep: usize, also: &[usize]) -> Result<()> {
        let steps = self.steps();
        let old = &steps[..steps.len().saturating_sub(keep)];
        let mut old = old.iter().filter(|step| !also.contains(step));
        old.try_for_each(|&step| self.remove(step))
    }

    /// Removes those after `step`: the run goes on from there, and what comes after it will be
    /// written again.
    ///
    /// # Errors
    ///
    /// If one cannot be removed.
    pub fn remove_after(&self, step: usize) -> Result<()> {
        let mut newer = self.steps().into_iter().filter(|&newer| newer > step);
        newer.try_for_each(|newer| self.remove(newer))
    }

    fn remove(&self, step: usize) -> Result<()> {
        let path = self.path(step);
        // First the manifest: what is half removed is no checkpoint.
        let removed = remove_file(&path.join(MANIFEST)).and_then(|()| remove(&path));
        removed.with_context(|| format!("cannot remove {}", path.display()))
    }

    /// Removes what a killed process left half written, and puts back what it was replacing.
    pub fn tidy(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let Some(name) = name.to_str().and_then(|name| name.strip_prefix('.')) else {
                continue;
            };
            if let Some(whole) = name.strip_suffix(".old") {
                let whole = self.folder.join(whole);
                if !whole.exists() {
                    let _ = fs::rename(&path, whole);
                }
            }
            if name.starts_with("step-") {
                let _ = remove(&path);
            }
        }
    }
}

/// The files of one checkpoint, as they were written.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    files: BTreeMap<String, Vec<u8>>,
}

impl Files {
    /// Where one of them is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// One of them.
    ///
    /// # Errors
    ///
    /// If the checkpoint has none of this name.
    pub fn get(&self, name: &str) -> Result<&[u8], Unusable> {
        let file = self.files.get(name).map(Vec::as_slice);
        file.ok_or_else(|| Unusable::damaged(&self.path(name), "is missing"))
    }

    /// Whether there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    ignore_missing(fs::remove_dir_all(path))
}

fn remove_file(path: &Path) -> std::io::Result<()> {
    ignore_missing(fs::remove_file(path))
}

fn ignore_missing(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
