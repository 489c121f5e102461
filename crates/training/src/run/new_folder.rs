//! Creates the folder of a new run.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::layout::{CONFIG, LOCK, RUN_DIR, cannot_write, check_names, check_output, is_run};
use crate::error::UsageError;

/// Creates the folder `path` if it does not exist, and rejects a folder that is not empty. Files
/// that a killed process may have left do not count.
pub(super) fn claim(path: &Path) -> Result<PathBuf, UsageError> {
    check_output(RUN_DIR, path)?;
    let mut entries = entries(path)?;
    // Files that `is_left` accepts do not count, because a process that was killed before it wrote
    // `config.json` may have left them.
    let is_ours = path.join(LOCK).exists();
    let is_left = |name: &OsStr| {
        let name = name.to_string_lossy();
        let is_tokenizer = is_ours && name.contains("tokenizer.json");
        let is_config = name.starts_with(CONFIG) && name.ends_with(".tmp");
        name == LOCK || is_config || is_tokenizer
    };
    if entries.any(|entry| !entry.is_ok_and(|entry| is_left(&entry.file_name()))) {
        let expected = if is_run(path) {
            "already holds a run; name another folder, or remove this one first"
        } else {
            "is not empty; name another folder"
        };
        return Err(UsageError::argument(RUN_DIR, path.display(), expected));
    }
    check_names(RUN_DIR, path)?;
    Ok(path.into())
}

/// Creates a folder if it does not exist, and returns its entries.
fn entries(folder: &Path) -> Result<fs::ReadDir, UsageError> {
    let entries = fs::create_dir_all(folder).and_then(|()| fs::read_dir(folder));
    entries.map_err(|error| cannot_write(RUN_DIR, folder, &error))
}

/// Creates the folder `NAME-N` in `parent`, where `N` is one above the largest existing number.
pub(super) fn next_free(parent: &Path, name: &str) -> Result<PathBuf, UsageError> {
    let taken = entries(parent)?.filter_map(|entry| {
        let file_name = entry.ok()?.file_name();
        let number = file_name.to_str()?.strip_prefix(name)?.strip_prefix('-')?;
        number.parse::<u64>().ok()
    });
    let first = taken.max().map_or(1, |last| last.saturating_add(1));
    for number in first.. {
        let path = parent.join(format!("{name}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            // Another process has created this folder in the meantime.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot_write(RUN_DIR, &path, &error)),
        }
    }
    unreachable!("there are fewer than 2^64 runs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::layout::METRICS;
    use crate::run::lock::lock;
    use crate::tests::assert_has;

    #[test]
    fn runs_are_numbered() {
        let parent = tempfile::tempdir().unwrap();
        let create = || next_free(parent.path(), "copy").unwrap();
        assert!(create().ends_with("copy-1"));
        assert!(create().ends_with("copy-2"));
        fs::create_dir(parent.path().join("copy-9")).unwrap();
        fs::create_dir(parent.path().join("copy-x")).unwrap();
        assert!(
            next_free(parent.path(), "copy")
                .unwrap()
                .ends_with("copy-10")
        );
    }

    #[test]
    fn only_new_or_empty_folders_are_claimed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        assert_eq!(claim(&path).unwrap(), path);
        assert_eq!(claim(&path).unwrap(), path);
        drop(lock(&path, RUN_DIR).unwrap());
        assert_eq!(claim(&path).unwrap(), path);
        fs::write(path.join("config.json.tmp"), "").unwrap();
        fs::write(path.join("config.json.123.tmp"), "").unwrap();
        assert_eq!(claim(&path).unwrap(), path);
        fs::write(path.join("notes"), "").unwrap();
        assert_has(&claim(&path).unwrap_err(), &["is not empty"]);
        fs::write(path.join(CONFIG), "").unwrap();
        assert_has(&claim(&path).unwrap_err(), &["is not empty"]);
        fs::write(path.join(METRICS), "").unwrap();
        assert_has(&claim(&path).unwrap_err(), &["already holds a run"]);
    }
}
