//! Writes files and folders whole or not at all: no process sees an incomplete file or folder under
//! its final name, even after a crash of the machine. Reads files and lines of limited size.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use lines::{LineReader, count_lines};

mod lines;

/// Writes a file whole or not at all, through a temporary file `PATH.PID.tmp` beside it, which takes
/// the permissions of the file that it replaces. Another hard link to that file keeps its content.
///
/// A symbolic link is followed if its target exists, and replaced if not. Something that is neither
/// a file nor a folder, such as a pipe, is written directly.
///
/// # Errors
///
/// If the file is read-only or cannot be written, in which case an existing regular file at `path` is
/// unchanged, or if its folder cannot be synced to the disk, in which case the new file is already in place.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_whole_by(path, |mut file| file.write_all(bytes))
}

/// Writes a file whole or not at all, as [`write_whole`] does. `write` writes its content.
///
/// # Errors
///
/// In the cases of [`write_whole`], and if `write` returns an error.
pub fn write_whole_by<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&File) -> Result<(), E>,
) -> Result<(), E> {
    if fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir()) {
        return write(&File::options().write(true).open(path)?);
    }
    // A rename would replace a read-only file without a word.
    if fs::metadata(path).is_ok_and(|file| file.permissions().readonly()) {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it is read-only").into());
    }
    // A path without a file, or a broken link, cannot be resolved and is used as it is.
    let target = fs::canonicalize(path);
    replace_by(target.as_deref().unwrap_or(path), write)
}

/// Writes a file whole or not at all, as [`write_whole`] does, but replaces a symbolic link.
///
/// This function writes the files of a run, because a symbolic link in a run folder from an
/// untrusted source could lead to any file.
///
/// # Errors
///
/// In the cases of [`write_whole`].
pub fn replace_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_by(path, |mut file| file.write_all(bytes))
}

fn replace_by<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&File) -> Result<(), E>,
) -> Result<(), E> {
    let temporary = temporary_name(path);
    let written = write_through_by(&temporary, |file| {
        // What only its owner may read stays so. Some file systems cannot set permissions; there,
        // all files have the same.
        if let Ok(replaced) = fs::symlink_metadata(path)
            && replaced.is_file()
        {
            let _ = file.set_permissions(replaced.permissions());
        }
        write(file)
    });
    let renamed = written.and_then(|()| Ok(fs::rename(&temporary, path)?));
    renamed.inspect_err(|_| {
        // If the disk is full, a part of the file may have been written.
        let _ = fs::remove_file(&temporary);
    })?;
    Ok(sync_parent(path)?)
}

/// Writes a value as a JSON file, as [`replace_whole`] writes bytes.
pub(crate) fn write_json(path: &Path, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    let mut json = serde_json::to_vec_pretty(value)?;
    json.push(b'\n');
    replace_whole(path, &json)
}

/// Writes a file and waits until its content is on the disk.
pub(crate) fn write_through(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_through_by(path, |mut file| file.write_all(bytes))
}

/// Creates a file, lets `write` write its content, and waits until the content is on the disk.
pub(crate) fn write_through_by<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&File) -> Result<(), E>,
) -> Result<(), E> {
    let file = File::create(path)?;
    write(&file)?;
    Ok(file.sync_all()?)
}

/// Opens a regular file to read and write it, and creates it if it does not exist.
///
/// # Errors
///
/// If the file cannot be opened or created, or is not a regular file, such as a named pipe or a
/// symbolic link.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    // Opening a named pipe would wait for another process, and a link could lead to any file.
    if fs::symlink_metadata(path).is_ok_and(|file| !file.is_file()) {
        return Err(irregular());
    }
    let mut options = File::options();
    options.create(true).truncate(false);
    options.read(true).write(true).open(path)
}

fn irregular() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")
}

/// Opens a regular file to read it.
///
/// # Errors
///
/// If the file cannot be opened, or is not a regular file, such as a named pipe.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    // Opening a named pipe would wait for a writer.
    if fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(irregular())
    }
}

