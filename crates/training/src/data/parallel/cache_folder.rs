//! The folder of caches, which several runs may use at a time.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

use crate::error::UsageError;
use crate::files::TemporaryFolder;
use crate::notes;

/// Prefixes of the names of caches.
pub(super) const PAIRS: &str = "pairs-";
pub(super) const TOKENIZER: &str = "tokenizer-";

/// Suffixes of folders that are not complete, or were replaced.
const TEMPORARY: [&str; 2] = [".tmp", ".old"];

/// Opens the folder `name` in a folder of caches. `open` returns `None` if there is no such cache;
/// `make` then fills an empty folder, which gets its name when it is complete. A damaged cache is
/// made again.
///
/// # Errors
///
/// Those of `make`, or a folder that cannot be written.
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
        // Another run has made it in the meantime.
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
    folder.becomes(&path).with_context(cannot)?;
    open(&path)?.with_context(|| format!("{} was removed by another process", path.display()))
}

/// Locks a folder of caches against other processes until the returned file is closed; waits while
/// another process has the lock. Removes temporary folders that killed processes left.
///
/// # Errors
///
/// If the folder cannot be written.
pub(super) fn lock(folder: &Path) -> Result<File> {
    let cannot = || format!("cannot write {}", folder.display());
    let created = fs::create_dir_all(folder).and_then(|()| File::create(folder.join("lock")));
    let file = created.map_err(|error| {
        let expected = format!("cannot be written ({error}); name a folder that can");
        UsageError::setting("data.cache", folder.display(), expected)
    })?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            notes::note("waiting for another run, which prepares its data");
            file.lock().with_context(cannot)?;
        }
        // Some network file systems have no locks.
        Err(TryLockError::Error(_)) => return Ok(file),
    }
    for entry in fs::read_dir(folder).with_context(cannot)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_cache = name.starts_with(PAIRS) || name.starts_with(TOKENIZER);
        if is_cache && TEMPORARY.iter().any(|suffix| name.ends_with(suffix)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(file)
}
