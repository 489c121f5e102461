//! Files that are there, whole, when the machine has failed.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::Serialize;

/// Writes a file down to the disk.
pub(crate) fn write_through(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Writes a folder's list of names down to the disk, where the system can.
pub(crate) fn sync_folder(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    File::open(path)?.sync_all()?;
    let _ = path;
    Ok(())
}

/// JSON, as [`write_whole`].
pub(crate) fn write_json(path: &Path, value: &(impl Serialize + ?Sized)) -> std::io::Result<()> {
    let mut json = serde_json::to_vec_pretty(value)?;
    json.push(b'\n');
    write_whole(path, &json)
}

/// Through a temporary file, so that no reader ever sees half of it.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = Path::new(&temporary);
    let written = write_through(temporary, bytes).and_then(|()| fs::rename(temporary, path));
    written.inspect_err(|_| {
        // Of a full disk, not even a part.
        let _ = fs::remove_file(temporary);
    })?;
    match path.parent() {
        None => Ok(()),
        Some(folder) if folder == Path::new("") => sync_folder(Path::new(".")),
        Some(folder) => sync_folder(folder),
    }
}
