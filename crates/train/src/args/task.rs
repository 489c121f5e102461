//! Flags that choose the task and its settings.

use clap::Args;
use training::config::RunConfig;
use training::data::DataConfig;
use training::error::UsageError;

use super::flags::flag_of;
use super::parse::{task, whole_number};

/// The task and its settings.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct TaskArgs {
    /// Task to learn [default: that of --preset or --config (fit only), else text if a corpus or a
    /// Hugging Face model is given, else copy]
    #[arg(long, value_name = "TASK", value_parser = task())]
    pub task: Option<String>,
    /// Length of the shortest sequence (not for add, annotated-copy or text)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub min_length: Option<usize>,
    /// Length of the longest sequence; for text, in tokens (not for add or annotated-copy)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub max_length: Option<usize>,
    /// Number of different symbols (not for add, annotated-copy or text)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub symbols: Option<usize>,
    /// Maximum digits of a number (add only)
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub max_digits: Option<usize>,
}

impl TaskArgs {
    /// Returns the default settings of the task.
    pub fn defaults(&self) -> RunConfig {
        RunConfig::of_task(self.task.as_deref().unwrap_or("copy")).expect("the flag has tasks only")
    }

    /// Returns the name and the value of each setting whose flag is given.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let settings = [
            ("symbols", self.symbols),
            ("min_length", self.min_length),
            ("max_length", self.max_length),
            ("max_digits", self.max_digits),
        ];
        let given = settings.into_iter();
        given.filter_map(|(setting, value)| Some((setting, value?)))
    }

    /// Overrides settings by the given flags.
    ///
    /// # Errors
    ///
    /// A flag that the task does not have.
    pub fn apply(&self, data: &mut DataConfig) -> Result<(), UsageError> {
        let task = data.name().to_owned();
        for (setting, value) in self.given() {
            let mut settings = serde_json::to_value(&*data).expect("its paths were text");
            let path = format!("data.{setting}");
            let Some(old) = settings.get_mut(setting) else {
                let known = match &flags_of(&settings)[..] {
                    [] => "no settings".into(),
                    flags => flags.join(", "),
                };
                let expected = format!("is not a flag of --task {task}, which has {known}");
                return Err(UsageError::setting(path, value, expected));
            };
            *old = value.into();
            *data = serde_json::from_value(settings).expect("a number replaces a number");
        }
        Ok(())
    }
}

/// Returns the flags of [`TaskArgs`] that set one of the `settings` of a task.
fn flags_of(settings: &serde_json::Value) -> Vec<String> {
    let all = ["symbols", "min_length", "max_length", "max_digits"];
    let known = all.into_iter().filter(|key| settings.get(key).is_some());
    let flags = known.filter_map(|key| flag_of(&format!("data.{key}")).map(String::from));
    flags.collect()
}
