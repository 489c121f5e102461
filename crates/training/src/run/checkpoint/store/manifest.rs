//! The manifest of a checkpoint: lengths and checksums of its files.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use transformer::weights::{self, Dtype};

use super::Content;
use crate::files::{Checksum, hex, write_through_by};

/// Contents of `manifest.json`: lengths and checksums of the other files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub format: u32,
    pub files: BTreeMap<String, Checksum>,
}

/// Writes a file, and returns its checksum.
pub(super) fn write(path: &Path, content: &Content<'_>) -> Result<Checksum> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    write_through_by(path, |file| -> Result<()> {
        let mut to = BufWriter::new(Inspect {
            to: file,
            each: |written: &[u8]| {
                hash.update(written);
                bytes += written.len() as u64;
            },
        });
        match content {
            Content::Bytes(bytes) => to.write_all(bytes)?,
            Content::Parameters(parameters) => {
                weights::write(&mut to, parameters, Dtype::F32, &BTreeMap::new())?;
            }
        }
        Ok(to.flush()?)
    })?;
    let sha256 = hex(&hash.finalize());
    Ok(Checksum { bytes, sha256 })
}

/// Passes bytes on to the writer `to`, and calls `each` with the bytes that `to` has taken.
struct Inspect<W, F> {
    to: W,
    each: F,
}

impl<W: Write, F: FnMut(&[u8])> Write for Inspect<W, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.to.write(bytes)?;
        (self.each)(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
