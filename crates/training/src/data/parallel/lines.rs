//! The lines of a file of a corpus, plain or gzip.

use std::path::{Path, PathBuf};

use crate::error::{UsageError, quote};
use crate::files::LineReader;

/// Rejects folders, and files that cannot be read more than once, such as pipes.
pub(super) fn check_regular(path: &Path) -> Result<(), UsageError> {
    let metadata = std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
    if metadata.is_file() {
        return Ok(());
    }
    let what = if metadata.is_dir() {
        "is a folder, but must be a file of text"
    } else {
        "is not a regular file: a corpus is read more than once, so save it in a file first"
    };
    Err(wrong(path, what))
}

pub(super) fn wrong(path: &Path, expected: impl Into<String>) -> UsageError {
    UsageError::new("corpus", path.display(), expected)
}

pub(super) fn cannot_read(path: &Path, error: &std::io::Error) -> UsageError {
    wrong(path, format!("cannot be read ({error})"))
}

pub(super) struct Lines {
    pub(super) path: PathBuf,
    reader: LineReader,
    lossy: bool,
    /// Number of lines in which invalid UTF-8 was replaced.
    pub(super) replaced: u64,
}

impl Lines {
    pub(super) fn open(path: &Path, lossy: bool) -> Result<Self, UsageError> {
        Ok(Self {
            path: path.into(),
            reader: LineReader::open_file(path).map_err(|error| cannot_read(path, &error))?,
            lossy,
            replaced: 0,
        })
    }

    /// Returns the next line without its line break; `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<String>, UsageError> {
        let read = self.reader.next_line();
        let Some(bytes) = read.map_err(|error| cannot_read(&self.path, &error))? else {
            return Ok(None);
        };
        match String::from_utf8(bytes) {
            Ok(line) => Ok(Some(line)),
            Err(error) => {
                let text = String::from_utf8_lossy(error.as_bytes());
                if self.lossy {
                    self.replaced += 1;
                    return Ok(Some(text.into_owned()));
                }
                let what = "is not UTF-8 (convert the file, or give --set data.lossy=true)";
                Err(self.wrong(&format!("{what}: {}", quote(&text))))
            }
        }
    }

    /// Returns an error about the line that was read last.
    pub(super) fn wrong(&self, what: &str) -> UsageError {
        wrong(&self.path, format!("line {} {what}", self.reader.number()))
    }

    /// Reads the rest of the file and returns the total number of its lines.
    pub(super) fn count(&mut self) -> Result<u64, UsageError> {
        self.lossy = true;
        while self.next()?.is_some() {}
        Ok(self.reader.number())
    }
}
