//! Parsers for the values of flags.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use serde::de::DeserializeOwned;
use training::config::Preset;
use training::data::SYNTHETIC_TASKS;
use training::error::UsageError;
use transformer::Choice;

/// Parses a whole number.
pub fn whole_number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| "must be a whole number, written in digits, such as 100".into())
}

/// Description of a positive number, such as a factor.
pub const POSITIVE: &str = "a number above 0, such as 1.5 or 2e-3";

/// Description of a number that is not negative, such as a weight decay.
pub const NOT_NEGATIVE: &str = "0 or a number above 0, such as 0.01";

/// Description of a probability that is less than 1.
pub const FRACTION: &str = "a number of at least 0 and less than 1, such as 0.1";

/// Description of the decay of a moving average.
pub const DECAY: &str = "a number above 0 and less than 1, such as 0.999";

/// Returns a parser of numbers. Its error says that the text must be `expected`. The parser does
/// not check the range of the number, but rejects one that `N` rounds to 0 or to infinity.
pub fn number<N: FromStr + Into<f64> + Copy>(
    expected: &'static str,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static {
    move |text| {
        let wrong = || format!("must be {expected}");
        let number: N = text.parse().map_err(|_| wrong())?;
        let rounded: f64 = number.into();
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let is_zero = !mantissa.contains(|digit: char| ('1'..='9').contains(&digit));
        if rounded.is_infinite() || (rounded == 0.0 && !is_zero) {
            return Err(format!("{}, in the range of float32", wrong()));
        }
        Ok(number)
    }
}

/// Parses the seed of a random generator.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("must be a whole number from 0 to {}", u64::MAX))
}

/// Parses the names of two fields, `SOURCE,TARGET`.
pub fn fields(text: &str) -> Result<[String; 2], String> {
    match text.split_once(',') {
        Some((source, target))
            if !source.is_empty() && !target.is_empty() && !target.contains(',') =>
        {
            Ok([source.into(), target.into()])
        }
        _ => Err("must be two names with a comma between them: SOURCE,TARGET".into()),
    }
}

/// Choices of a flag, each as `NAME: DESCRIPTION`. `--help` shows the description.
pub type Choices = &'static [&'static str];

/// Returns the name and the description of each choice.
pub fn described(choices: Choices) -> impl Iterator<Item = (&'static str, &'static str)> {
    let split = |choice: &&'static str| choice.split_once(": ").expect("it has a description");
    choices.iter().map(split)
}

/// Returns the parser of a flag with these choices, each a pair of a name and a help text. `read`
/// turns a name into the flag's value.
pub fn parser<T: Clone + Send + Sync + 'static>(
    choices: impl Iterator<Item = (&'static str, &'static str)>,
    read: impl Fn(String) -> T + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T> {
    let values = choices.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).map(read)
}

/// Returns the parser of a flag with these choices. The names of the choices are also the names of
/// `T`'s variants in `config.json`.
pub fn listed<T>(choices: Choices) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    parser(described(choices), |name| {
        serde_json::from_value(name.into()).expect("clap checks the name")
    })
}

/// Returns the parser of a flag whose choices are defined by the `transformer` crate.
pub fn named<C: Choice + Send + Sync>() -> impl TypedValueParser<Value = C> {
    let all = C::ALL.iter();
    parser(
        all.map(|choice| (choice.name(), choice.summary())),
        |name| {
            name.parse()
                .unwrap_or_else(|error| unreachable!("clap checks the name, but {error}"))
        },
    )
}

/// Returns the name that clap derives for a variant of an enum.
pub fn name_of(choice: impl ValueEnum) -> String {
    let value = choice.to_possible_value().expect("no choice is hidden");
    value.get_name().into()
}

/// Returns the parser of a task's name.
pub fn task() -> impl TypedValueParser<Value = String> {
    let text = (
        "text",
        "The target is the translation of a text; see --train-source",
    );
    let tasks = SYNTHETIC_TASKS.iter().map(|task| (task.name, task.summary));
    parser(tasks.chain([text]), |name| name)
}

/// Returns the parser of a preset's name.
pub fn preset() -> impl TypedValueParser<Value = String> {
    let value = |preset: Preset| {
        let value = PossibleValue::new(preset.name).help(preset.summary);
        match preset.name {
            // Earlier versions of this program called the preset `annotated`.
            "annotated-copy" => value.alias("annotated"),
            _ => value,
        }
    };
    let presets = Preset::all().into_iter().map(value);
    PossibleValuesParser::new(presets).map(|name| match name.as_str() {
        "annotated" => "annotated-copy".into(),
        _ => name,
    })
}

/// Parses the path of a setting and its value, `PATH=VALUE`.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.is_empty() && !value.is_empty() => {
            Ok((path.trim().into(), value.trim().into()))
        }
        _ => Err("must be PATH=VALUE, such as optimization.optimizer.beta_2=0.99".into()),
    }
}

/// Returns the names of the flags in the clap struct `group` that are given, such as `--lossy`.
///
/// # Errors
///
/// If the value of a flag is a path that is not valid UTF-8.
pub fn given(group: &impl Serialize) -> Result<Vec<String>, UsageError> {
    let flags = serde_json::to_value(group)
        .map_err(|error| UsageError::new("file", "", error.to_string()))?;
    let given = flags.as_object().into_iter().flatten();
    let given = given.filter(|(_, value)| !value.is_null() && **value != false);
    Ok(given.map(|(name, _)| format!("--{name}")).collect())
}

/// Returns a parser of paths that `config.json` records, which must be valid UTF-8.
pub fn recorded_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.to_str() {
        Some(_) => Ok(path),
        None => Err("must be valid UTF-8, because config.json records it"),
    })
}

/// Makes a path absolute, so that a run can be resumed from any folder.
///
/// # Errors
///
/// A path that has no absolute form.
pub fn absolute(path: &Path) -> Result<PathBuf, UsageError> {
    let wrong = |error| format!("has no absolute path ({error})");
    std::path::absolute(path).map_err(|error| UsageError::new("file", path.display(), wrong(error)))
}
