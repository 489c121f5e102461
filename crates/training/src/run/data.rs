//! Reads a run folder into one value, which everything that shows runs takes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Map, Value};

use super::checkpoint::{self, Checkpoints};
use super::curves::{Curves, MetricsLine, read_evaluations, read_metrics};
use super::layout::{CONFIG, SUMMARY, read_json_if_any, unusable};
use super::state::{Best, Earlier};
use super::{Environment, Lengths, RunStatus, latest};
use super::{read_config_json, read_environments, read_lengths, read_status};
use crate::config::BestBy;
use crate::config::differences::{
    NearestPreset, Settings, differing, flat, nearest_preset, settings,
};
use crate::config::file::OF_HUGGING_FACE;
use crate::data::parallel::{TrainSettings, ValidSettings};
use crate::error::UsageError;
use crate::setting::shown;

/// Contents of a run folder, which is read without its data set and model.
#[derive(Clone, Debug)]
pub struct RunData {
    /// Name of the folder.
    pub name: String,
    /// Path of the folder.
    pub folder: PathBuf,
    /// Contents of `config.json`.
    pub config: Value,
    /// The settings by their paths, without those that are derived or have no effect. Corpora, and a
    /// model that the run began with, are known by their hashes, not by their paths. Values that a
    /// setting had before the run was resumed with another one are those of `earlier.PATH`.
    pub settings: Settings,
    /// Status, and number of steps taken.
    pub status: RunStatus,
    /// Step of the last checkpoint; 0 if there is none.
    pub saved: usize,
    /// Best evaluation, which chooses the run's model; `None` if there was no evaluation with a
    /// value of the metric that decides.
    pub best: Option<Best>,
    /// Curves of the metrics. If only a [summary](Self::summary) was read, they have the
    /// evaluations and the last step.
    pub curves: Curves,
    /// Scores by length: the newest ones of the run's model, or else the newest ones. An evaluation
    /// that has a score of a length comes before one that has none.
    pub lengths: Option<Lengths>,
    /// Environments of the processes that have trained the run.
    pub environments: Vec<Environment>,
    /// Time when training last changed the folder; `None` if no file's time can be read.
    pub changed: Option<SystemTime>,
    /// Contents of `summary.json`; empty until the run has finished.
    pub results: Map<String, Value>,
}

/// Returns the metrics by which runs are compared, in the order in which they are shown.
pub fn compared_metrics() -> impl Iterator<Item = &'static str> {
    "steps model_step seconds parameters tokens_per_second train_loss valid_loss \
        valid_token_accuracy valid_exact_match valid_bleu valid_chrf test_token_accuracy \
        test_exact_match test_bleu test_chrf"
        .split_whitespace()
}

/// Names of the hashes of the training corpus and of the validation pairs, which are the elements
/// of `data.data` in `config.json`: those of the settings that name the files.
pub const DATA_HASHES: [&str; 2] = [TrainSettings::source.path, ValidSettings::source.path];

/// Name of the hash of the model that a run began with, among its settings.
pub const ORIGIN_HASH: &str = "from.sha256";

impl RunData {
    /// Reads a run folder.
    ///
    /// # Errors
    ///
    /// If the folder is not a run's, or if a file is damaged. The message names the file or folder.
    pub fn read(folder: &Path) -> Result<Self, UsageError> {
        let run = Self::read_with(folder, read_metrics)?;
        let mut all = read_lengths(folder)?;
        let step = run.metric("model_step");
        let is_own = |it: &Lengths| it.of.checkpoints == 1 && Some(it.of.step as f64) == step;
        let is_scored = |it: &Lengths| it.lengths.iter().any(|it| it.exact_match.is_some());
        let own = all.iter().position(|it| is_own(it) && is_scored(it));
        let shown = own.or(all.iter().position(is_scored)).unwrap_or(0);
        Ok(Self {
            lengths: (shown < all.len()).then(|| all.swap_remove(shown)),
            environments: read_environments(folder)?,
            ..run
        })
    }

