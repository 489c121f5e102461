//! `train import`, `train export` and `train inspect`: weights from elsewhere, and for elsewhere.

mod export;
mod hugging_face;
mod import;
mod inspect;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use transformer::weights::WeightsError;

pub use export::run as export;
pub use import::run as import;
pub use inspect::run as inspect;

use crate::disk::write_whole;
use crate::error::UsageError;

/// What is wrong with a file, and the flag that helps where there is one.
fn wrong(path: &Path, error: WeightsError) -> UsageError {
    let hint = match &error {
        WeightsError::Config(error) => {
            let mut error = UsageError::from(error.clone());
            // No flag: it is the file's.
            error.expected = error.expected.replace("--d-model", "the width");
            return error;
        }
        WeightsError::Heads => "; say it with --heads",
        WeightsError::Unused { .. } => "; --rename FROM=TO or --allow-unused",
        WeightsError::Foreign { .. } => "; --allow-unused passes over it",
        WeightsError::Unrecognised { .. } => {
            "; `train inspect` lists all names, --rename FROM=TO changes one"
        }
        _ => "",
    };
    UsageError::new("FILE", path.display(), format!("{error}{hint}"))
}

/// Refuses to write over a file, unless that is wanted.
fn check_output(path: &Path, force: bool) -> Result<(), UsageError> {
    let refuse = |what: &str| Err(UsageError::new("--output", path.display(), what));
    if path.is_dir() {
        return refuse("is a folder, but must be a file");
    }
    if path.exists() && !force {
        return refuse("is there already; name another file, or give --force to replace it");
    }
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    match folder {
        Some(folder) if !folder.is_dir() => refuse("is in a folder that does not exist"),
        _ => Ok(()),
    }
}

/// Writes the file, whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_whole(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Number and size of what was written.
fn size(path: &Path) -> Result<String> {
    let bytes = fs::metadata(path)?.len();
    Ok(match bytes {
        0..100_000 => format!("{bytes} bytes"),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    })
}
