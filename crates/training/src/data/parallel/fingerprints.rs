//! Hashes that identify the corpora of a run, wherever their files are.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::corpus::{TrainSettings, ValidSettings};
use super::lines::{cannot_read, check_regular, wrong};
use super::{Corpus, TextConfig};
use crate::error::UsageError;
use crate::files::{LineReader, hex, key};
use crate::setting::Setting;

/// SHA-256 of each training and each validation file. They are computed once, because reading the
/// files takes time.
pub(super) struct Fingerprints {
    pub(super) train: Vec<String>,
    valid: Vec<String>,
}

impl Fingerprints {
    pub(super) fn of(config: &TextConfig) -> Result<Self, UsageError> {
        let (train, valid) = (fingerprints(&config.train)?, fingerprints(&config.valid)?);
        Ok(Self { train, valid })
    }

    /// Returns the fingerprints of the files that the validation pairs are read from.
    pub(super) fn of_validation(config: &TextConfig) -> Result<Self, UsageError> {
        if config.has_validation_corpus() {
            let (train, valid) = (Vec::new(), fingerprints(&config.valid)?);
            return Ok(Self { train, valid });
        }
        Self::of(config)
    }

    /// Returns the hash that identifies the training corpus, and the one that identifies the
    /// validation pairs.
    pub(super) fn keys(&self, config: &TextConfig) -> [String; 2] {
        let train = key(&(&self.train, &config.train.fields));
        let valid = if self.valid.is_empty() {
            self.key_of_share(config)
        } else {
            key(&(&self.valid, &config.valid.fields))
        };
        [train, valid]
    }

    /// Returns the hash that identifies the validation pairs that are held out of the training corpus.
    fn key_of_share(&self, config: &TextConfig) -> String {
        key(&(&self.train, &config.train.fields, config.valid_share))
    }

    /// Compares the corpora with those that the settings were written with. Returns an error that
    /// names the first one that has changed.
    pub(super) fn check(&self, config: &TextConfig) -> Result<(), UsageError> {
        let Some(then) = &config.data else {
            return Ok(());
        };
        let now = self.keys(config);
        if !self.train.is_empty() && then[0] != now[0] {
            let settings = [TrainSettings::source, TrainSettings::target];
            return Err(changed(&config.train, settings));
        }
        if then[1] == now[1] {
            return Ok(());
        }
        let (flag, share) = (TextConfig::valid_share.name(), config.valid_share);
        if self.valid.is_empty() {
            let what = "holds out other pairs than those of the run, which had another share, or files for validation";
            return Err(UsageError::new(flag, share, what));
        }
        let source = ValidSettings::source;
        if then[1] == self.key_of_share(config) {
            let file = config.valid.source.display();
            let what = format!(
                "is not of the run, which holds out pairs of training for validation ({flag} {share})"
            );
            return Err(UsageError::new(source.name(), file, what));
        }
        Err(changed(&config.valid, [source, ValidSettings::target]))
    }
}

fn changed(corpus: &Corpus, settings: [&Setting; 2]) -> UsageError {
    let files = Vec::from_iter(corpus.files().map(|file| file.display().to_string()));
    let flags = settings.map(Setting::name);
    let flags = flags[..files.len().max(1)].join(" and ");
    let mut what = String::from("has changed since the run began, or is another one");
    if corpus.has_fields() {
        what += &format!(", or {} are others", TrainSettings::fields.name());
    }
    UsageError::new(flags, files.join(", "), what)
}

/// Returns the SHA-256 of each file of a corpus.
pub(super) fn fingerprints(corpus: &Corpus) -> Result<Vec<String>, UsageError> {
    corpus.files().map(fingerprint).collect()
}

/// Checks that a corpus, which was read, is still the one with these fingerprints.
pub(super) fn check_unchanged(corpus: &Corpus, files: &[String]) -> Result<(), UsageError> {
    if fingerprints(corpus)? == files {
        return Ok(());
    }
    let what = "was changed while it was read, or the file of targets was";
    Err(wrong(&corpus.source, what))
}

/// Reads a whole file of a corpus, and returns the SHA-256 of its lines in hexadecimal digits, which
/// is the same if the file is compressed.
fn fingerprint(path: &Path) -> Result<String, UsageError> {
    check_regular(path)?;
    let cannot = |error| cannot_read(path, &error);
    let mut reader = LineReader::open_file(path).map_err(cannot)?;
    let mut hash = Sha256::new();
    while let Some(mut line) = reader.next_line().map_err(cannot)? {
        line.push(b'\n');
        hash.update(line);
    }
    if reader.number() == 0 {
        return Err(wrong(path, "is empty"));
    }
    Ok(hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_has;

    #[test]
    fn what_differs_from_the_run_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.jsonl");
        std::fs::write(&file, "{}\n").unwrap();
        let mut config = TextConfig::new(100, 100);
        config.train.source = file;
        config.data = Some(Fingerprints::of(&config).unwrap().keys(&config));
        let cases: [(fn(&mut TextConfig), _); 3] = [
            (
                |it| it.valid_share = 0.2,
                "--valid-share 0.2: holds out other",
            ),
            (
                |it| it.valid = it.train.clone(),
                "a.jsonl: is not of the run, which holds out pairs of training for validation (--valid-share 0.01)",
            ),
            (
                |it| it.train.fields = Some(["x", "y"].map(String::from)),
                "a.jsonl: has changed since the run began, or is another one, or --fields are others",
            ),
        ];
        for (change, expected) in cases {
            let mut config = config.clone();
            change(&mut config);
            let found = Fingerprints::of(&config).unwrap().check(&config);
            assert_has(&found.unwrap_err(), &[expected]);
        }
    }
}
