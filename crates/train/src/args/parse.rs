//! Parsers of flags' values.

use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use transformer::Choice;

/// Parses a whole number.
pub fn whole_number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| "must be a whole number, written in digits".into())
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

/// Choices of a flag, each as `NAME: DESCRIPTION` with the description in `--help`.
pub type Choices = &'static [&'static str];

/// Returns the name and the description of each choice.
pub fn described(choices: Choices) -> impl Iterator<Item = (&'static str, &'static str)> {
    let split = |choice: &&'static str| choice.split_once(": ").expect("it has a description");
    choices.iter().map(split)
}

/// Returns the parser of a flag with these choices, each a name and its help. `read` turns a name
/// into the flag's value.
pub fn parser<T: Clone + Send + Sync + 'static>(
    choices: impl Iterator<Item = (&'static str, &'static str)>,
    read: impl Fn(String) -> T + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T> {
    let values = choices.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).map(read)
}

/// Returns the parser of a flag with these choices, which have the same names in `config.json`.
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

/// Returns the name of a choice that clap derives from an enum.
pub fn name_of(choice: impl ValueEnum) -> String {
    let value = choice.to_possible_value().expect("no choice is hidden");
    value.get_name().into()
}
