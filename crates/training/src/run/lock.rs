//! The lock of a run folder, which a process holds as long as it trains there.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::layout::{LOCK, cannot_write_file};
use crate::error::UsageError;

/// Attempts to lock a folder, because [`is_locked`] of another process holds the lock for a moment.
const ATTEMPTS: usize = 5;

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Locks a folder, which the argument `argument` names, against other processes until the file is
/// closed. The system unlocks it when the process ends, even if it is killed.
pub(super) fn lock(folder: &Path, argument: &str) -> Result<File> {
    let cannot = |error| cannot_write_file(argument, folder, LOCK, error);
    let mut file = open(&folder.join(LOCK)).map_err(cannot)?;
    for attempt in 1.. {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if attempt < ATTEMPTS => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                let mut process = String::new();
                let _ = file.read_to_string(&mut process);
                let process = process.trim();
                let what =
                    format!("is in use by another process ({process}); wait until it has ended");
                return Err(UsageError::setting(argument, folder.display(), what).into());
            }
            // Some network file systems have no locks.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
    let name = format!("process {}\n", std::process::id());
    let written = file
        .set_len(0)
        .and_then(|()| file.write_all(name.as_bytes()));
    written.map_err(cannot)?;
    Ok(file)
}

/// Whether a process holds the lock of a folder. Where the file system has no locks, a folder with
/// a lock file counts as locked.
pub(super) fn is_locked(folder: &Path) -> bool {
    // A shared lock, so that two readers do not take each other for the process that trains.
    let lock = File::open(folder.join(LOCK));
    lock.is_ok_and(|file| file.try_lock_shared().is_err())
}

/// Opens a file to read and write it, and creates it if it does not exist.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_locked_as_long_as_the_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_locked(folder.path()));
        let lock = lock(folder.path(), "run").unwrap();
        assert!(is_locked(folder.path()));
        drop(lock);
        assert!(!is_locked(folder.path()));
    }

    #[test]
    fn a_look_at_the_lock_does_not_keep_a_run_from_beginning() {
        let folder = tempfile::tempdir().unwrap();
        drop(lock(folder.path(), "run").unwrap());
        let reader = File::open(folder.path().join(LOCK)).unwrap();
        reader.try_lock_shared().unwrap();
        assert!(!is_locked(folder.path()));
        let closes = thread::spawn(move || {
            thread::sleep(PAUSE);
            drop(reader);
        });
        lock(folder.path(), "run").unwrap();
        closes.join().unwrap();
    }
}
