//! Which task, and its settings, as a run folder keeps them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{AddTask, AnnotatedCopy, Rule, SequenceTask, Task};
use crate::error::UsageError;
use crate::text::{TextConfig, TextTask};

/// Which task, and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum TaskConfig {
    /// [`Rule::Copy`].
    Copy(SequenceConfig),
    /// [`Rule::Reverse`].
    Reverse(SequenceConfig),
    /// [`Rule::Sort`].
    Sort(SequenceConfig),
    /// [`AddTask`].
    Add {
        /// The most digits of a number.
        max_digits: usize,
    },
    /// [`AnnotatedCopy`].
    AnnotatedCopy,
    /// [`TextTask`].
    Text(Box<TextConfig>),
    /// A task of a program around this library, which alone can make it.
    Custom {
        /// The name that its run folders begin with.
        title: String,
    },
}

/// Settings of a [`SequenceTask`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SequenceConfig {
    /// Number of different symbols.
    pub symbols: usize,
    /// Length of the shortest sequence.
    pub min_length: usize,
    /// Length of the longest sequence.
    pub max_length: usize,
}

impl Default for SequenceConfig {
    /// 32 symbols, lengths 1 to 16.
    fn default() -> Self {
        Self {
            symbols: 32,
            min_length: 1,
            max_length: 16,
        }
    }
}

impl TaskConfig {
    /// The name that run folders begin with.
    pub fn name(&self) -> &str {
        match self {
            Self::Copy(_) => "copy",
            Self::Reverse(_) => "reverse",
            Self::Sort(_) => "sort",
            Self::Add { .. } => "add",
            Self::AnnotatedCopy => "annotated-copy",
            Self::Text(_) => "text",
            Self::Custom { title } => title,
        }
    }

    /// Makes the task. That of text has its tokenisers in the folder of its run, and nothing to
    /// learn from before [`TextTask::reload`].
    ///
    /// # Errors
    ///
    /// Settings that make no task, or a task that this library does not know.
    pub fn build(&self, run: Option<&Path>) -> Result<Box<dyn Task>, UsageError> {
        let sequence = |rule, config: &SequenceConfig| {
            let task =
                SequenceTask::new(rule, config.symbols, config.min_length, config.max_length);
            Ok::<_, UsageError>(Box::new(task?))
        };
        Ok(match self {
            Self::Copy(config) => sequence(Rule::Copy, config)?,
            Self::Reverse(config) => sequence(Rule::Reverse, config)?,
            Self::Sort(config) => sequence(Rule::Sort, config)?,
            Self::Add { max_digits } => Box::new(AddTask::new(*max_digits)?),
            Self::AnnotatedCopy => Box::new(AnnotatedCopy::default()),
            Self::Text(config) => match run {
                Some(run) => Box::new(TextTask::open(run, config)?),
                None => {
                    let expected = "has tokenisers, which are in the folder of its run";
                    return Err(UsageError::new("task", "text", expected));
                }
            },
            Self::Custom { title } => {
                let expected = "is a task of another program, which must read this run itself";
                return Err(UsageError::new("task", title, expected));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> TaskConfig {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn runs_of_before_are_read() {
        let json = r#"{"name":"copy","symbols":9,"min_length":1,"max_length":5}"#;
        let config = SequenceConfig {
            symbols: 9,
            min_length: 1,
            max_length: 5,
        };
        assert_eq!(parse(json), TaskConfig::Copy(config));
        assert_eq!(serde_json::to_string(&parse(json)).unwrap(), json);
        let json = r#"{"name":"annotated-copy"}"#;
        assert_eq!(parse(json), TaskConfig::AnnotatedCopy);
    }

    #[test]
    fn every_task_has_its_name() {
        let sequence = SequenceConfig::default;
        for config in [
            TaskConfig::Copy(sequence()),
            TaskConfig::Reverse(sequence()),
            TaskConfig::Sort(sequence()),
            TaskConfig::Add { max_digits: 4 },
            TaskConfig::AnnotatedCopy,
        ] {
            let json = serde_json::to_string(&config).unwrap();
            assert!(json.starts_with(&format!(r#"{{"name":"{}""#, config.name())));
            assert_eq!(parse(&json), config);
            assert!(config.build(None).is_ok());
        }
        let custom = parse(r#"{"name":"custom","title":"mine"}"#);
        assert_eq!(custom.name(), "mine");
        let error = custom.build(None).err().unwrap().to_string();
        assert!(error.starts_with("task mine: is a task of another program"));
    }
}
