//! Hashes that identify files and what is made from them.

use std::fs::File;
use std::path::Path;

use serde::Serialize;

use super::lines::{cannot_read, check_regular, wrong};
use crate::error::UsageError;
use crate::files::{sha256, sha256_of};

/// Reads a whole file of a corpus, and returns its SHA-256 in hexadecimal digits.
pub(super) fn fingerprint(path: &Path) -> Result<String, UsageError> {
    check_regular(path)?;
    let hashed = File::open(path).and_then(|file| sha256_of(&file));
    let (size, sha256) = hashed.map_err(|error| cannot_read(path, &error))?;
    if size == 0 {
        return Err(wrong(path, "is empty"));
    }
    Ok(sha256)
}

/// Returns the first 16 hexadecimal digits of the SHA-256 of a value's JSON.
pub(super) fn key(value: &impl Serialize) -> String {
    let json = serde_json::to_vec(value).expect("it is plain data");
    sha256(&json)[..16].into()
}
