//! A run's scores by length: `lengths.json`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

use super::layout::{LENGTHS, unusable};
use crate::error::UsageError;
use crate::evaluation::LengthScore;
use crate::files::write_json;

/// Writes `lengths.json` into a run folder, whole or not at all.
///
/// # Errors
///
/// If the file cannot be written.
pub fn save_lengths(folder: &Path, scores: &[LengthScore]) -> Result<()> {
    let path = folder.join(LENGTHS);
    write_json(&path, scores).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a run folder's `lengths.json`, in increasing order of length; `None` if there is none.
///
/// # Errors
///
/// A file that cannot be read or is damaged; the message names it.
pub fn read_lengths(folder: &Path) -> Result<Option<Vec<LengthScore>>, UsageError> {
    let path = folder.join(LENGTHS);
    let json = match fs::read(&path) {
        Ok(json) => json,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(&path, format!("cannot be read ({error})"))),
    };
    let mut scores: Vec<LengthScore> = serde_json::from_slice(&json).map_err(|error| {
        let what = format!("is damaged, must be a list of lengths as {{}} writes it ({error})");
        unusable(&path, what).naming(["evaluation.by_length.lengths"])
    })?;
    scores.sort_by_key(|score| score.length);
    Ok(Some(scores))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(length: usize, exact_match: Option<f64>) -> LengthScore {
        LengthScore {
            length,
            sequences: if exact_match.is_some() { 10 } else { 0 },
            exact_match,
            token_accuracy: exact_match,
            trained: length < 10,
        }
    }

    #[test]
    fn a_file_survives_writing_and_reading() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_lengths(folder.path()).unwrap(), None);
        let (short, long) = (score(2, Some(1.0 / 3.0)), score(99, None));
        save_lengths(folder.path(), &[long, short]).unwrap();
        let found = read_lengths(folder.path()).unwrap();
        assert_eq!(found, Some(vec![short, long]));
        let error = save_lengths(&folder.path().join("none"), &[short]).unwrap_err();
        assert!(error.to_string().contains("lengths.json"), "{error}");
        fs::write(folder.path().join(LENGTHS), "{}").unwrap();
        let error = read_lengths(folder.path()).unwrap_err().to_string();
        let expected =
            "lengths.json: is damaged, must be a list of lengths as evaluation.by_length";
        assert!(error.contains(expected), "{error}");
    }
}