    /// Reads a run folder without its scores by length and environments, and only the evaluations
    /// and the last step of its metrics, which is much faster.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn summary(folder: &Path) -> Result<Self, UsageError> {
        Self::read_with(folder, read_evaluations)
    }

    fn read_with(
        folder: &Path,
        read: impl FnOnce(&Path) -> Result<Vec<MetricsLine>, UsageError>,
    ) -> Result<Self, UsageError> {
        let wrong = |what: String| unusable(&folder.join(CONFIG), what);
        let config = read_config_json(folder)?;
        if config.get("model_type").is_some() {
            return Err(wrong(OF_HUGGING_FACE.into()));
        }
        if !config["data"]["task"].is_string() {
            return Err(wrong("has no data.task, which every run has".into()));
        }
        let lines = read(folder)?;
        let mut status = read_status(folder)?;
        // While a run is running, `status.json` has the step of its last checkpoint, and
        // `metrics.jsonl` may have later steps.
        let last = lines.last().map_or(0, |line| line.step);
        let saved = status.step;
        status.step = saved.max(last);
        let by = if config["evaluation"]["target"].is_null() {
            serde_json::from_value(config["evaluation"]["best_by"].clone())
        } else {
            Ok(BestBy::ExactMatch)
        };
        // A path such as `.` has no file name, so the name is taken from the canonical path.
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.into());
        let name = whole.file_name().unwrap_or(whole.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            folder: folder.into(),
            settings: compared_settings(folder, &config, &status),
            status,
            saved,
            best: best(by.unwrap_or(BestBy::Loss), &lines),
            curves: Curves::new(&lines),
            lengths: None,
            environments: Vec::new(),
            changed: latest::changed(folder),
            results: read_json_if_any(&folder.join(SUMMARY))?,
            config,
        })
    }

    /// Returns the title of a custom task, or the name of any other task.
    pub fn task(&self) -> &str {
        let data = &self.config["data"];
        let title = data["title"].as_str();
        title.or(data["task"].as_str()).unwrap_or_default()
    }

    /// Returns the file or folder of the model that the run began with; `None` if it is not known,
    /// and for random parameters.
    pub fn origin(&self) -> Option<&str> {
        let folder = self.config["data"]["pretrained"]["folder"].as_str();
        let imported = || self.status.began_with.as_ref()?.imported.as_ref()?.to_str();
        folder.or_else(imported)
    }

    /// Returns whether the run learns from texts.
    pub fn is_of_texts(&self) -> bool {
        self.config["data"]["task"] == "text"
    }

    /// Returns the seed of the run; `None` if `config.json` has no valid seed.
    pub fn seed(&self) -> Option<u64> {
        self.config["seed"].as_u64()
    }

    /// Returns the preset that the run is most similar to, and the settings that differ from it;
    /// `None` for a task without presets, and for damaged settings of a pretrained model.
    pub fn nearest_preset(&self) -> Option<NearestPreset> {
        nearest_preset(&self.config)
    }

    /// Says which model and settings the scores by length are of; `None` without scores.
    pub fn lengths_of(&self) -> Option<String> {
        let (of, step) = (&self.lengths.as_ref()?.of, self.metric("model_step"));
        let is_own = of.checkpoints == 1 && Some(of.step as f64) == step;
        let other = step.filter(|_| !is_own);
        let other = other.map_or(String::new(), |step| {
            format!("; the run's model is step {step}")
        });
        Some(format!("{of}{other}"))
    }

    /// Returns a metric of [`compared_metrics`]; `None` if the run does not have it.
    ///
    /// Scores are those of the run's model. They come from `summary.json`, which says on which split
    /// the model was scored, or from the best evaluation. Parameters and tokens per second are those
    /// of the whole training, in the same file alone; other metrics come from the last step where it
    /// lacks them.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let result = |name: &str| self.results.get(name)?.as_f64();
        let scored = |split, field| result(field).filter(|_| self.results["split"] == split);
        let evaluated = |field| {
            let step = self.best?.step as f64;
            let mut points = self.curves.get(field).iter().rev();
            points.find(|point| point.0 == step).map(|point| point.1)
        };
        match name {
            "steps" => Some(self.status.step as f64),
            "seconds" => result("train_seconds").or(self.curves.last(name)),
            "parameters" | "tokens_per_second" => result(name),
            "model_step" => {
                let step = Best::model_step(self.best, self.saved);
                result(name).or((self.saved > 0).then_some(step as f64))
            }
            "train_loss" => self.curves.last("loss"),
            "valid_loss" => result(name).or(evaluated(name)),
            _ => match name.split_once('_')? {
                ("valid", field) => scored("validation", field).or(evaluated(field)),
                ("test", field) => scored("test", field),
                _ => None,
            },
        }
    }
}

