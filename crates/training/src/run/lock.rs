//! The lock of a run folder, which a process holds while it trains there.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::layout::{LOCK, cannot_write_file};
use crate::error::UsageError;
use crate::files::{open_or_create, open_regular};

/// Number of attempts to lock a folder. An attempt also fails while another process runs
/// [`is_locked`], which holds the lock only for a moment.
const ATTEMPTS: usize = 5;

/// Time between two attempts to lock a folder.
const PAUSE: Duration = Duration::from_millis(10);

/// A run folder that this process has locked.
#[derive(Debug)]
pub(super) struct LockedFolder {
    path: PathBuf,
    /// The locked file. Closing it unlocks the folder.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only kept open"))]
    file: File,
}

impl LockedFolder {
    /// Returns the path that the folder had when it was locked. It may have been renamed since.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the path still names the locked folder. On systems other than Unix, only checks
    /// that it names a folder with a lock file.
    ///
    /// # Errors
    ///
    /// If the folder was removed, renamed or replaced.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_in_place() {
            return Ok(());
        }
        let path = self.path.display();
        Err(anyhow!(
            "the run folder {path} or its file {LOCK} was removed, renamed or replaced while it was in use: training ends; `train resume` continues from the last checkpoint, if the folder is still there under some name"
        ))
    }

    fn is_in_place(&self) -> bool {
        is_file_at(&self.file, &self.path.join(LOCK))
    }
}

/// Returns whether an open file is the one at `path`, which another program may have replaced.
#[cfg(unix)]
pub(super) fn is_file_at(file: &File, path: &Path) -> bool {
    use std::fs::{self, Metadata};
    use std::os::unix::fs::MetadataExt;
    let id = |file: Metadata| (file.dev(), file.ino());
    let now = fs::metadata(path).map(id);
    // If the metadata of the open file cannot be read, it is assumed to be in place.
    let open = file.metadata().map(id);
    open.map_or(true, |open| now.is_ok_and(|now| now == open))
}

#[cfg(not(unix))]
pub(super) fn is_file_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Locks a folder against other processes until the result is dropped.
///
/// On a file system without locks, the folder stays unlocked. The system unlocks the folder when
/// the process ends, even if the process is killed. Errors name `argument`, the argument for the
/// folder.
pub(super) fn lock(folder: &Path, argument: &'static str) -> Result<LockedFolder> {
    let path = folder.into();
    let cannot = |error| cannot_write_file(argument, folder, LOCK, error);
    let mut file = open_or_create(&folder.join(LOCK)).map_err(cannot)?;
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
                return Err(UsageError::argument(argument, folder.display(), what).into());
            }
            // Some network file systems do not support locks, and the folder stays unlocked there.
            Err(TryLockError::Error(_)) => return Ok(LockedFolder { path, file }),
        }
    }
    let name = format!("process {}\n", std::process::id());
    file.set_len(0).map_err(cannot)?;
    file.write_all(name.as_bytes()).map_err(cannot)?;
    Ok(LockedFolder { path, file })
}

/// Returns whether a process holds the lock of a folder. If the file system does not support locks,
/// a folder with a lock file counts as locked.
pub(super) fn is_locked(folder: &Path) -> bool {
    // The lock is shared, so that two readers do not mistake each other for a training process.
    let lock = open_regular(&folder.join(LOCK));
    lock.is_ok_and(|file| file.try_lock_shared().is_err())
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new("mkfifo");
        let made = command.arg(folder.path().join(LOCK)).status();
        assert!(made.unwrap().success());
        assert!(!is_locked(folder.path()));
        assert!(lock(folder.path(), "run").is_err());
    }

    #[test]
    fn a_folder_that_is_removed_renamed_or_replaced_is_noticed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        let changes: [fn(&Path); 4] = [
            |path| fs::remove_dir_all(path).unwrap(),
            |path| fs::remove_file(path.join(LOCK)).unwrap(),
            |path| fs::rename(path, path.with_file_name("renamed")).unwrap(),
            |path| {
                fs::remove_file(path.join(LOCK)).unwrap();
                fs::write(path.join(LOCK), "").unwrap();
            },
        ];
        for change in changes {
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            let locked = lock(&path, "run").unwrap();
            locked.check().unwrap();
            change(&path);
            // Outside Unix, only a missing file is noticed.
            assert!(locked.check().is_err() || cfg!(not(unix)));
        }
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
