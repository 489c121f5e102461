//! Reads and writes `lengths.json`: scores by length, for each combination of model and settings
//! with which they were measured.

use std::fmt;
use std::fs::File;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use transformer::generate::Method;

use super::layout::{LENGTHS, cannot_write_file, read_json_if_any};
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

impl fmt::Display for LengthsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (step, split) = (self.step, format!("{:?}", self.split).to_lowercase());
        match self.checkpoints {
            1 => write!(f, "step {step}")?,
            n => write!(f, "the mean of {n} checkpoints up to step {step}")?,
        }
        match self.method {
            Method::Beam { width, .. } => write!(f, ", {split} split, beam {width}"),
            _ => write!(f, ", {split} split"),
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

/// Adds scores to a run's `lengths.json`, as its first element. They replace scores of the same
/// lengths and settings. `is_own` says whether the run itself makes the evaluation, after its
/// training.
///
/// On Unix, the run folder is locked meanwhile, so that no evaluation of another process is lost.
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
    // The file of the run's own lock is locked as long as the run trains. A folder that cannot be
    // locked stays unlocked.
    let locked = File::open(folder).and_then(|folder| folder.lock().map(|()| folder));
    let mut all = match read_lengths(folder) {
        Err(error) if !is_own => return Err(error.into()),
        all => all.unwrap_or_default(),
    };
    let place = all.iter().position(|old| old.of == of);
    let mut lengths = place.map_or(Vec::new(), |place| all.remove(place).lengths);
    lengths.retain(|old| scores.iter().all(|new| new.length != old.length));
    lengths.extend(scores);
    lengths.sort_by_key(|score| score.length);
    all.insert(0, Lengths { of, lengths });
    let written = write_json(&folder.join(LENGTHS), &all);
    drop(locked);
    written.map_err(|error| cannot_write_file("run", folder, LENGTHS, error))
}

/// Reads a run's evaluations by length, the newest one first. The result is empty if there is no
/// `lengths.json`.
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

    fn of(step: usize, checkpoints: usize) -> LengthsOf {
        LengthsOf {
            step,
            checkpoints,
            split: Split::Test,
            sequences: 10,
            method: Method::Greedy,
        }
    }

    #[test]
    fn each_evaluation_has_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
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
        assert_eq!(add(of(6, 3), 5, false)[0], (6, 3, vec![4, 5]));
        // Scores of other lengths stay if the settings are the same.
        let all = [(6, 1, vec![2, 9]), (6, 3, vec![4, 5])];
        assert_eq!(add(of(6, 1), 2, false), all);
        assert_eq!(add(of(6, 1), 2, false), all);
        // Nothing of another step is removed.
        assert_eq!(add(of(7, 1), 5, false)[0], (7, 1, vec![5]));
        assert_eq!(add(of(3, 1), 5, false).len(), 4);
        let first = &read_lengths(folder).unwrap()[0];
        assert_eq!(first.lengths, [score(5, Some(1.0 / 3.0))]);
        assert_eq!(first.of.to_string(), "step 3, test split");
        std::fs::write(folder.join(LENGTHS), "{}").unwrap();
        let error = read_lengths(folder).unwrap_err().to_string();
        assert!(error.contains("lengths.json: is damaged"), "{error}");
        assert!(add_lengths(folder, of(3, 1), Vec::new(), false).is_err());
        assert_eq!(add(of(9, 1), 1, true), [(9, 1, vec![1])]);
    }

    #[cfg(unix)]
    #[test]
    fn no_evaluation_is_lost_if_several_end_at_once() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|threads| {
            for step in 0..8 {
                let of = of(step, 1);
                let folder = folder.path();
                threads.spawn(move || add_lengths(folder, of, vec![score(4, None)], false));
            }
        });
        assert_eq!(read_lengths(folder.path()).unwrap().len(), 8);
    }
}