fn compared_settings(folder: &Path, config: &Value, status: &RunStatus) -> Settings {
    let mut found = settings(config);
    // The checkpoint of step 0 would have LoRA's random matrices, too.
    let of_pretrained = config["data"]["pretrained"]["sha256"].as_str();
    let of_import = status.began_with.as_ref().map(|model| &*model.sha256);
    if let Some(sha256) = of_pretrained.or(of_import) {
        found.remove("data.pretrained.folder");
        found.insert(ORIGIN_HASH.into(), sha256.into());
    }
    for earlier in checkpoint::earlier(&Checkpoints::of(folder)) {
        let Earlier { path, value, until } = earlier;
        let path = format!("earlier.{path}");
        let before = found.get(&path).map(|before| shown(before) + ", ");
        let value = format!("{} to step {until}", shown(&value));
        found.insert(path, (before.unwrap_or_default() + &value).into());
    }
    // What follows from files that were read: tokenisers, or the search of a pretrained model.
    let tokenizer = &config["data"]["tokenizer"];
    let is_read = !tokenizer["source_file"].is_null() || !tokenizer["target_file"].is_null();
    let read = ["data.pretrained.search.", "data.tokenizer_sha256"][usize::from(is_read)];
    let all = flat(config).into_iter();
    found.extend(all.filter(|(path, value)| path.starts_with(read) && !value.is_null()));
    if let Value::Array(hashes) = &config["data"]["data"] {
        let paths = ["data.train.", "data.valid.", "data.cache"];
        found.retain(|path, _| !paths.iter().any(|begin| path.starts_with(begin)));
        let names = DATA_HASHES.map(String::from);
        found.extend(names.into_iter().zip(hashes.iter().cloned()));
    }
    found
}

/// Returns the best evaluation; `None` if there was no evaluation with a value of the metric.
fn best(by: BestBy, lines: &[MetricsLine]) -> Option<Best> {
    let evaluations = lines.iter().filter_map(|line| {
        let [value, loss] = [by.field(), "valid_loss"].map(|field| line.number(field));
        Some(Best {
            by,
            step: line.step,
            value: value?,
            loss: loss?,
        })
    });
    evaluations.fold(None, |best, evaluated| {
        Some(evaluated).filter(|it| it.improves(best)).or(best)
    })
}

