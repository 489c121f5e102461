//! The file to which `eval --hypotheses` writes the outputs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use training::data::parallel::is_json_lines;
use training::error::UsageError;
use training::inference::one_line;
use training::run::layout::check_output;

const FLAG: &str = "--hypotheses";

/// An open file of hypotheses, one per line.
pub(super) struct HypothesesFile {
    path: PathBuf,
    file: BufWriter<File>,
    is_json: bool,
}

/// A line of a JSON Lines file.
#[derive(Serialize)]
struct Record<'a> {
    source: &'a str,
    reference: &'a str,
    hypothesis: &'a str,
}

/// Rejects a file for outputs that is `-`, ends in `.gz`, is among a run's own files or is one of
/// `inputs`.
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
    } else if inputs.into_iter().any(same) {
        "is a file of the texts, and would be lost"
    } else {
        return check_output(flag.trim_start_matches('-'), path);
    };
    Err(UsageError::new(flag, path.display(), what))
}

impl HypothesesFile {
    /// Creates the file at `path`, the value of the flag `--hypotheses`. Returns `None` if the flag
    /// is not given. `inputs` are the files that the command reads.
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
        let file = File::create(path).map_err(wrong)?;
        Ok(Some(Self {
            path: path.into(),
            file: BufWriter::new(file),
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
        let written = writeln!(self.file, "{line}");
        written.with_context(|| self.unwritable())
    }

    /// Writes the lines that are still buffered, and closes the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn close(mut self) -> Result<()> {
        let written = self.file.flush();
        written.with_context(|| self.unwritable())
    }

    fn unwritable(&self) -> String {
        format!("{FLAG} {} cannot be written", self.path.display())
    }
}
