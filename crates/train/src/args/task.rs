//! Flags of the task.

use clap::Args;
use training::config::RunConfig;
use training::data::{DataConfig, Sides};
use training::error::UsageError;

use super::check::{reject, set};
use super::parse::{listed, whole_number};
use super::values::TASK;

/// The task and its settings.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct TaskArgs {
    /// Task to learn [default: copy]
    #[arg(long, value_parser = listed::<String>(TASK))]
    pub task: Option<String>,
    /// Length of the shortest sequence (not for add or text) [default: 1]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub min_length: Option<usize>,
    /// Length of the longest sequence; for text, in tokens (not for add) [default: 16; sort: 12;
    /// text: 256]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub max_length: Option<usize>,
    /// Number of different symbols (not for add or text) [default: 32; sort: 16]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub symbols: Option<usize>,
    /// Maximum digits of a number (add only) [default: 4]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub max_digits: Option<usize>,
}

impl TaskArgs {
    /// Returns the default settings of the task.
    pub fn defaults(&self) -> RunConfig {
        RunConfig::of_task(self.task.as_deref().unwrap_or("copy")).expect("the flag has tasks only")
    }

    /// Returns the flags that give a number, each with its value.
    pub fn numbers(&self) -> [(&'static str, Option<usize>); 4] {
        [
            ("--symbols", self.symbols),
            ("--min-length", self.min_length),
            ("--max-length", self.max_length),
            ("--max-digits", self.max_digits),
        ]
    }

    /// Overrides settings by the given flags.
    ///
    /// # Errors
    ///
    /// A flag of another task.
    pub fn apply(&self, data: &mut DataConfig) -> Result<(), UsageError> {
        let [symbols, min_length, max_length, max_digits] = self.numbers();
        let fixed = "is fixed in --preset annotated (10 symbols, length 10)";
        match data {
            DataConfig::Copy(config) | DataConfig::Reverse(config) | DataConfig::Sort(config) => {
                set(&mut config.symbols, self.symbols);
                set(&mut config.min_length, self.min_length);
                set(&mut config.max_length, self.max_length);
                let expected = "is a flag of --task add only; use --max-length";
                reject_all(&[max_digits], expected)
            }
            DataConfig::Add(config) => {
                set(&mut config.max_digits, self.max_digits);
                let expected = "is not a flag of --task add; use --max-digits";
                reject_all(&[symbols, min_length, max_length], expected)
            }
            DataConfig::Text(config) => {
                set(&mut config.max_length, self.max_length.map(Sides::both));
                reject_all(&[symbols, min_length], "is not a flag of --task text")?;
                reject_all(&[max_digits], "is a flag of --task add only")
            }
            DataConfig::AnnotatedCopy | DataConfig::Custom { .. } => {
                reject_all(&self.numbers(), fixed)
            }
        }
    }
}

fn reject_all(flags: &[(&str, Option<usize>)], expected: &str) -> Result<(), UsageError> {
    let mut flags = flags.iter();
    flags.try_for_each(|(flag, value)| reject(flag, *value, expected))
}
