//! Reads the numbers in `metrics.jsonl` of a run.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;
use training::error::UsageError;
use training::files::read_regular;
use training::run::layout::METRICS;
use training::run::{parse_metrics, unusable};

use super::curve::Point;

/// The numbers of every step and evaluation, by the name of their field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(BTreeMap<String, Vec<Point>>);

impl Metrics {
    /// Reads `metrics.jsonl` of a run folder; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or a damaged line. The message names the file and the damaged
    /// line.
    pub fn read(folder: &Path) -> Result<Option<Self>, UsageError> {
        let path = folder.join(METRICS);
        match read_regular(&path, u64::MAX >> 20) {
            Ok(text) => Self::parse(&text)
                .map(Some)
                .map_err(|what| unusable(&path, what)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&path, format!("cannot be read ({error})"))),
        }
    }

    /// Parses the lines of the file. If a field occurs twice for a step, the later line counts.
    fn parse(text: &[u8]) -> Result<Self, String> {
        let mut fields: BTreeMap<String, BTreeMap<u64, f64>> = BTreeMap::new();
        for (_, step, line) in parse_metrics(text)? {
            for (name, value) in line {
                let value = match value {
                    // JSON has no NaN, so null stands for a value that is not finite.
                    Value::Null => f64::NAN,
                    value => match value.as_f64() {
                        Some(value) => value,
                        None => continue,
                    },
                };
                fields.entry(name).or_default().insert(step, value);
            }
        }
        fields.retain(|_, curve| curve.values().any(|value| value.is_finite()));
        let fields = fields.into_iter();
        let fields = fields.map(|(name, curve)| (name, curve.into_iter().collect()));
        Ok(Self(fields.collect()))
    }

    /// Returns the values of a field by step. A value that was not finite is NaN. Returns an empty
    /// slice if the field has no finite value.
    pub fn field(&self, name: &str) -> &[Point] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn parse(text: &str) -> Metrics {
        Metrics::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn lines_of_steps_and_evaluations_become_curves() {
        let metrics = parse(
            "{\"step\":1,\"loss\":3.5,\"tokens\":7,\"skipped\":true,\"new\":[1]}\n\
             {\"step\":2,\"loss\":null,\"tokens\":8}\n\
             {\"step\":2,\"valid_loss\":3.1,\"exact_match\":null}\n\
             \n\
             {\"event\":\"resumed\"}\n\
             {\"step\":2,\"loss\":3,\"tok",
        );
        assert_eq!(metrics.field("tokens"), [(1, 7.0), (2, 8.0)]);
        assert_eq!(metrics.field("valid_loss"), [(2, 3.1)]);
        assert_eq!(metrics.field("loss")[0], (1, 3.5));
        assert!(metrics.field("loss")[1].1.is_nan());
        for absent in ["exact_match", "skipped", "new"] {
            assert!(metrics.field(absent).is_empty(), "{absent}");
        }
        let repeated = parse("{\"step\":1,\"loss\":3}\n{\"step\":1,\"loss\":4}\n");
        assert_eq!(repeated.field("loss"), [(1, 4.0)]);
    }

    #[test]
    fn damaged_lines_are_named_and_missing_files_are_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Metrics::read(folder.path()).unwrap(), None);
        fs::write(folder.path().join(METRICS), "{}\nx\n{}\n").unwrap();
        let error = Metrics::read(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("metrics.jsonl: line 2 is damaged"),
            "{error}"
        );
    }
}
