//! The data set of a run and its settings: the section `data` of a run's configuration.

use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use super::parallel::config::TextConfig;
use super::synthetic::add::{AddConfig, AddTask};
use super::synthetic::annotated::{AnnotatedConfig, AnnotatedCopy};
use super::synthetic::sequence::{Rule, SequenceConfig, SequenceTask};
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
    let synthetic = SYNTHETIC_TASKS.iter().map(|task| (task.name, task.summary));
    let all = synthetic.chain([("text", "The target is the translation of a text")]);
    all.map(|(name, help)| (name.into(), help.into())).collect()
}

/// The data set of a run and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "kebab-case")]
pub enum DataConfig {
    /// Random sequences; the target is the source.
    Copy(SequenceConfig),
    /// Random sequences; the target is the reversed source.
    Reverse(SequenceConfig),
    /// Random sequences; the target has the symbols of the source in increasing order.
    Sort(SequenceConfig),
    /// Sums of two numbers; see [`AddTask`].
    Add(AddConfig),
    /// The Annotated Transformer's copy task; see [`AnnotatedCopy`].
    AnnotatedCopy(AnnotatedConfig),
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
            Self::Copy(_) => "copy",
            Self::Reverse(_) => "reverse",
            Self::Sort(_) => "sort",
            Self::Add(_) => "add",
            Self::AnnotatedCopy(_) => "annotated-copy",
            Self::Text(_) => "text",
            Self::Custom { title } => title,
        }
    }

    /// Returns the settings of the task.
    pub fn settings(&self) -> &'static [&'static Setting] {
        match self {
            Self::Copy(_) | Self::Reverse(_) | Self::Sort(_) => SequenceConfig::SETTINGS,
            Self::Add(_) => AddConfig::SETTINGS,
            Self::AnnotatedCopy(_) => AnnotatedConfig::SETTINGS,
            Self::Text(_) => TextConfig::SETTINGS,
            Self::Custom { .. } => &[],
        }
    }

    /// Checks all settings that can be checked without reading a file. Returns the data set if it
    /// needs no file.
    ///
    /// # Errors
    ///
    /// If a setting is wrong, or the data set belongs to another program.
    pub fn check(&self) -> Result<Option<Box<dyn Dataset>>, UsageError> {
        Ok(Some(match self {
            Self::Copy(config) => Box::new(SequenceTask::new(Rule::Copy, config)?),
            Self::Reverse(config) => Box::new(SequenceTask::new(Rule::Reverse, config)?),
            Self::Sort(config) => Box::new(SequenceTask::new(Rule::Sort, config)?),
            Self::Add(config) => Box::new(AddTask::new(config)?),
            Self::AnnotatedCopy(_) => Box::new(AnnotatedCopy::default()),
            Self::Text(config) => return config.check().map(|()| None),
            Self::Custom { title } => {
                let expected = "is a task of another program, which must read this run itself";
                return Err(UsageError::setting(TASK, title, expected));
            }
        }))
    }
}

/// Name, description and settings of a preset.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name of a synthetic task, or of a model size for texts.
    pub name: &'static str,
    /// One-line description, such as "The target is the source".
    pub summary: &'static str,
    /// Settings of the data, the model and the training, as `PATH=VALUE` with blanks between them.
    pub recipe: &'static str,
    /// Returns the task's default settings.
    pub data: fn() -> DataConfig,
}

/// The synthetic tasks, in the order in which the help of the program lists them, with settings
/// that solve them on two CPU cores. Those that are not listed have their defaults, which solve the
/// copy task.
pub const SYNTHETIC_TASKS: &[Preset] = &[
    Preset {
        name: "copy",
        summary: "The target is the source",
        recipe: "",
        data: || DataConfig::Copy(SequenceConfig::DEFAULT),
    },
    Preset {
        name: "reverse",
        summary: "The target is the source backwards",
        // A model learns sooner to tell learned positions apart than sinusoidal ones. Rotary
        // positions alone cannot distinguish `7` from `7 7`, because attention over any number of
        // equal values returns that value.
        recipe: "model.n_heads=4 model.positions=learned",
        data: || DataConfig::Reverse(SequenceConfig::DEFAULT),
    },
    Preset {
        name: "sort",
        summary: "The target has the symbols of the source in increasing order",
        // The model learns last to repeat symbols that occur several times, and needs many
        // steps for this.
        recipe: "data.symbols=16 data.max_length=12 model.n_heads=4 model.n_encoder_layers=2 \
            model.n_decoder_layers=2 model.positions=learned optimization.steps=3000",
        data: || DataConfig::Sort(SequenceConfig::DEFAULT),
    },
    Preset {
        name: "add",
        summary: "The target is the sum of two decimal numbers, digit by digit",
        // The model learns carries over several digits last, and needs many steps for them.
        recipe: "model.n_heads=4 model.n_encoder_layers=2 model.n_decoder_layers=2 \
            model.positions=learned optimization.steps=3000 optimization.schedule.factor=0.4 \
            optimization.schedule.warmup=200",
        data: || DataConfig::Add(AddConfig::DEFAULT),
    },
    Preset {
        name: "annotated-copy",
        summary: "The copy task of the Annotated Transformer, edition of 2018",
        // Training has 10 epochs of 20 batches with 30 sequences each. After each epoch, 5 batches
        // are evaluated.
        recipe: "model.d_model=512 model.n_heads=8 model.n_encoder_layers=2 \
            model.n_decoder_layers=2 model.d_ff=2048 model.dropout=0.1 optimization.steps=200 \
            optimization.batch_size=30 optimization.schedule.kind=noam \
            optimization.schedule.warmup=400 evaluation.every=20 evaluation.validation_size=150",
        data: || DataConfig::AnnotatedCopy(AnnotatedConfig::DEFAULT),
    },
];

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
