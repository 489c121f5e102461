//! Hashes that identify the corpora of a run, wherever their files are.

use std::fs::File;
use std::path::Path;

use super::lines::{cannot_read, check_regular, wrong};
use super::{Corpus, TextConfig};
use crate::error::UsageError;
use crate::files::{key, sha256_of};

/// SHA-256 of each training and each validation file. They are computed once, because reading the
/// files takes time.
pub(super) struct Fingerprints {
    pub(super) train: Vec<String>,
    valid: Vec<String>,
}

impl Fingerprints {
    pub(super) fn of(config: &TextConfig) -> Result<Self, UsageError> {
        Ok(Self {
            train: fingerprints(&config.train)?,
            ..Self::of_validation(config)?
        })
    }

    /// Returns the fingerprints of the files that the validation pairs are read from.
    pub(super) fn of_validation(config: &TextConfig) -> Result<Self, UsageError> {
        let (mut train, mut valid) = (Vec::new(), Vec::new());
        if config.has_validation_corpus() {
            valid = fingerprints(&config.valid)?;
        } else {
            train = fingerprints(&config.train)?;
        }
        Ok(Self { train, valid })
    }

    /// Returns the hash that identifies the training corpus, and the one that identifies the
    /// validation pairs.
    pub(super) fn keys(&self, config: &TextConfig) -> [String; 2] {
        let train = key(&(&self.train, &config.train.fields));
        let valid = if self.valid.is_empty() {
            key(&(&self.train, &config.train.fields, config.valid_share))
        } else {
            key(&(&self.valid, &config.valid.fields))
        };
        [train, valid]
    }

    /// Compares the corpora with those that the settings were written with. Returns an error that
    /// names the first one that has changed.
    pub(super) fn check(&self, config: &TextConfig) -> Result<(), UsageError> {
        let (Some(then), now) = (&config.data, self.keys(config)) else {
            return Ok(());
        };
        if !self.train.is_empty() && then[0] != now[0] {
            return Err(changed(&config.train));
        }
        if then[1] != now[1] {
            return Err(changed(&config.valid));
        }
        Ok(())
    }
}

fn changed(corpus: &Corpus) -> UsageError {
    let files = corpus.files().map(|file| file.display().to_string());
    let files = files.collect::<Vec<_>>().join(", ");
    UsageError::new("corpus", files, "has changed since the run began")
}

/// Returns the SHA-256 of each file of a corpus.
pub(super) fn fingerprints(corpus: &Corpus) -> Result<Vec<String>, UsageError> {
    corpus.files().map(fingerprint).collect()
}

/// Reads a whole file of a corpus, and returns its SHA-256 in hexadecimal digits.
fn fingerprint(path: &Path) -> Result<String, UsageError> {
    check_regular(path)?;
    let hashed = File::open(path).and_then(|file| sha256_of(&file));
    let (size, sha256) = hashed.map_err(|error| cannot_read(path, &error))?;
    if size == 0 {
        return Err(wrong(path, "is empty"));
    }
    Ok(sha256)
}
