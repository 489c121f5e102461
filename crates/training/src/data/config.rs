//! The data set of a run and its settings: the section `data` of a run's configuration.

use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use super::parallel::config::TextConfig;
use super::synthetic::add::{AddConfig, AddTask};
use super::synthetic::annotated::AnnotatedCopy;
use super::synthetic::sequence::{Rule, SequenceConfig, SequenceTask};
use crate::error::UsageError;

/// The data set of a run and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "kebab-case")]
pub enum DataConfig {
    /// Random sequences, with targets by [`Rule::Copy`].
    Copy(SequenceConfig),
    /// Random sequences, with targets by [`Rule::Reverse`].
    Reverse(SequenceConfig),
    /// Random sequences, with targets by [`Rule::Sort`].
    Sort(SequenceConfig),
    /// Sums of two numbers, see [`AddTask`].
    Add(AddConfig),
    /// The Annotated Transformer's copy task, see [`AnnotatedCopy`].
    AnnotatedCopy,
    /// Parallel corpora; see [`parallel`](super::parallel).
    Text(Box<TextConfig>),
    /// A data set of another program. Only that program can create it.
    Custom {
        /// Name of the task, with which the names of its run folders begin.
        title: String,
    },
}

impl DataConfig {
    /// Returns the task's name, which run folders begin with.
    pub fn name(&self) -> &str {
        match self {
            Self::Copy(_) => "copy",
            Self::Reverse(_) => "reverse",
            Self::Sort(_) => "sort",
            Self::Add(_) => "add",
            Self::AnnotatedCopy => "annotated-copy",
            Self::Text(_) => "text",
            Self::Custom { title } => title,
        }
    }

    /// Checks all settings that can be checked without reading a file. Returns the data set if it
    /// needs no file.
    ///
    /// # Errors
    ///
    /// The first wrong setting, or a data set that this library does not know.
    pub fn check(&self) -> Result<Option<Box<dyn Dataset>>, UsageError> {
        let sequence = |rule, config| SequenceTask::new(rule, config).map(Box::new);
        Ok(Some(match self {
            Self::Copy(config) => sequence(Rule::Copy, config)?,
            Self::Reverse(config) => sequence(Rule::Reverse, config)?,
            Self::Sort(config) => sequence(Rule::Sort, config)?,
            Self::Add(config) => Box::new(AddTask::new(config)?),
            Self::AnnotatedCopy => Box::new(AnnotatedCopy::default()),
            Self::Text(config) => return config.check().map(|()| None),
            Self::Custom { title } => {
                let expected = "is a task of another program, which must read this run itself";
                return Err(UsageError::setting("data.task", title, expected));
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> DataConfig {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn settings_are_in_the_same_object_as_the_name() {
        let json = r#"{"task":"copy","symbols":9,"min_length":1,"max_length":5}"#;
        let config = SequenceConfig {
            symbols: 9,
            min_length: 1,
            max_length: 5,
        };
        assert_eq!(parse(json), DataConfig::Copy(config));
        assert_eq!(serde_json::to_string(&parse(json)).unwrap(), json);
        let json = r#"{"task":"annotated-copy"}"#;
        assert_eq!(parse(json), DataConfig::AnnotatedCopy);
        // Unknown settings are errors.
        let json = r#"{"task":"add","max_digits":4,"symbols":9}"#;
        let error = serde_json::from_str::<DataConfig>(json).unwrap_err();
        assert!(error.to_string().contains("unknown field `symbols`"));
    }

    #[test]
    fn every_task_has_its_name() {
        let sequence = SequenceConfig::default;
        for config in [
            DataConfig::Copy(sequence()),
            DataConfig::Reverse(sequence()),
            DataConfig::Sort(sequence()),
            DataConfig::Add(AddConfig::default()),
            DataConfig::AnnotatedCopy,
        ] {
            let json = serde_json::to_string(&config).unwrap();
            assert!(json.starts_with(&format!(r#"{{"task":"{}""#, config.name())));
            assert_eq!(parse(&json), config);
            assert!(config.check().unwrap().is_some());
        }
        let custom = parse(r#"{"task":"custom","title":"mine"}"#);
        assert_eq!(custom.name(), "mine");
        let error = custom.check().err().unwrap().to_string();
        assert!(error.starts_with("data.task mine: is a task of another program"));
    }
}
