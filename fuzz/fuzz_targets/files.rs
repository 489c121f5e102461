//! Files in a folder that all inputs of a process share.

use std::path::{Path, PathBuf};

/// Returns a temporary folder, the same at each call. The folder is never deleted.
pub fn folder() -> &'static Path {
    static FOLDER: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().expect("a temporary folder").keep())
}

/// Writes a file of the folder and returns its path.
pub fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("a temporary file");
    path
}
