//! The data set of a run and its settings: the section `data` of a run's configuration.

use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use super::parallel::config::TextConfig;
use super::synthetic::add::{self, AddConfig};
use super::synthetic::annotated::{self, AnnotatedConfig};
use super::synthetic::sequence::{self, SequenceConfig};
use crate::error::UsageError;
use crate::setting::{Choices, Section, Setting, choice};

/// Declaration of the setting that names the task. The task decides which other settings the
/// section `data` has.
pub const TASK: &Setting =
    &choice(tasks)
        .flag("--task", "TASK")
        .named("data.task", &["Task to learn."], "String");

/// Returns the names and summaries of all tasks.
fn tasks() -> Choices {
    let text = (
        "text".into(),
        "The target is the translation of a text".into(),
    );
    let tasks = SYNTHETIC_TASKS.iter();
    let tasks = tasks.map(|task| (task.name.into(), task.summary.into()));
    tasks.chain([text]).collect()
}

/// Defines [`DataConfig`], with a variant for each synthetic task, and [`SYNTHETIC_TASKS`].
macro_rules! data_config {
    ($($(#[$doc:meta])* $task:ident($settings:ty) = $entry:path;)*) => {
        /// The data set of a run and its settings.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "task", rename_all = "kebab-case")]
        pub enum DataConfig {
            $($(#[$doc])* $task($settings),)*
            /// Parallel corpora; see [`parallel`](super::parallel).
            Text(Box<TextConfig>),
            /// A data set that your own program defines. `config.json` has only its name, so other
            /// programs cannot create the data set.
            Custom {
                /// Name of the task, with which the default names of its run folders begin.
                title: String,
            },
        }

        impl DataConfig {
            /// Returns the task's name, with which the default names of its run folders begin.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$task(_) => $entry.name,)*
                    Self::Text(_) => "text",
                    Self::Custom { title } => title,
                }
            }

            /// Checks all settings that can be checked without reading a file. Returns the data
            /// set if it needs no file.
            ///
            /// # Errors
            ///
            /// If a setting is wrong, or the data set belongs to another program.
            pub fn check(&self) -> Result<Option<Box<dyn Dataset>>, UsageError> {
                match self {
                    $(Self::$task(settings) => ($entry.create)(settings).map(Some),)*
                    Self::Text(config) => config.check().map(|()| None),
                    Self::Custom { title } => {
                        let expected = "is a task of another program, which must read this run itself";
                        Err(UsageError::setting(TASK, title, expected))
                    }
                }
            }
        }

        impl DataConfig {
            /// Returns the settings of the task.
            pub fn settings(&self) -> &'static [&'static Setting] {
                match self {
                    $(Self::$task(_) => <$settings>::SETTINGS,)*
                    Self::Text(_) => TextConfig::SETTINGS,
                    Self::Custom { .. } => &[],
                }
            }
        }

        /// The settings of each task.
        pub(crate) const OF_TASKS: &[&[&Setting]] =
            &[$(<$settings>::SETTINGS,)* TextConfig::SETTINGS];

        /// The synthetic tasks, in the order in which the help of the program lists them.
        pub const SYNTHETIC_TASKS: &[Preset] = &[$(Preset {
            name: $entry.name,
            summary: $entry.summary,
            recipe: $entry.recipe,
            data: || DataConfig::$task(($entry.settings)()),
        },)*];
    };
}

data_config! {
    /// Random sequences; the target is the source.
    Copy(SequenceConfig) = sequence::COPY;
    /// Random sequences; the target is the reversed source.
    Reverse(SequenceConfig) = sequence::REVERSE;
    /// Random sequences; the target has the symbols of the source in increasing order.
    Sort(SequenceConfig) = sequence::SORT;
    /// Sums of two numbers; see [`AddTask`](super::synthetic::AddTask).
    Add(AddConfig) = add::ADD;
    /// The Annotated Transformer's copy task; see
    /// [`AnnotatedCopy`](super::synthetic::AnnotatedCopy).
    AnnotatedCopy(AnnotatedConfig) = annotated::ANNOTATED_COPY;
}

/// Name, description and settings of a preset.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name of a synthetic task, or of a model size for texts.
    pub name: &'static str,
    /// One-line description, such as "The target is the source".
    pub summary: &'static str,
    /// Settings of the data, the model and the training, as `PATH=VALUE`.
    pub recipe: &'static [&'static str],
    /// Returns the task's default settings.
    pub data: fn() -> DataConfig,
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
        assert_eq!(parse(json), DataConfig::AnnotatedCopy(AnnotatedConfig {}));
        // Unknown settings are errors.
        let json = r#"{"task":"add","max_digits":4,"symbols":9}"#;
        let error = serde_json::from_str::<DataConfig>(json).unwrap_err();
        assert!(error.to_string().contains("unknown field `symbols`"));
    }

    #[test]
    fn every_task_has_its_name() {
        for task in SYNTHETIC_TASKS {
            let config = (task.data)();
            assert_eq!(config.name(), task.name);
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
