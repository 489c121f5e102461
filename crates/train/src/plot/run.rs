//! The data of a run that plots need.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::Value;

use super::series::Point;
use training::error::UsageError;
use training::evaluation::LengthScore;
use training::files::read_regular;
use training::run::layout::CONFIG;
use training::run::{parse_metrics, read_config_json, read_lengths, unusable};

/// Fields of `metrics.jsonl` that plots show as curves or as the horizontal axis.
const METRICS: [&str; 11] = [
    "loss",
    "learning_rate",
    "gradient_norm",
    "tokens",
    "tokens_per_second",
    "seconds",
    "valid_loss",
    "token_accuracy",
    "exact_match",
    "bleu",
    "chrf",
];

/// A measure of training progress, for the horizontal axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// Training steps
    #[default]
    Steps,
    /// Seconds of training, without evaluations
    Seconds,
    /// Target tokens trained on, without padding
    Tokens,
}

impl Progress {
    /// Returns the name of the measure on the command line.
    pub fn name(self) -> String {
        let name = self.to_possible_value().expect("no measure is skipped");
        name.get_name().to_owned()
    }
}

/// The data of a run folder that plots need.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name of the folder.
    pub name: String,
    pub folder: PathBuf,
    /// Scores in `lengths.json`; `None` if there is no such file.
    pub lengths: Option<Vec<LengthScore>>,
    /// Points of each field in [`METRICS`] that has a finite value. The x value of a point is the
    /// step.
    metrics: BTreeMap<&'static str, Vec<Point>>,
    /// Contents of `config.json`, which any version of this program may have written.
    config: Value,
}

impl Run {
    /// Reads a run folder.
    ///
    /// # Errors
    ///
    /// The folder is not a run folder, it has no `metrics.jsonl`, or a file is damaged or cannot be
    /// read. The message names the path.
    pub fn read(folder: &Path) -> Result<Self, UsageError> {
        let json = read_config_json(folder)?;
        let config: Option<Value> = serde_json::from_slice(&json).ok();
        let config = config
            .filter(Value::is_object)
            .ok_or_else(|| unusable(&folder.join(CONFIG), "is not the configuration of a run"))?;
        let path = folder.join("metrics.jsonl");
        if !path.exists() {
            let what = "has no metrics.jsonl; take a run that has trained for some steps";
            return Err(unusable(folder, what));
        }
        let damaged = |what| UsageError::new("RUN", path.display(), what);
        let text = read_regular(&path, u64::MAX >> 20);
        let text = text.map_err(|error| damaged(format!("cannot be read ({error})")))?;
        // The path `.` has no file name, so the name comes from the absolute path.
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.into());
        let name = whole.file_name().unwrap_or(whole.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            folder: folder.into(),
            lengths: read_lengths(folder)?,
            metrics: curves(&text).map_err(damaged)?,
            config,
        })
    }

    /// Returns whether the run learns from texts.
    pub fn is_of_texts(&self) -> bool {
        self.config["data"]["task"] == "text"
    }

    /// Returns the points of a field of `metrics.jsonl`; empty if the field has no finite value. A
    /// loss or a gradient norm that was not finite is NaN.
    pub fn metric(&self, name: &str) -> &[Point] {
        self.metrics.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns whether the run has values of this measure of progress.
    pub fn has_progress(&self, progress: Progress) -> bool {
        self.at(progress, f64::INFINITY).is_some()
    }

    /// Returns the progress after a step, or after the last step before it that has a record in
    /// `metrics.jsonl`; `None` if there is no such record.
    pub fn at(&self, progress: Progress, step: f64) -> Option<f64> {
        let curve = match progress {
            Progress::Steps => return Some(step),
            Progress::Seconds => self.metric("seconds"),
            Progress::Tokens => self.metric("tokens"),
        };
        let known = curve.partition_point(|point| point.0 <= step);
        Some(curve[known.checked_sub(1)?].1)
    }

    /// Returns the step of the best evaluation, by the measure that selected the best checkpoint of
    /// the run; `None` if no evaluation has a finite value of this measure.
    pub fn best_step(&self) -> Option<f64> {
        let (field, sign) = match self.config["evaluation"]["best_by"].as_str() {
            Some("exact-match") => ("exact_match", -1.0),
            Some("bleu") => ("bleu", -1.0),
            _ => ("valid_loss", 1.0),
        };
        let evaluations = self.metric(field).iter();
        let finite = evaluations.filter(|point| point.1.is_finite());
        // The first of equal values counts, as in training.
        let best = finite.min_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)));
        best.map(|point| point.0)
    }

    /// Returns whether two runs have different seeds, and otherwise the same settings.
    pub fn differs_in_seed_only(&self, other: &Self) -> bool {
        differ_in_seed_only(&self.config, &other.config)
    }

    /// Returns the positional encoding, such as `rotary`; `None` if the settings do not have it.
    pub fn positions(&self) -> Option<&str> {
        self.config["model"]["positions"].as_str()
    }

    /// Returns the label smoothing of the training loss. Runs of earlier versions of this program
    /// have this setting at the top level of `config.json`.
    pub fn label_smoothing(&self) -> f64 {
        let places = [&self.config["optimization"], &self.config];
        let mut found = places
            .into_iter()
            .filter_map(|place| place["label_smoothing"].as_f64());
        found.next().unwrap_or(0.0)
    }

    /// Returns the smallest possible training loss: the entropy of labels with label smoothing, in
    /// nats. It is 0 without label smoothing, and `None` if the vocabulary's size is unknown.
    pub fn loss_floor(&self) -> Option<f64> {
        let smoothing = self.label_smoothing();
        if smoothing == 0.0 {
            return Some(0.0);
        }
        let tokens = self.config["model"]["target_vocab_size"].as_f64()?;
        let other = smoothing / tokens;
        let label = 1.0 - smoothing + other;
        Some(-label * label.ln() - (tokens - 1.0) * other * other.ln())
    }

    /// Returns the section `data` of the run's settings.
    pub fn data(&self) -> &Value {
        &self.config["data"]
    }
}

