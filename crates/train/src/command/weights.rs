//! `train import`, `train export` and `train inspect`: weights from elsewhere, and for elsewhere.

mod export;
mod hugging_face;
mod import;
mod inspect;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use transformer::weights::{Parameters, WeightsError};

pub use export::run as export;
pub use import::run as import;
pub use inspect::run as inspect;

use crate::cli::DtypeName;
use crate::disk::write_whole;
use crate::error::UsageError;
use crate::output;

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
        WeightsError::Missing { .. } => {
            "; `train inspect` lists all names, --rename FROM=TO changes one"
        }
        WeightsError::Ambiguous { .. } => "; say with --entry which are meant",
        WeightsError::Foreign { .. } => "; --allow-unused passes over it",
        WeightsError::Unrecognised { .. } => {
            "; `train inspect` lists all names, --rename FROM=TO changes one"
        }
        _ => "",
    };
    UsageError::new("FILE", path.display(), shown(&format!("{error}{hint}")))
}

/// Words of a file, for a terminal: without control characters, and not without end.
fn shown(text: &str) -> String {
    const MOST: usize = 600;
    let mut shown = String::new();
    for c in text.chars() {
        if shown.len() > MOST {
            return shown + "...";
        }
        match c.is_control() {
            true => shown.extend(c.escape_debug()),
            false => shown.push(c),
        }
    }
    shown
}

/// Refuses to write over a file, unless that is wanted.
fn check_output(path: &Path, force: bool) -> Result<(), UsageError> {
    let refuse = |what: &str| Err(UsageError::new("--output", path.display(), what));
    if path.is_dir() {
        return refuse("is a folder, but must be a file");
    }
    let about = fs::symlink_metadata(path);
    if path.exists() && !path.is_file() {
        return refuse("is not a regular file");
    }
    if about.is_ok() && !force {
        return refuse("is there already; name another file, or give --force to replace it");
    }
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    match folder {
        Some(folder) if !folder.is_dir() => refuse("is in a folder that does not exist"),
        _ => Ok(()),
    }
}

/// Writes the file, whole or not at all; where it is a link, that which it leads to.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    write_whole(&target, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Says how many numbers half precision makes infinite.
fn warn_of_f16(parameters: &Parameters, dtype: DtypeName) {
    if dtype != DtypeName::F16 {
        return;
    }
    for (name, data) in parameters {
        let too_large = |x: &f32| x.is_finite() && x.abs() >= 65_520.0;
        let count = data.iter::<f32>().filter(too_large).count();
        if count > 0 {
            output::note(&format!(
                "warning: {name}: {count} numbers become infinite in f16; --dtype bf16 or f32"
            ));
        }
    }
}

/// Number and size of what was written.
fn size(path: &Path) -> Result<String> {
    let bytes = fs::metadata(path)?.len();
    Ok(match bytes {
        0..100_000 => format!("{bytes} bytes"),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    })
}
