//! The file to which `eval --hypotheses` writes the outputs.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use training::data::parallel::is_json_lines;
use training::error::UsageError;
use training::files::write_whole_by;
use training::inference::one_line;
use training::run::layout::check_output;

use crate::args::folder_of;

const FLAG: &str = "--hypotheses";

/// An output that becomes a file whole or not at all. Until then, it has no name, so that nothing
/// is left behind if a signal ends the process.
pub(super) struct WholeFile {
    path: PathBuf,
    unnamed: BufWriter<File>,
}

impl WholeFile {
    /// Begins the output for a path. What the path names is not changed yet.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let is_device = path.exists() && !path.is_file();
        let unnamed = if is_device {
            tempfile::tempfile()?
        } else {
            tempfile::tempfile_in(folder_of(path))?
        };
        Ok(Self {
            path: path.into(),
            unnamed: BufWriter::new(unnamed),
        })
    }

    /// Adds text to the output.
    pub(super) fn add(&mut self, text: &str) -> io::Result<()> {
        self.unnamed.write_all(text.as_bytes())
    }

    /// Writes the file.
    pub(super) fn close(self) -> io::Result<()> {
        let mut whole = self.unnamed.into_inner()?;
        whole.rewind()?;
        let copy = |mut file: &File| io::copy(&mut whole, &mut file).map(drop);
        write_whole_by(&self.path, copy)
    }
}

/// A file of hypotheses, one per line.
pub(super) struct HypothesesFile {
    file: WholeFile,
    is_json: bool,
}

/// A line of a JSON Lines file.
#[derive(Serialize)]
struct Record<'a> {
    source: &'a str,
    reference: &'a str,
    hypothesis: &'a str,
}

/// Rejects a file for outputs that is `-`, ends in `.gz`, is a folder, is read-only, is among a run's
/// own files or is one of `inputs`.
pub(super) fn check_outputs<'a>(
    flag: &'static str,
    path: &Path,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), UsageError> {
    let found = path.canonicalize();
    let same = |input: &Path| matches!((input.canonicalize(), &found), (Ok(a), Ok(b)) if a == *b);
    let what = if path == Path::new("-") {
        "must be a file"
    } else if path.extension().is_some_and(|extension| extension == "gz") {
        "must be a name without .gz, since the file is not compressed"
    } else if path.is_dir() {
        "is a folder; name a file"
    } else if fs::metadata(path).is_ok_and(|file| file.permissions().readonly()) {
        "is read-only; name another file"
    } else if inputs.into_iter().any(same) {
        "is a file of the texts, and would be lost"
    } else {
        return check_output(flag.trim_start_matches('-'), path);
    };
    Err(UsageError::new(flag, path.display(), what))
}

impl HypothesesFile {
    /// Begins the file at `path`, the value of the flag `--hypotheses`. Returns `None` if the flag is
    /// not given. `inputs` are the files that the command reads.
    ///
    /// # Errors
    ///
    /// The path is `-`, ends in `.gz` or is one of `inputs`, or the file cannot be written.
    pub(super) fn of_flag<'a>(
        path: Option<&Path>,
        inputs: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Option<Self>, UsageError> {
        let Some(path) = path else {
            return Ok(None);
        };
        check_outputs(FLAG, path, inputs)?;
        let wrong =
            |error| UsageError::new(FLAG, path.display(), format!("cannot be written ({error})"));
        Ok(Some(Self {
            file: WholeFile::create(path).map_err(wrong)?,
            is_json: is_json_lines(path),
        }))
    }

    /// Writes a line for an example. The line has the hypothesis and, in JSON Lines, also the
    /// source and the reference.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn add(&mut self, source: &str, reference: &str, hypothesis: &str) -> Result<()> {
        let line = if self.is_json {
            serde_json::to_string(&Record {
                source,
                reference,
                hypothesis,
            })?
        } else {
            // A line break within an output would shift the lines after it.
            one_line(hypothesis)
        };
        let written = self.file.add(&(line + "\n"));
        written.with_context(|| unwritable(&self.file.path))
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn close(self) -> Result<()> {
        let path = self.file.path.clone();
        self.file.close().with_context(|| unwritable(&path))
    }
}

fn unwritable(path: &Path) -> String {
    format!("{FLAG} {} cannot be written", path.display())
}