/// Reads a regular file of at most `mebibytes` MiB.
///
/// # Errors
///
/// If the file cannot be read, is not a regular file, or is larger.
pub fn read_regular(path: &Path, mebibytes: u64) -> io::Result<Vec<u8>> {
    let most = mebibytes << 20;
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    let read = open_regular(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if read as u64 > most {
        let what = format!("it has more than {mebibytes} MiB");
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    Ok(bytes)
}

/// Returns the SHA-256 of bytes, in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Length and SHA-256 of a file, or of its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum {
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of these bytes, in hexadecimal digits.
    pub sha256: String,
}

impl Checksum {
    /// Returns the checksum of an open file. Reads the file in pieces, to save memory.
    pub(crate) fn of(mut file: &File) -> io::Result<Self> {
        let mut hash = Sha256::new();
        let bytes = io::copy(&mut file, &mut hash)?;
        let sha256 = hex(&hash.finalize());
        Ok(Self { bytes, sha256 })
    }
}

/// Returns the first 16 hexadecimal digits of the SHA-256 of a value's JSON.
pub(crate) fn key(value: &impl Serialize) -> String {
    let json = serde_json::to_vec(value).expect("it is plain data");
    sha256(&json)[..16].into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits until the names of a folder's entries are on the disk. Does nothing on systems other than
/// Unix.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(path)?.sync_all()?;
    let _ = path;
    Ok(())
}

/// A folder that is filled under a temporary name. Dropping it removes the folder, unless it has
/// been renamed by [`becomes`](Self::becomes).
#[derive(Debug)]
pub(crate) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Creates an empty folder at `path`. Removes a folder that a killed process has left there.
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        remove_folder(&path)?;
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Creates an empty folder `PATH.PID.tmp` beside `path`.
    pub(crate) fn beside(path: &Path) -> io::Result<Self> {
        Self::create(temporary_name(path))
    }

    /// Returns the folder's temporary path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Renames the folder to `path`, which must have the same parent folder as the temporary name.
    ///
    /// The folder replaces whatever is at `path`, but keeps what a replaced folder has under other
    /// names that `is_own` does not accept. Until a replaced folder is removed, its name is the
    /// temporary name with the extension `old`.
    ///
    /// # Errors
    ///
    /// If a folder cannot be renamed or removed, or if the new names cannot be written to the disk.
    pub(crate) fn becomes(self, path: &Path, is_own: impl Fn(&str) -> bool) -> io::Result<()> {
        sync_folder(&self.0)?;
        let replaced = self.0.with_extension("old");
        remove_folder(&replaced)?;
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => fs::rename(path, &replaced)?,
            Ok(_) => fs::remove_file(path)?,
            Err(_) => {}
        }
        fs::rename(&self.0, path).inspect_err(|_| {
            let _ = fs::rename(&replaced, path);
        })?;
        remove_replaced(&replaced, path, is_own)?;
        sync_parent(path)
    }
}

/// Removes a folder that `path` has replaced. What `is_own` does not accept is moved to `path`,
/// unless that has something of the same name.
pub(crate) fn remove_replaced(
    replaced: &Path,
    path: &Path,
    is_own: impl Fn(&str) -> bool,
) -> io::Result<()> {
    for entry in fs::read_dir(replaced).into_iter().flatten().flatten() {
        let kept = path.join(entry.file_name());
        if !kept.exists() && !entry.file_name().to_str().is_some_and(&is_own) {
            fs::rename(entry.path(), kept)?;
        }
    }
    remove_folder(replaced)
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // If `becomes` has renamed the folder, no folder has this path, and nothing is removed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes a folder and everything in it, if it exists.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    ignore_missing(fs::remove_dir_all(path))
}

/// Removes the regular files of a folder whose names `is_own` accepts, and then the folder, unless
/// something else is in it.
pub(crate) fn remove_files(folder: &Path, is_own: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && entry.file_name().to_str().is_some_and(&is_own) {
            fs::remove_file(entry.path())?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => ignore_missing(removed),
    }
}

/// Removes a file, if it exists.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    ignore_missing(fs::remove_file(path))
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Returns `PATH.PID.tmp`, a name that neither the user nor another process uses.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    name.into()
}

