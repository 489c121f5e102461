//! Reads and writes `lengths.json`: scores by length, for each combination of model and settings
//! with which they were measured.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use transformer::generate::Method;

use super::layout::{LENGTHS, read_json_if_any};
use crate::data::Split;
use crate::error::UsageError;
use crate::evaluation::{LengthScore, LengthSettings};
use crate::files::write_json;

/// Model and settings with which scores by length were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthsOf {
    /// Step of the checkpoint. For a mean of checkpoints, the step of the newest one.
    pub step: usize,
    /// Number of checkpoints whose parameters were averaged; 1 for a single checkpoint.
    pub checkpoints: usize,
    /// Split from which the sequences were taken.
    pub split: Split,
    /// Maximum number of different sequences of each length.
    pub sequences: usize,
    /// Decoding method.
    pub method: Method,
}

impl LengthsOf {
    /// Returns the description of an evaluation with `settings`. `step` is the step of the
    /// evaluated checkpoint, or of the newest one if `checkpoints` checkpoints were averaged.
    pub fn new(settings: &LengthSettings, step: usize, checkpoints: usize) -> Self {
        Self {
            step,
            checkpoints,
            split: settings.split,
            sequences: settings.sequences,
            method: settings.method,
        }
    }
}

/// An evaluation by length: an element of `lengths.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lengths {
    /// Model and settings.
    #[serde(flatten)]
    pub of: LengthsOf,
    /// Scores, in increasing order of length.
    pub lengths: Vec<LengthScore>,
}

/// Adds scores to a run's `lengths.json`.
///
/// They replace scores of the same lengths and settings, and those of an earlier step with
/// otherwise the same settings. `is_own` says whether the run itself makes the evaluation, after
/// its training; it then comes first in the file, and plots show it.
///
/// # Errors
///
/// If the file cannot be written, or is damaged and the evaluation is not the run's own.
pub fn add_lengths(
    folder: &Path,
    of: LengthsOf,
    scores: Vec<LengthScore>,
    is_own: bool,
) -> Result<()> {
    let mut all = match read_lengths(folder) {
        Err(error) if !is_own => return Err(error.into()),
        all => all.unwrap_or_default(),
    };
    let is_replaced = |old: &Lengths| {
        let step = old.of.step;
        step <= of.step && LengthsOf { step, ..of.clone() } == old.of
    };
    let place = all.iter().position(is_replaced);
    let old = place.map(|place| all.remove(place));
    let mut lengths = match old {
        Some(old) if old.of == of => old.lengths,
        _ => Vec::new(),
    };
    lengths.retain(|old| scores.iter().all(|new| new.length != old.length));
    lengths.extend(scores);
    lengths.sort_by_key(|score| score.length);
    let place = if is_own {
        0
    } else {
        place.unwrap_or(all.len())
    };
    all.insert(place, Lengths { of, lengths });
    let path = folder.join(LENGTHS);
    write_json(&path, &all).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a run's evaluations by length. The first one is the run's own, if it made one. The result
/// is empty if there is no `lengths.json`.
///
/// # Errors
///
/// If the file cannot be read or is damaged. The message names the file.
pub fn read_lengths(folder: &Path) -> Result<Vec<Lengths>, UsageError> {
    read_json_if_any(&folder.join(LENGTHS))
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
    fn each_evaluation_has_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let of = |step, checkpoints| LengthsOf {
            step,
            checkpoints,
            split: Split::Test,
            sequences: 10,
            method: Method::Greedy,
        };
        let add = |of: LengthsOf, length, is_own| {
            add_lengths(folder, of, vec![score(length, Some(1.0 / 3.0))], is_own).unwrap();
            let all = read_lengths(folder).unwrap();
            let found = all.iter().map(|one| {
                let lengths: Vec<_> = one.lengths.iter().map(|score| score.length).collect();
                (one.of.step, one.of.checkpoints, lengths)
            });
            found.collect::<Vec<_>>()
        };
        assert_eq!(add(of(6, 3), 4, false), [(6, 3, vec![4])]);
        assert_eq!(add(of(6, 1), 9, true), [(6, 1, vec![9]), (6, 3, vec![4])]);
        // Scores of other lengths stay if the settings are the same.
        let all = [(6, 1, vec![2, 9]), (6, 3, vec![4])];
        assert_eq!(add(of(6, 1), 2, false), all);
        assert_eq!(add(of(6, 1), 2, false), all);
        // Scores of a later step replace those of an earlier one, but not the reverse.
        assert_eq!(add(of(7, 1), 5, false)[0], (7, 1, vec![5]));
        assert_eq!(add(of(3, 1), 5, false).len(), 3);
        let first = &read_lengths(folder).unwrap()[0];
        assert_eq!(first.lengths, [score(5, Some(1.0 / 3.0))]);
        std::fs::write(folder.join(LENGTHS), "{}").unwrap();
        let error = read_lengths(folder).unwrap_err().to_string();
        assert!(error.contains("lengths.json: is damaged"), "{error}");
        assert!(add_lengths(folder, of(3, 1), Vec::new(), false).is_err());
        assert_eq!(add(of(9, 1), 1, true), [(9, 1, vec![1])]);
    }
}
