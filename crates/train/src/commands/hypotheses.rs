//! The file to which `eval --hypotheses` writes the outputs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use training::data::parallel::is_json_lines;
use training::error::UsageError;
use training::files::write_whole_by;
use training::inference::one_line;
use training::run::layout::check_output;

use crate::args::folder_of;
use crate::terminal::output;

const FLAG: &str = "--hypotheses";

/// A file of hypotheses, one per line, which is written whole or not at all.
pub(super) struct HypothesesFile {
    path: PathBuf,
    lines: String,
}

/// Rejects a file for outputs that is `-`, ends in `.gz`, is a folder, is read-only, is among a run's
/// own files, or is one of `inputs` or stdin.
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
        "cannot be written: it is a folder"
    } else if fs::metadata(path).is_ok_and(|file| file.permissions().readonly()) {
        "is read-only; name another file"
    } else if inputs.into_iter().any(same) || path.is_file() && same(Path::new("/dev/stdin")) {
        "is a file that is read, and would be lost"
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
        // The file is written at the end, but its folder is tried now.
        tempfile::tempfile_in(folder_of(path)).map_err(wrong)?;
        let (path, lines) = (path.into(), String::new());
        Ok(Some(Self { path, lines }))
    }

    /// Adds a line for an example. The line has the hypothesis and, in JSON Lines, also the source
    /// and the reference.
    pub(super) fn add(&mut self, source: &str, reference: &str, hypothesis: &str) {
        let line = if is_json_lines(&self.path) {
            let [source, reference, hypothesis] = [source, reference, hypothesis].map(Value::from);
            format!(r#"{{"source":{source},"reference":{reference},"hypothesis":{hypothesis}}}"#)
        } else {
            // A line break within an output would shift the lines after it.
            one_line(hypothesis)
        };
        self.lines += &(line + "\n");
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn close(self) -> Result<()> {
        let lines = self.lines.as_bytes();
        let written = write_whole_by(&self.path, |file| output::copy(lines, file));
        written.with_context(|| format!("{FLAG} {} cannot be written", self.path.display()))
    }
}
