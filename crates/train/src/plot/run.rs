//! What pictures need to know of a run.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::metrics::Metrics;
use crate::error::UsageError;
use crate::lengths::{self, LengthScore};
use crate::run_folder::{CONFIG, read_config_json, wrong};

/// A run folder, as far as pictures need it.
#[derive(Clone, Debug)]
pub struct Run {
    /// The name of its folder.
    pub name: String,
    /// Where it is.
    pub folder: PathBuf,
    /// What `metrics.jsonl` has.
    pub metrics: Metrics,
    /// What `lengths.json` has, if it is there.
    pub lengths: Option<Vec<LengthScore>>,
    /// `config.json`, of any version of this program.
    config: Value,
}

impl Run {
    /// Reads a run folder.
    ///
    /// # Errors
    ///
    /// A folder that is no run's, or whose files are damaged; the message names the path.
    pub fn read(folder: &Path) -> Result<Self, UsageError> {
        let json = read_config_json(folder)?;
        let config: Value = serde_json::from_slice(&json)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| wrong(&folder.join(CONFIG), "is not the configuration of a run"))?;
        let path = folder.join("metrics.jsonl");
        if !path.exists() {
            let what = "has no metrics.jsonl; take a run that has trained for some steps";
            return Err(wrong(folder, what));
        }
        let metrics = Metrics::read(&path)?;
        Ok(Self {
            name: name(folder),
            folder: folder.into(),
            metrics,
            lengths: lengths::read(folder)?,
            config,
        })
    }

    /// `sinusoidal`, `learned`, `rotary` or `none`.
    pub fn positions(&self) -> Option<&str> {
        self.config["model"]["positions"].as_str()
    }

    /// `ε` of the training loss.
    pub fn label_smoothing(&self) -> f64 {
        self.config["label_smoothing"].as_f64().unwrap_or(0.0)
    }
}

/// The last part of a folder's path, also where it is written as `.`.
fn name(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.into());
    let last = whole.file_name().unwrap_or(whole.as_os_str());
    last.to_string_lossy().into_owned()
}

/// What tells runs apart in one picture: their positions if these differ, else their names.
pub fn labels(runs: &[Run]) -> Vec<String> {
    let kind = |run: &Run| run.positions().map(|kind| format!("{kind} positions"));
    let kinds: Vec<Option<String>> = runs.iter().map(kind).collect();
    let all_different = |labels: &[String]| {
        let different: std::collections::HashSet<&String> = labels.iter().collect();
        different.len() == labels.len()
    };
    let by_kind: Option<Vec<String>> = kinds.into_iter().collect();
    if let Some(kinds) = by_kind.filter(|kinds| all_different(kinds)) {
        return kinds;
    }
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    if all_different(&names) {
        return names;
    }
    runs.iter()
        .map(|run| run.folder.display().to_string())
        .collect()
}

/// A title for pictures of one run or several.
pub fn title(what: &str, runs: &[Run]) -> String {
    match runs {
        [run] => format!("{what}, run {}", run.name),
        _ => format!("{what} of {} runs", runs.len()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use super::*;

    /// A run with these files.
    pub fn run(folder: &Path, name: &str, positions: &str, metrics: &str) -> Run {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).unwrap();
        let config = format!("{{\"model\":{{\"positions\":\"{positions}\"}},\"new\":[]}}");
        fs::write(folder.join("config.json"), config).unwrap();
        fs::write(folder.join("metrics.jsonl"), metrics).unwrap();
        Run::read(&folder).unwrap()
    }

    #[test]
    fn runs_are_labelled_by_what_tells_them_apart() {
        let parent = tempfile::tempdir().unwrap();
        let run = |name: &str, positions: &str| run(parent.path(), name, positions, "");
        let runs = [run("a/x", "rotary"), run("b/x", "learned")];
        assert_eq!(labels(&runs), ["rotary positions", "learned positions"]);
        let runs = [run("a/x", "rotary"), run("a/y", "rotary")];
        assert_eq!(labels(&runs), ["x", "y"]);
        let runs = [run("a/x", "rotary"), run("b/x", "rotary")];
        let paths = [parent.path().join("a/x"), parent.path().join("b/x")];
        assert_eq!(labels(&runs), paths.map(|path| path.display().to_string()));
        assert_eq!(title("Loss", &runs[..1]), "Loss, run x");
        assert_eq!(title("Loss", &runs), "Loss of 2 runs");
    }

    #[test]
    fn folders_that_are_no_run_say_what_is_missing() {
        let parent = tempfile::tempdir().unwrap();
        let refused = |path: &Path| Run::read(path).unwrap_err().to_string();
        let folder = parent.path().join("run");
        assert!(refused(&folder).contains("run: does not exist; name the folder"));
        fs::create_dir(&folder).unwrap();
        assert!(refused(&folder).contains("run: has no config.json; name the folder"));
        fs::write(folder.join("config.json"), "[").unwrap();
        assert!(refused(&folder).contains("config.json: is not the configuration"));
        assert!(refused(&folder.join("config.json")).contains("is not a folder"));
        fs::write(folder.join("config.json"), "{}").unwrap();
        assert!(refused(&folder).contains("run: has no metrics.jsonl"));
        fs::write(folder.join("metrics.jsonl"), "x\n").unwrap();
        assert!(refused(&folder).contains("metrics.jsonl: line 1 is damaged"));
        fs::write(folder.join("metrics.jsonl"), "").unwrap();
        fs::write(folder.join("lengths.json"), "{}").unwrap();
        assert!(refused(&folder).contains("lengths.json: is damaged"));
        fs::write(folder.join("lengths.json"), "[]").unwrap();
        assert_eq!(Run::read(&folder).unwrap().lengths, Some(Vec::new()));
    }
}
