//! Reads and writes a run's scores by length: `lengths.json`, and files beside it for other
//! settings.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use transformer::generate::{LengthPenalty, Method};

use super::layout::{LARGEST, LENGTHS, unusable};
use crate::data::Split;
use crate::error::UsageError;
use crate::evaluation::{LengthScore, LengthSettings};
use crate::files::{read_regular, write_json};

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

/// Contents of a file of scores by length.
#[derive(Debug, Serialize)]
struct LengthsFile {
    /// Model and settings; `None` for a file of an earlier version of this library, which has only
    /// the scores.
    #[serde(flatten)]
    of: Option<LengthsOf>,
    /// Scores, in increasing order of length.
    lengths: Vec<LengthScore>,
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

    /// Returns the name of a file beside `lengths.json`. The name lists the settings that differ
    /// from `run`, the settings of `lengths.json`. If `run` is `None`, it lists all settings.
    fn name_beside(&self, run: Option<&Self>) -> String {
        let differs = |is_same: fn(&Self, &Self) -> bool| run.is_none_or(|run| !is_same(self, run));
        let mut name = String::from("lengths");
        if differs(|a, b| a.step == b.step) {
            name += &format!("-step-{}", self.step);
        }
        if differs(|a, b| a.checkpoints == b.checkpoints) {
            name += &format!("-average-{}", self.checkpoints);
        }
        if differs(|a, b| a.split == b.split) {
            name += match self.split {
                Split::Train => "-train",
                Split::Validation => "-validation",
                Split::Test => "-test",
            };
        }
        if differs(|a, b| a.method == b.method) {
            name += &method_name(self.method);
        }
        if differs(|a, b| a.sequences == b.sequences) {
            name += &format!("-sequences-{}", self.sequences);
        }
        name + ".json"
    }

    /// Returns whether new scores with these settings may replace scores with the settings `older`.
    /// All settings must be the same, except that the step of `older` may be an earlier one.
    fn replaces(&self, older: &Self) -> bool {
        let at_this_step = Self {
            step: self.step,
            ..older.clone()
        };
        older.step <= self.step && at_this_step == *self
    }
}

fn method_name(method: Method) -> String {
    match method {
        Method::Greedy => "-greedy".into(),
        Method::Sample { .. } => "-sample".into(),
        Method::Beam {
            width,
            length_penalty,
        } => {
            let penalty = match length_penalty {
                // This is the default length penalty of the command line, so the name does not show
                // it.
                LengthPenalty::Gnmt { alpha: 0.6 } => String::new(),
                LengthPenalty::Gnmt { alpha } => format!("-alpha-{alpha}"),
                LengthPenalty::Power { alpha } => format!("-power-{alpha}"),
                LengthPenalty::Average => "-average-penalty".into(),
                LengthPenalty::None => "-no-penalty".into(),
            };
            format!("-beam-{width}{penalty}")
        }
    }
}

/// Writes the scores by length that a run measures at its end to its `lengths.json`. Scores of
/// other lengths that were measured with the same settings stay in the file.
///
/// # Errors
///
/// If the file cannot be written.
pub fn save_lengths(folder: &Path, of: LengthsOf, scores: Vec<LengthScore>) -> Result<()> {
    let path = folder.join(LENGTHS);
    // A damaged file counts as missing and is replaced.
    write_with_others(&path, of, scores, read_file(&path).unwrap_or_default())
}

/// Adds scores by length that were measured after training, and returns the path of their file.
///
/// The scores go to `lengths.json` if it does not exist or has the same settings. They replace
/// scores of the same lengths, and scores of other lengths stay. With other settings, the scores go
/// to a file beside `lengths.json`, whose name lists the settings that differ, such as
/// `lengths-beam-4.json`.
///
/// `is_last` says whether the model is the run's newest checkpoint. `is_own` says whether the run
/// itself made the evaluation in `lengths.json`, after its training. If `is_last` and not `is_own`,
/// the scores replace those of an earlier step in `lengths.json` with otherwise the same settings.
///
/// # Errors
///
/// If a file is damaged or cannot be written.
pub fn add_lengths(
    folder: &Path,
    of: LengthsOf,
    scores: Vec<LengthScore>,
    is_last: bool,
    is_own: bool,
) -> Result<PathBuf> {
    let mut path = folder.join(LENGTHS);
    let mut file = read_file(&path)?;
    if let Some(found) = &file {
        let run = found.of.as_ref();
        let is_stale = is_last && !is_own && run.is_some_and(|run| of.replaces(run));
        if run != Some(&of) && !is_stale {
            path = folder.join(of.name_beside(run));
            file = read_file(&path)?;
        }
    }
    write_with_others(&path, of, scores, file)?;
    Ok(path)
}

