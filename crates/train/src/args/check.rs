//! Checks of flags, and of the files that they name.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use training::error::{UsageError, unwritable};
use training::run::is_cache;

/// Replaces a setting by the value of a flag if the flag is given.
pub fn set<T>(setting: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *setting = value;
    }
}

/// Rejects a flag if it is given. The error message consists of the flag, its value and `expected`.
pub fn reject(flag: &str, value: Option<impl Display>, expected: &str) -> Result<(), UsageError> {
    value.map_or(Ok(()), |value| Err(UsageError::new(flag, value, expected)))
}

/// Rejects `flag` if it is given without what it needs, because it would have no effect. `other`
/// names what it needs, such as `--beam` or `a RUN`, and `is_given` says whether that is given.
pub fn needs(
    flag: &str,
    value: Option<impl Display>,
    other: &str,
    is_given: bool,
) -> Result<(), UsageError> {
    let value = value.filter(|_| !is_given);
    reject(flag, value, &format!("needs {other}"))
}

/// Returns the runs among `runs`, such as those of `runs/*`, which has the folder of tokenised corpora,
/// too; without a run, that folder. Rejects a run that is named twice.
pub fn different(runs: &[PathBuf]) -> Result<Vec<&PathBuf>, UsageError> {
    let mut seen = HashSet::new();
    let whole = |run: &PathBuf| run.canonicalize().unwrap_or_else(|_| run.clone());
    let twice = runs.iter().find(|run| !seen.insert(whole(run)));
    let twice = twice.map(|run| run.display());
    reject("RUN", twice, "is named twice; name different runs")?;
    let is_kept = |run: &&PathBuf| runs.iter().all(|run| is_cache(run)) || !is_cache(run);
    Ok(runs.iter().filter(is_kept).collect())
}

/// Returns the path of `--output`, or else `name`, which is inside the folder of the run if there is
/// only one.
pub fn output_or(output: Option<&Path>, runs: &[PathBuf], name: &str) -> PathBuf {
    match (output, runs) {
        (Some(path), _) => path.into(),
        (None, [run]) => run.join(name),
        (None, _) => name.into(),
    }
}

/// Rejects an output file that exists already, unless this program wrote it, so that `mark` is near its
/// beginning, or `force` is true.
pub fn check_replaced(path: &Path, mark: &str, force: bool) -> Result<(), UsageError> {
    let mut begin = Vec::new();
    // Opening a named pipe would wait for a writer.
    let file = (path.is_file() && !force).then(|| File::open(path));
    if let Some(Ok(file)) = file {
        _ = file.take(4096).read_to_end(&mut begin);
    }
    let is_own = begin.is_empty() || String::from_utf8_lossy(&begin).contains(mark);
    let other = (!is_own).then(|| path.display());
    let expected = "exists and is another file; name another path, or give --force to replace it";
    reject("--output", other, expected)
}

/// Returns the folder of a file.
pub fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// Returns the error for a file of `--output`: one of the system means that it cannot be written, and
/// another is returned as it is.
pub fn unwritable_output(path: &Path, error: impl Into<anyhow::Error>) -> anyhow::Error {
    match error.into().downcast::<io::Error>() {
        Ok(error) => {
            let what = format!("cannot be written ({error}); name another file");
            let usage = UsageError::new("--output", path.display(), what);
            unwritable(path, error, usage)
        }
        Err(error) => error,
    }
}
