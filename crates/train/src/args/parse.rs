//! Parsers for the values of flags.

use std::path::{Path, PathBuf, absolute};
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::{
    OsStringValueParser, PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser,
};
use serde::de::DeserializeOwned;
use training::config::Preset;
use training::data::parallel::TrainSettings;
use training::run::find_run;
use training::run::layout::{CHECKPOINTS, CONFIG};
use training::setting;
use transformer::Choice;

/// Parses a whole number.
pub fn whole_number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| "must be a whole number of at least 0, such as 100".into())
}

/// Returns a parser of whole numbers from `least` to `most`.
pub fn whole_within(
    least: usize,
    most: usize,
) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok();
        let number = number.filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("must be a whole number from {least} to {most}"))
    }
}

/// Description of a positive number, such as a factor.
pub const POSITIVE: &str = "a number above 0, such as 1.5 or 2e-3";

/// Returns a parser of numbers. Its error says that the text must be `expected`. The parser does
/// not check the range of the number.
pub fn number(
    expected: &'static str,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| text.parse().map_err(|_| format!("must be {expected}"))
}

/// Parses the names of two fields, `SOURCE,TARGET`.
pub fn fields(text: &str) -> Result<[String; 2], String> {
    let fields = TrainSettings::fields.read_text(text)?;
    Ok(serde_json::from_value(fields).expect("they are two names"))
}

/// Returns a parser of the names of a setting's choices.
pub fn choice_names(choices: fn() -> setting::Choices) -> PossibleValuesParser {
    let choices = choices().into_iter();
    let values = choices.map(|(name, help)| PossibleValue::new(setting::on_line(&name)).help(help));
    PossibleValuesParser::new(values)
}

/// Returns the parser of a flag with the choices of a setting.
pub fn chosen<T>(choices: fn() -> setting::Choices) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    choice_names(choices).map(|name| {
        serde_json::from_value(name.replace('-', "_").into()).expect("clap checks the name")
    })
}

/// Returns the parser of a flag whose choices are defined by the `transformer` crate.
pub fn named<C: Choice + Send + Sync>() -> impl TypedValueParser<Value = C> {
    named_if(|_: &C| true)
}

/// Returns the parser of a flag with those of such choices that `is_possible` accepts.
pub fn named_if<C: Choice + Send + Sync>(
    is_possible: impl Fn(&C) -> bool,
) -> impl TypedValueParser<Value = C> {
    let all = C::ALL.iter().filter(|choice| is_possible(choice));
    let values = all.map(|choice| PossibleValue::new(choice.name()).help(choice.summary()));
    PossibleValuesParser::new(values).map(|name| name.parse().expect("clap checks the name"))
}

/// Returns the parser of a flag whose choices are `all`, each with its name.
pub fn one_of<T, const N: usize>(all: [(&'static str, T); N]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.map(|(name, _)| name)).map(move |name| {
        let found = all.into_iter().find(|(known, _)| *known == name);
        found.expect("clap checks the name").1
    })
}

/// Returns the name that clap derives for a variant of an enum.
pub fn name_of(choice: impl ValueEnum) -> String {
    let value = choice.to_possible_value().expect("no choice is hidden");
    value.get_name().into()
}

/// Returns the parser of a preset's name.
pub fn preset() -> impl TypedValueParser<Value = String> {
    let presets = Preset::all();
    let values = presets.map(|preset| PossibleValue::new(preset.name).help(preset.summary));
    PossibleValuesParser::new(values)
}

/// Returns a parser of two texts with `=` between them, which must be `expected`.
pub fn assignment(
    expected: &'static str,
) -> impl Fn(&str) -> Result<(String, String), String> + Clone + Send + Sync + 'static {
    move |text| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.trim().into(), value.trim().into()))
        }
        _ => Err(format!("must be {expected}")),
    }
}

/// Description of a setting and its value.
pub const SETTING: &str = "PATH=VALUE, such as optimization.optimizer.beta_2=0.99";

/// Returns a parser of paths that `config.json` records, which must be valid UTF-8 and not empty.
pub fn recorded_path() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(|path| match path.into_string() {
        Ok(path) if path.is_empty() => Err("must not be empty"),
        Ok(path) => Ok(path),
        Err(_) => Err("must be valid UTF-8, because config.json records it"),
    })
}

/// Returns the parser of an argument for the folder of a run. The name `latest` becomes the path of
/// the most recently changed run in the folder `runs`, unless a file or folder has this name. The
/// parser rejects an empty path, the folder of a checkpoint, and `latest` if there is no run. It
/// does not check other paths.
pub fn run_folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let run = find_run(&path).map_err(|error| error.expected)?;
        let wrong = |of: PathBuf| format!("is a checkpoint; name its run, {}", of.display());
        run_of_checkpoint(&run).map(wrong).map_or(Ok(run), Err)
    })
}

/// Returns the folder of the run if `path` is the folder of one of its checkpoints. It is relative
/// if `path` contains it.
fn run_of_checkpoint(path: &Path) -> Option<PathBuf> {
    let whole = absolute(path).ok()?;
    let run = whole.parent()?.parent()?;
    let is_checkpoint = whole.parent()?.ends_with(CHECKPOINTS) && run.join(CONFIG).exists();
    let near = path.parent().and_then(Path::parent);
    let near = near.filter(|near| !near.as_os_str().is_empty());
    is_checkpoint.then(|| near.unwrap_or(run).into())
}
