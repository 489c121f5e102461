//! The lines of a file of text, plain or gzip.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::error::{UsageError, quote};

pub(super) fn open(path: &Path) -> Result<File, UsageError> {
    // Before it is opened, which waits where nobody writes.
    let kind = std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
    if kind.is_dir() {
        return Err(wrong(path, "is a folder, but must be a file of text"));
    }
    File::open(path).map_err(|error| cannot_read(path, &error))
}

/// Refuses a file that cannot be read more than once.
pub(super) fn check_plain(path: &Path) -> Result<(), UsageError> {
    let kind = std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
    if kind.is_file() || kind.is_dir() {
        return Ok(());
    }
    let what = "is no plain file: a corpus is read more than once, so save it in a file first";
    Err(wrong(path, what))
}

pub(super) fn wrong(path: &Path, what: impl Into<String>) -> UsageError {
    UsageError::new("corpus", path.display(), what)
}

pub(super) fn cannot_read(path: &Path, error: &std::io::Error) -> UsageError {
    wrong(path, format!("cannot be read ({error})"))
}

/// The lines of one file.
pub(super) struct Lines {
    pub(super) path: PathBuf,
    reader: Box<dyn BufRead + Send>,
    lossy: bool,
    /// Lines so far.
    pub(super) number: u64,
    pub(super) replaced: u64,
}

impl Lines {
    /// Of no file.
    pub(super) fn nothing() -> Self {
        Self {
            path: PathBuf::new(),
            reader: Box::new(std::io::empty()),
            lossy: true,
            number: 0,
            replaced: 0,
        }
    }

    pub(super) fn open(path: &Path, lossy: bool) -> Result<Self, UsageError> {
        let mut file = BufReader::with_capacity(1 << 16, open(path)?);
        let start = file.fill_buf().map_err(|error| cannot_read(path, &error))?;
        let is_gzip = start.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead + Send> = match is_gzip {
            true => Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file))),
            false => Box::new(file),
        };
        Ok(Self {
            path: path.into(),
            reader,
            lossy,
            number: 0,
            replaced: 0,
        })
    }

    pub(super) fn next(&mut self) -> Result<Option<String>, UsageError> {
        let mut bytes = Vec::new();
        let read = self.reader.read_until(b'\n', &mut bytes);
        if read.map_err(|error| cannot_read(&self.path, &error))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if bytes.ends_with(b"\n") {
            bytes.pop();
        }
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
        if self.number == 1 && bytes.starts_with("\u{feff}".as_bytes()) {
            bytes.drain(..3);
        }
        match String::from_utf8(bytes) {
            Ok(line) => Ok(Some(line)),
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes());
                if self.lossy {
                    self.replaced += 1;
                    return Ok(Some(text.into_owned()));
                }
                let number = self.number;
                let what = format!(
                    "line {number} is not UTF-8: {}; convert the file, or replace such bytes with --lossy",
                    quote(&text)
                );
                Err(wrong(&self.path, what))
            }
        }
    }

    /// How many lines there are in all, those that were read included.
    pub(super) fn count(mut self) -> Result<u64, UsageError> {
        self.lossy = true;
        while self.next()?.is_some() {}
        Ok(self.number)
    }
}