/// Groups runs of the same data that differ in their seed only, in the order of the first run of each group. A group
/// is a list of indices. Its runs have begun with the same model and have the same status. Derived settings and
/// settings without effect do not count.
///
/// Runs with the same seed are never in one group, because the mean of a group must be a mean over
/// seeds.
pub fn seed_groups(runs: &[RunData]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let is_alike = |group: &&mut Vec<usize>| {
            let has_seed = group.iter().any(|&other| runs[other].seed() == run.seed());
            let paths = differing(&[&runs[group[0]].settings, &run.settings]);
            let has_status = runs[group[0]].status.status == run.status.status;
            !has_seed && paths == ["seed"] && has_status
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

/// Returns labels that tell runs apart: their names, or the paths of their folders if two runs have
/// the same name.
pub fn labels(runs: &[RunData]) -> Vec<String> {
    let names: HashSet<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let label = |run: &RunData| {
        if names.len() == runs.len() {
            run.name.clone()
        } else {
            run.folder.display().to_string()
        }
    };
    runs.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RunConfig;
    use crate::run::{RunFolder, Status};

    fn create(parent: &Path, name: &str, config: &RunConfig) -> PathBuf {
        let path = parent.join(name);
        drop(RunFolder::create(Some(&path), config).unwrap());
        path
    }

    #[test]
    fn a_run_is_read_from_its_files() {
        let parent = tempfile::tempdir().unwrap();
        let mut config = RunConfig::copy();
        config.evaluation.best_by = BestBy::ExactMatch;
        let path = create(parent.path(), "run", &config);
        let run = RunData::read(&path).unwrap();
        let found = (run.name.as_str(), run.task(), run.seed());
        assert_eq!(found, ("run", "copy", Some(0)));
        let status = (run.status.step, run.status.steps, run.status.status);
        assert_eq!(status, (0, 1000, Status::Failed));
        assert_eq!((run.best, run.metric("train_loss")), (None, None));
        let lines = [
            r#"{"step":5,"seconds":1.5,"valid_loss":2.0,"exact_match":0.25}"#,
            r#"{"step":10,"seconds":3.0,"valid_loss":1.0,"exact_match":0.5}"#,
            r#"{"step":15,"loss":null,"seconds":4.5}"#,
            r#"{"step":15,"seconds":4.5,"valid_loss":0.5,"exact_match":0.25}"#,
            r#"{"step":16,"loss":3.0,"seconds":5.0}"#,
            "{\"step\":17,",
        ];
        std::fs::write(path.join("metrics.jsonl"), lines.join("\n")).unwrap();
        for run in [RunData::read(&path), RunData::summary(&path)] {
            let run = run.unwrap();
            let best = run.best.unwrap();
            let found = (best.field(), best.value, best.step);
            assert_eq!(found, ("exact_match", 0.5, 10));
            assert_eq!((run.status.step, run.metric("seconds")), (16, Some(5.0)));
            assert_eq!(run.metric("valid_loss"), Some(1.0));
            assert_eq!(run.metric("model_step"), None, "it has no checkpoint");
            assert_eq!(run.metric("test_exact_match"), None);
        }
        let summary = r#"{"split":"test","exact_match":0.75}"#;
        std::fs::write(path.join(SUMMARY), summary).unwrap();
        let run = RunData::read(&path).unwrap();
        assert_eq!(run.metric("test_exact_match"), Some(0.75));
        assert_eq!(run.metric("valid_exact_match"), Some(0.5));
    }

    #[test]
    fn runs_that_differ_in_their_seed_are_a_group() {
        let parent = tempfile::tempdir().unwrap();
        // With a learning rate, the factor has no effect.
        let runs = [
            (1, 8, 0.5),
            (2, 16, 0.5),
            (2, 8, 0.9),
            (2, 8, 0.5),
            (3, 8, 0.5),
        ];
        let runs: Vec<RunData> = (0..)
            .zip(runs)
            .map(|(index, (seed, width, factor))| {
                let mut config = RunConfig::copy();
                config.seed = seed;
                config.model.d_model = width;
                config.optimization.schedule.learning_rate = Some(0.1);
                config.optimization.schedule.factor = factor;
                let path = create(parent.path(), &format!("{index}"), &config);
                RunData::read(&path).unwrap()
            })
            .collect();
        assert_eq!(seed_groups(&runs), [vec![0, 2, 4], vec![1], vec![3]]);
        assert_eq!(labels(&runs[..2]), ["0", "1"]);
        let twice = [runs[0].clone(), runs[0].clone()];
        assert_eq!(labels(&twice)[0], runs[0].folder.display().to_string());
    }

    #[test]
    fn damaged_files_are_named() {
        let parent = tempfile::tempdir().unwrap();
        let path = create(parent.path(), "run", &RunConfig::copy());
        let error = || RunData::read(&path).unwrap_err().to_string();
        for (name, json, what) in [
            ("summary.json", "[]", "summary.json: is damaged"),
            ("status.json", "{}", "status.json: is damaged"),
            ("metrics.jsonl", "x\n", "metrics.jsonl: line 1"),
            (CONFIG, "{", "is not JSON"),
            (
                CONFIG,
                r#"{"seed":1,"seed":2}"#,
                r#"the key "seed" is there twice"#,
            ),
            (CONFIG, "\u{feff}{}", "has no data.task"),
            (CONFIG, "3", "data.task"),
        ] {
            std::fs::write(path.join(name), json).unwrap();
            assert!(error().contains(what), "{}", error());
        }
    }
}
