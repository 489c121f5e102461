//! The folder that holds all caches. Several runs may use it at the same time.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

use super::config::TextConfig;
use crate::error::UsageError;
use crate::files::{TemporaryFolder, open_or_create};
use crate::notes;

/// Prefixes of folder names: one for tokenised corpora, and one for trained tokenisers.
pub(super) const PAIRS: &str = "pairs-";
pub(super) const TOKENIZER: &str = "tokenizer-";

/// Opens the cache `name` in the folder `caches`. Makes the cache first if it does not exist or is
/// damaged.
///
/// `open` returns `None` for a cache that does not exist, and an error for a damaged one. `make`
/// fills an empty temporary folder, which gets the cache's name when it is complete.
///
/// # Errors
///
/// If `make` fails, a folder cannot be written, or the new cache cannot be opened.
pub(super) fn open_or_make<T>(
    caches: &Path,
    name: &str,
    open: impl Fn(&Path) -> Result<Option<T>>,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<T> {
    let path = caches.join(name);
    if let Ok(Some(cache)) = open(&path) {
        return Ok(cache);
    }
    let _lock = lock(caches)?;
    match open(&path) {
        // Another run has made the cache in the meantime.
        Ok(Some(cache)) => return Ok(cache),
        Ok(None) => {}
        Err(error) => {
            let path = path.display();
            notes::warn(&format!("{path} is damaged ({error:#}); it is made again"));
        }
    }
    let cannot = || format!("cannot write {}", path.display());
    let folder = TemporaryFolder::beside(&path).with_context(cannot)?;
    make(folder.path())?;
    folder.becomes(&path, |_| false).with_context(cannot)?;
    open(&path)?.with_context(|| format!("{} was removed by another process", path.display()))
}

/// Locks a folder of caches against other processes until the returned file is closed. Waits while
/// another process holds the lock. Removes temporary folders that killed processes left. On a file
/// system without locks, the function neither waits nor removes anything.
///
/// # Errors
///
/// If the folder cannot be written or read, or waiting for the lock fails.
pub(super) fn lock(folder: &Path) -> Result<File> {
    let cannot = || format!("cannot write {}", folder.display());
    let wrong = |what, error| {
        let expected = format!("{what}cannot be written ({error}); name a folder that can");
        UsageError::setting(TextConfig::cache, folder.display(), expected)
    };
    fs::create_dir_all(folder).map_err(|error| wrong("", error))?;
    if folder.join("config.json").exists() {
        let expected = "is the folder of a run or of a model; name another folder";
        return Err(UsageError::setting(TextConfig::cache, folder.display(), expected).into());
    }
    let file = open_or_create(&folder.join("lock"));
    let file = file.map_err(|error| wrong("its file lock ", error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            notes::note("waiting for another run, which prepares its data");
            file.lock().with_context(cannot)?;
        }
        // Some network file systems do not support locks. Training continues without a lock.
        Err(TryLockError::Error(_)) => return Ok(file),
    }
    for entry in fs::read_dir(folder).with_context(cannot)?.flatten() {
        if is_temporary(&entry.file_name().to_string_lossy()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(file)
}

/// Returns whether a folder has the name `PREFIX-KEY.PID.tmp` of an incomplete cache, or
/// `PREFIX-KEY.PID.old` of a replaced one. Other folders belong to others.
fn is_temporary(name: &str) -> bool {
    let parts: Vec<&str> = name.split('.').collect();
    matches!(parts[..], [cache, process, "tmp" | "old"] if is_cache(cache) && process.parse::<u32>().is_ok())
}

/// Returns whether a folder has the name `PREFIX-KEY` of a cache.
fn is_cache(name: &str) -> bool {
    let key = name.strip_prefix(PAIRS).or(name.strip_prefix(TOKENIZER));
    key.is_some_and(|key| key.len() == 16 && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns whether a path leads into a cache, or is that of its folder.
pub(crate) fn is_in_cache(path: &Path) -> bool {
    path.iter().any(|part| is_cache(&part.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_caches_are_removed() {
        for name in [
            "pairs-0123456789abcdef.77.tmp",
            "tokenizer-0123456789abcdef.7.old",
        ] {
            assert!(is_temporary(name), "{name}");
        }
        for name in [
            "pairs-0123456789abcdef",
            "tokenizer-mine.old",
            "pairs-2024.tmp",
            "pairs-0123456789abcdef.mine.tmp",
            "mine-0123456789abcdef.77.tmp",
        ] {
            assert!(!is_temporary(name), "{name}");
        }
    }
}