/// Returns whether two contents of `config.json` have different seeds, and otherwise the same
/// settings.
pub fn differ_in_seed_only(one: &Value, other: &Value) -> bool {
    let mut same = other.clone();
    same["seed"] = one["seed"].clone();
    one["seed"] != other["seed"] && *one == same
}

/// Returns the curves of `metrics.jsonl`. If a field occurs twice for a step, the later line
/// counts. Unknown fields are skipped.
fn curves(text: &[u8]) -> Result<BTreeMap<&'static str, Vec<Point>>, String> {
    let mut curves: BTreeMap<&str, BTreeMap<u64, f64>> = BTreeMap::new();
    for (number, step, fields) in parse_metrics(text)? {
        for name in METRICS {
            let value = match fields.get(name) {
                // In these fields, null is a value that was not finite, because JSON has no NaN.
                Some(Value::Null) if name.ends_with("loss") || name == "gradient_norm" => f64::NAN,
                // In other fields, null means that the value was not measured.
                None | Some(Value::Null) => continue,
                Some(value) => value.as_f64().ok_or_else(|| {
                    format!("line {number} is damaged: its {name} must be a number or null")
                })?,
            };
            curves.entry(name).or_default().insert(step, value);
        }
    }
    // The token counts become cumulative: each is the number of tokens of all steps so far.
    let mut sum = 0.0;
    for tokens in curves
        .get_mut("tokens")
        .into_iter()
        .flat_map(|curve| curve.values_mut())
    {
        sum += *tokens;
        *tokens = sum;
    }
    curves.retain(|_, curve| curve.values().any(|value| value.is_finite()));
    let points = curves.into_iter().map(|(name, curve)| {
        let points = curve.into_iter().map(|(step, value)| (step as f64, value));
        (name, points.collect())
    });
    Ok(points.collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;

    /// Writes a run folder with these metrics, and reads it.
    pub fn run(folder: &Path, name: &str, positions: &str, metrics: &str) -> Run {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).unwrap();
        let config = format!("{{\"model\":{{\"positions\":\"{positions}\"}},\"new\":[]}}");
        fs::write(folder.join("config.json"), config).unwrap();
        fs::write(folder.join("metrics.jsonl"), metrics).unwrap();
        Run::read(&folder).unwrap()
    }

    #[test]
    fn folders_that_are_not_a_run_say_what_is_missing() {
        let parent = tempfile::tempdir().unwrap();
        let rejected = |path: &Path| Run::read(path).unwrap_err().to_string();
        let folder = parent.path().join("run");
        assert!(rejected(&folder).contains("run: does not exist; name the folder"));
        fs::create_dir(&folder).unwrap();
        assert!(rejected(&folder).contains("run: has no config.json; name the folder"));
        fs::write(folder.join("config.json"), "[").unwrap();
        assert!(rejected(&folder).contains("config.json: is not the configuration"));
        assert!(rejected(&folder.join("config.json")).contains("is not a folder"));
        fs::write(folder.join("config.json"), "{}").unwrap();
        assert!(rejected(&folder).contains("run: has no metrics.jsonl"));
        fs::write(folder.join("metrics.jsonl"), "x\n").unwrap();
        assert!(rejected(&folder).contains("metrics.jsonl: line 1 is damaged"));
        fs::write(folder.join("metrics.jsonl"), "").unwrap();
        fs::write(folder.join("lengths.json"), "{}").unwrap();
        assert!(rejected(&folder).contains("lengths.json: is damaged"));
        fs::write(folder.join("lengths.json"), "[]").unwrap();
        assert_eq!(Run::read(&folder).unwrap().lengths, Some(Vec::new()));
    }

    fn parse(text: &str) -> Run {
        Run {
            name: String::new(),
            folder: PathBuf::new(),
            lengths: None,
            metrics: curves(text.as_bytes()).unwrap(),
            config: Value::Null,
        }
    }

    #[test]
    fn label_smoothing_is_found_where_each_version_has_it() {
        let smoothing = |config: &str| {
            let config = serde_json::from_str(config).unwrap();
            Run {
                config,
                ..parse("")
            }
            .label_smoothing()
        };
        assert_eq!(
            smoothing(r#"{"optimization":{"label_smoothing":0.1}}"#),
            0.1
        );
        assert_eq!(smoothing(r#"{"label_smoothing":0.2}"#), 0.2);
        assert_eq!(smoothing("{}"), 0.0);
        let mut config = training::config::RunConfig::copy();
        config.optimization.label_smoothing = 0.3;
        assert_eq!(smoothing(&serde_json::to_string(&config).unwrap()), 0.3);
    }

    #[test]
    fn training_and_evaluations_are_told_apart_by_their_fields() {
        let run = parse(
            "{\"step\":1,\"loss\":3.5,\"learning_rate\":0.1,\"gradient_norm\":1.5,\"tokens\":7,\"new\":[1]}\n\
             {\"step\":2,\"loss\":3,\"learning_rate\":0.2,\"tokens\":8}\n\
             {\"step\":2,\"valid_loss\":3.1,\"token_accuracy\":0.25}\n\
             \n\
             {\"event\":\"resumed\"}\n\
             {\"step\":3,\"loss\":2.5,\"learning_rate\":0.1}\n\
             {\"step\":3,\"valid_loss\":2.9,\"token_accuracy\":0.5,\"exact_match\":0.125}\n",
        );
        assert_eq!(run.metric("loss"), [(1.0, 3.5), (2.0, 3.0), (3.0, 2.5)]);
        assert_eq!(
            run.metric("learning_rate"),
            [(1.0, 0.1), (2.0, 0.2), (3.0, 0.1)]
        );
        assert_eq!(run.metric("valid_loss"), [(2.0, 3.1), (3.0, 2.9)]);
        assert_eq!(run.metric("token_accuracy"), [(2.0, 0.25), (3.0, 0.5)]);
        assert_eq!(run.metric("exact_match"), [(3.0, 0.125)]);
        assert_eq!(run.at(Progress::Tokens, 1.0), Some(7.0));
        assert_eq!(run.at(Progress::Tokens, 3.0), Some(15.0));
        assert_eq!(run.at(Progress::Tokens, 0.0), None);
        assert!(run.has_progress(Progress::Tokens) && !run.has_progress(Progress::Seconds));
    }

    #[test]
    fn the_best_step_is_the_first_best_of_the_runs_own_measure() {
        let metrics = "{\"step\":1,\"valid_loss\":2,\"exact_match\":0.5,\"bleu\":1}\n\
                       {\"step\":2,\"valid_loss\":1,\"exact_match\":0.75,\"bleu\":3}\n\
                       {\"step\":3,\"valid_loss\":1,\"exact_match\":1.0,\"bleu\":2}\n\
                       {\"step\":4,\"valid_loss\":null,\"exact_match\":1.0,\"bleu\":0}\n";
        for (by, expected) in [("loss", 2.0), ("exact-match", 3.0), ("bleu", 2.0)] {
            let config = serde_json::json!({"evaluation": {"best_by": by}});
            let run = Run {
                config,
                ..parse(metrics)
            };
            assert_eq!(run.best_step(), Some(expected), "{by}");
        }
        assert_eq!(parse("").best_step(), None);
    }

    #[test]
    fn the_floor_of_the_loss_is_the_entropy_of_smoothed_labels() {
        let floor = |smoothing: f64, tokens: usize| {
            let config = serde_json::json!({
                "optimization": {"label_smoothing": smoothing},
                "model": {"target_vocab_size": tokens},
            });
            Run {
                config,
                ..parse("")
            }
            .loss_floor()
            .unwrap()
        };
        assert_eq!(floor(0.0, 9), 0.0);
        // With 2 tokens, the smoothed distribution has 0.95 for the label and 0.05 for the other
        // token.
        assert!((floor(0.1, 2) - 0.198_515).abs() < 1e-6);
    }

    #[test]
    fn an_incomplete_last_line_is_skipped_and_a_damaged_line_is_rejected() {
        let whole = "{\"step\":1,\"loss\":3.5}\n";
        let next = "{\"step\":2,\"loss\":2.5}";
        for length in 0..next.len() {
            let run = parse(&format!("{whole}{}", &next[..length]));
            assert_eq!(run.metric("loss"), [(1.0, 3.5)], "{length}");
        }
        assert_eq!(parse(&format!("{whole}{next}")).metric("loss").len(), 2);
        let damaged = |text: &str| curves(text.as_bytes()).unwrap_err();
        let error = damaged(&format!("{whole}{}\n{whole}", &next[..9]));
        assert!(error.starts_with("line 2 is damaged, must be"), "{error}");
        assert!(damaged("[1]\n").starts_with("line 1 is damaged"));
        assert!(damaged("{\"step\":1,\"loss\":\"x\"}\n").contains("its loss must be a number"));
        assert!(curves(b"\xff\xfe\n").is_err());
    }

    #[test]
    fn losses_that_are_not_finite_are_gaps_and_repeated_steps_count_once() {
        let run =
            parse("{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":null}\n{\"step\":1,\"loss\":4}\n");
        assert_eq!(run.metric("loss").len(), 2);
        assert_eq!(run.metric("loss")[0], (1.0, 4.0));
        assert!(run.metric("loss")[1].1.is_nan());
        let run = parse("{\"step\":1,\"loss\":null,\"exact_match\":null}\n");
        assert!(run.metric("loss").is_empty() && run.metric("exact_match").is_empty());
        assert!(parse("").metrics.is_empty());
    }
}