/// Writes `scores`, together with the scores of other lengths in `file` if its settings are the
/// same.
fn write_with_others(
    path: &Path,
    of: LengthsOf,
    scores: Vec<LengthScore>,
    file: Option<LengthsFile>,
) -> Result<()> {
    let same = file.filter(|file| file.of.as_ref() == Some(&of));
    let mut lengths = same.map(|file| file.lengths).unwrap_or_default();
    lengths.retain(|old| scores.iter().all(|new| new.length != old.length));
    lengths.extend(scores);
    lengths.sort_by_key(|score| score.length);
    let file = LengthsFile {
        of: Some(of),
        lengths,
    };
    write_json(path, &file).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads the scores in a run folder's `lengths.json`, in increasing order of length; `None` if
/// there is no such file.
///
/// # Errors
///
/// If the file cannot be read or is damaged. The message names the file.
pub fn read_lengths(folder: &Path) -> Result<Option<Vec<LengthScore>>, UsageError> {
    let file = read_file(&folder.join(LENGTHS))?;
    Ok(file.map(|file| file.lengths))
}

fn read_file(path: &Path) -> Result<Option<LengthsFile>, UsageError> {
    let json = match read_regular(path, LARGEST) {
        Ok(json) => json,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(path, format!("cannot be read ({error})"))),
    };
    let mut file = parse(&json).map_err(|error| {
        let what = format!(
            "is damaged, must be a list of lengths as an evaluation by length writes it ({error})"
        );
        unusable(path, what)
    })?;
    file.lengths.sort_by_key(|score| score.length);
    Ok(Some(file))
}

fn parse(json: &[u8]) -> serde_json::Result<LengthsFile> {
    #[derive(Deserialize)]
    struct Whole {
        #[serde(flatten)]
        of: LengthsOf,
        lengths: Vec<LengthScore>,
    }
    if json.trim_ascii_start().starts_with(b"[") {
        let lengths = serde_json::from_slice(json)?;
        return Ok(LengthsFile { of: None, lengths });
    }
    let Whole { of, lengths } = serde_json::from_slice(json)?;
    Ok(LengthsFile {
        of: Some(of),
        lengths,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    fn of(step: usize) -> LengthsOf {
        LengthsOf {
            step,
            checkpoints: 1,
            split: Split::Test,
            sequences: 10,
            method: Method::Greedy,
        }
    }

    fn beam(alpha: f64) -> LengthsOf {
        let length_penalty = LengthPenalty::Gnmt { alpha };
        LengthsOf {
            method: Method::Beam {
                width: 4,
                length_penalty,
            },
            ..of(6)
        }
    }

    #[test]
    fn a_file_survives_writing_and_reading() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(read_lengths(folder).unwrap(), None);
        let (short, long) = (score(2, Some(1.0 / 3.0)), score(99, None));
        save_lengths(folder, of(6), vec![long, short]).unwrap();
        assert_eq!(read_lengths(folder).unwrap(), Some(vec![short, long]));
        // With the same settings, scores of other lengths stay. With another step, they do not.
        save_lengths(folder, of(6), vec![score(50, None)]).unwrap();
        assert_eq!(read_lengths(folder).unwrap().unwrap().len(), 3);
        save_lengths(folder, beam(0.6), vec![short]).unwrap();
        save_lengths(folder, beam(0.6), vec![long]).unwrap();
        assert_eq!(read_lengths(folder).unwrap(), Some(vec![short, long]));
        save_lengths(folder, of(7), vec![short]).unwrap();
        assert_eq!(read_lengths(folder).unwrap(), Some(vec![short]));
        let error = save_lengths(&folder.join("none"), of(6), vec![short]).unwrap_err();
        assert!(error.to_string().contains("lengths.json"), "{error}");
        // Earlier versions of this library wrote only a list of scores.
        let list = serde_json::to_vec(&[long, short]).unwrap();
        fs::write(folder.join(LENGTHS), list).unwrap();
        assert_eq!(read_lengths(folder).unwrap(), Some(vec![short, long]));
        fs::write(folder.join(LENGTHS), "{}").unwrap();
        let error = read_lengths(folder).unwrap_err().to_string();
        let expected = "lengths.json: is damaged, must be a list of lengths";
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn other_settings_have_a_file_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let add = |of: LengthsOf, length, is_own| {
            let path = add_lengths(folder, of, vec![score(length, None)], true, is_own);
            let path = path.unwrap();
            path.file_name().unwrap().to_string_lossy().into_owned()
        };
        let lengths = || {
            let found = read_lengths(folder).unwrap().unwrap();
            found.iter().map(|score| score.length).collect::<Vec<_>>()
        };
        assert_eq!(add(of(6), 4, false), "lengths.json");
        assert_eq!(add(of(6), 2, true), "lengths.json");
        assert_eq!(lengths(), [2, 4]);
        assert_eq!(add(beam(0.6), 4, true), "lengths-beam-4.json");
        assert_eq!(add(beam(1.0), 4, true), "lengths-beam-4-alpha-1.json");
        let validation = LengthsOf {
            split: Split::Validation,
            sequences: 20,
            ..of(6)
        };
        assert_eq!(
            add(validation, 4, true),
            "lengths-validation-sequences-20.json"
        );
        let mean = LengthsOf {
            checkpoints: 3,
            ..of(6)
        };
        assert_eq!(add(mean, 4, true), "lengths-average-3.json");
        // A later step replaces the scores in `lengths.json` only if they are not the run's own.
        assert_eq!(add(of(9), 5, true), "lengths-step-9.json");
        assert_eq!(lengths(), [2, 4]);
        assert_eq!(add(of(9), 5, false), "lengths.json");
        assert_eq!(lengths(), [5]);
        assert_eq!(add(of(6), 5, false), "lengths-step-6.json");
        fs::write(folder.join(LENGTHS), "[]").unwrap();
        assert_eq!(
            add(of(6), 5, false),
            "lengths-step-6-average-1-test-greedy-sequences-10.json"
        );
    }
}
