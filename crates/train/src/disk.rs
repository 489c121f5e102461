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

/// Through a temporary file, so that no reader ever sees half of it.
pub(crate) fn write_json(path: &Path, value: &(impl Serialize + ?Sized)) -> std::io::Result<()> {
    let temporary = path.with_extension("json.tmp");
    let mut json = serde_json::to_vec_pretty(value)?;
    json.push(b'\n');
    let written = write_through(&temporary, &json).and_then(|()| fs::rename(&temporary, path));
    written.inspect_err(|_| {
        // Of a full disk, not even a part.
        let _ = fs::remove_file(&temporary);
    })?;
    sync_folder(path.parent().expect("a file is in a folder"))
}