/// Removes the temporary files `NAME.json.PID.tmp` and `NAME.jsonl.PID.tmp` that killed processes left
/// in a folder. No other process may be writing such a file.
pub(crate) fn remove_temporaries(folder: &Path) {
    let is_temporary = |name: &str| {
        let parts: Vec<&str> = name.rsplitn(4, '.').collect();
        matches!(parts[..], ["tmp", process, "json" | "jsonl", _] if process.parse::<u32>().is_ok())
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_temporary) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let sync = |folder| sync_folder(&Path::new(".").join(folder));
    path.parent().map_or(Ok(()), sync)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn writing_a_file_whole_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for bytes in [&b"longer"[..], b"short"] {
            write_whole(&path, bytes).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        assert_eq!(names(folder.path()), ["a"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, PermissionsExt};
            let allow = |mode| fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            allow(0o444);
            assert!(write_whole(&path, b"other").is_err());
            assert_eq!(fs::read(&path).unwrap(), b"short");
            // A file that only its owner may read stays so.
            for mode in [0o600, 0o640] {
                allow(mode);
                write_whole(&path, b"private").unwrap();
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, mode);
            }
            // A link is followed, and stays a link.
            let link = folder.path().join("link");
            std::os::unix::fs::symlink("a", &link).unwrap();
            write_whole(&link, b"through the link").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"through the link");
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            fs::remove_file(link).unwrap();
            // Only regular files are replaced: a socket cannot be opened, and stays.
            let socket = folder.path().join("socket");
            let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
            assert!(write_whole(&socket, b"nothing").is_err());
            assert!(!fs::metadata(&socket).unwrap().is_file());
            fs::remove_file(socket).unwrap();
        }
        // A folder cannot be replaced by a file.
        let taken = folder.path().join("taken");
        fs::create_dir_all(taken.join("inside")).unwrap();
        assert!(write_whole(&taken, b"file").is_err());
        assert_eq!(names(folder.path()), ["a", "taken"]);
    }

    #[test]
    fn devices_and_large_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let error = |path: &Path| read_regular(path, 1).unwrap_err().to_string();
        fs::write(&path, vec![b'a'; 1 << 20]).unwrap();
        assert_eq!(read_regular(&path, 1).unwrap().len(), 1 << 20);
        fs::write(&path, vec![b'a'; (1 << 20) + 1]).unwrap();
        assert_eq!(error(&path), "it has more than 1 MiB");
        assert_eq!(error(folder.path()), "it is not a regular file");
        if cfg!(unix) {
            assert_eq!(error(Path::new("/dev/zero")), "it is not a regular file");
        }
    }

    #[test]
    fn only_temporary_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let kept = "12.tmp a.json a.json.tmp a.json.x.tmp b.svg.12.tmp".split(' ');
        let removed = "a.json.12.tmp a.jsonl.12.tmp a.tokenizer.json.4294967295.tmp".split(' ');
        for name in kept.clone().chain(removed) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        remove_temporaries(folder.path());
        assert_eq!(names(folder.path()), Vec::from_iter(kept));
    }

    #[test]
    fn a_temporary_folder_replaces_another_or_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("whole");
        for text in ["first", "second"] {
            let folder = TemporaryFolder::beside(&path).unwrap();
            fs::write(folder.path().join("file"), text).unwrap();
            fs::write(folder.path().join(format!("only {text}")), "").unwrap();
            folder.becomes(&path, |name| name == "only first").unwrap();
            assert_eq!(fs::read_to_string(path.join("file")).unwrap(), text);
            assert_eq!(names(parent.path()), ["whole"]);
            // A file of the user's own stays.
            fs::write(path.join("own"), "").unwrap();
        }
        let abandoned = TemporaryFolder::beside(&path).unwrap();
        fs::write(abandoned.path().join("third"), "third").unwrap();
        assert_eq!(names(parent.path()).len(), 2);
        drop(abandoned);
        assert_eq!(names(parent.path()), ["whole"]);
        assert_eq!(names(&path), ["file", "only second", "own"]);
    }
}
