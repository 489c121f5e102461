//! Flags of `fit` that say what is learned.

use clap::{Args, ValueEnum};

use super::{set, whole_number};
use crate::config::RunConfig;
use crate::defaults::TextSize;
use crate::error::UsageError;
use crate::task::{SequenceConfig, TaskConfig};

/// What there is to learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TaskName {
    /// The target is the source
    Copy,
    /// The target is the source from its end to its begin
    Reverse,
    /// The target has the symbols of the source in increasing order
    Sort,
    /// The target is the sum of two decimal numbers, digit by digit
    Add,
    /// The target is the translation of a text, as in --train-source and --train-target
    Text,
}

impl TaskName {
    /// The settings that solve it.
    pub fn config(self) -> RunConfig {
        match self {
            Self::Copy => RunConfig::copy(),
            Self::Reverse => RunConfig::reverse(),
            Self::Sort => RunConfig::sort(),
            Self::Add => RunConfig::add(),
            Self::Text => RunConfig::text(TextSize::Small),
        }
    }
}

/// The task and its settings.
#[derive(Clone, Debug, Default, Args)]
pub struct TaskArgs {
    /// What to learn [default: copy]
    #[arg(long)]
    pub task: Option<TaskName>,
    /// Shortest sequence; not of add and text [default: 1]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub min_length: Option<usize>,
    /// Longest sequence; not of add; of text, in tokens [default: 16; sort: 12; text: 256]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub max_length: Option<usize>,
    /// Number of different symbols; not of add and text [default: 32; sort: 16]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub symbols: Option<usize>,
    /// The most digits of a number; of add alone [default: 4]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub max_digits: Option<usize>,
}

impl TaskArgs {
    /// Changes a task's settings.
    ///
    /// # Errors
    ///
    /// A flag of another task.
    pub fn apply(&self, task: &mut TaskConfig) -> Result<(), UsageError> {
        let of_sequences = [
            ("--symbols", self.symbols),
            ("--min-length", self.min_length),
            ("--max-length", self.max_length),
        ];
        let of_numbers = [("--max-digits", self.max_digits)];
        let fixed = "is fixed in --preset annotated (10 symbols, length 10)";
        match task {
            TaskConfig::Copy(config) | TaskConfig::Reverse(config) | TaskConfig::Sort(config) => {
                let SequenceConfig {
                    symbols,
                    min_length,
                    max_length,
                } = config;
                set(symbols, self.symbols);
                set(min_length, self.min_length);
                set(max_length, self.max_length);
                refuse(
                    &of_numbers,
                    "is a flag of --task add alone; use --max-length",
                )
            }
            TaskConfig::Add { max_digits } => {
                set(max_digits, self.max_digits);
                let expected = "is no flag of --task add; use --max-digits";
                refuse(&of_sequences, expected)
            }
            TaskConfig::Text(config) => {
                set(&mut config.max_length, self.max_length);
                let [symbols, min_length, _] = of_sequences;
                refuse(&[symbols, min_length], "is no flag of --task text")?;
                refuse(&of_numbers, "is a flag of --task add alone")
            }
            TaskConfig::AnnotatedCopy | TaskConfig::Custom { .. } => {
                refuse(&of_sequences, fixed)?;
                refuse(&of_numbers, fixed)
            }
        }
    }
}

fn refuse(flags: &[(&str, Option<usize>)], expected: &str) -> Result<(), UsageError> {
    match flags
        .iter()
        .find_map(|(flag, value)| Some((flag, (*value)?)))
    {
        Some((flag, value)) => Err(UsageError::new(*flag, value, expected)),
        None => Ok(()),
    }
}
