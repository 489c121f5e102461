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

/// JSON, whole or not at all.
pub(crate) fn write_json(path: &Path, value: &(impl Serialize + ?Sized)) -> std::io::Result<()> {
    let mut json = serde_json::to_vec_pretty(value)?;
    json.push(b'\n');
    write_through_another(path, ".tmp", &json)
}

/// A file of the user's own name, so that the temporary one must not be any of theirs.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let ending = format!(".{}.tmp", std::process::id());
    write_through_another(path, &ending, bytes)
}

/// Through a temporary file, so that no reader ever sees half of it.
fn write_through_another(path: &Path, ending: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(ending);
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
