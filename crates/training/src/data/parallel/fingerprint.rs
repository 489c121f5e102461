//! Hashes that identify files and what is made from them.

use std::fs::File;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::lines::{cannot_read, check_regular, wrong};
use crate::error::UsageError;
use crate::files::{hex, sha256};

/// Size and hash that identify the content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content, in hexadecimal digits.
    pub sha256: String,
}

impl Fingerprint {
    /// Reads a whole file and computes its fingerprint.
    pub(super) fn of(path: &Path) -> Result<Self, UsageError> {
        check_regular(path)?;
        let mut file = File::open(path).map_err(|error| cannot_read(path, &error))?;
        let mut hash = Sha256::new();
        let copied = std::io::copy(&mut file, &mut hash);
        let size = copied.map_err(|error| cannot_read(path, &error))?;
        if size == 0 {
            return Err(wrong(path, "is empty"));
        }
        Ok(Self {
            size,
            sha256: hex(&hash.finalize()),
        })
    }
}

/// Returns the first 16 hexadecimal digits of the SHA-256 of a value's JSON.
pub(super) fn key(value: &impl Serialize) -> String {
    let json = serde_json::to_vec(value).expect("it is plain data");
    sha256(&json)[..16].into()
}
