//! A configuration from a file: JSON or TOML, whole or in part.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::config::RunConfig;
use crate::error::{UsageError, quote};

/// Reads a file such as a run's `config.json`. What it does not say is the default of its task.
///
/// # Errors
///
/// A file that cannot be read, an unknown key, or a value that cannot be.
pub fn read(path: &Path) -> Result<RunConfig, UsageError> {
    let wrong = |what: String| UsageError::new("--config", path.display(), what);
    let text =
        fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read ({error})")))?;
    let is_toml = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let text = text.trim_start_matches('\u{feff}');
    let file: Value = if is_toml {
        toml::from_str(text).map_err(|error| wrong(format!("is not TOML ({})", error.message())))?
    } else {
        serde_json::from_str(text).map_err(|error| wrong(format!("is not JSON ({error})")))?
    };
    let config = over_defaults(file.clone()).map_err(wrong)?;
    check_derived(&file, &config).map_err(wrong)?;
    Ok(config)
}

/// Refuses sizes that follow from the task and are not what follows.
fn check_derived(file: &Value, config: &RunConfig) -> Result<(), String> {
    let mut resolved = config.clone();
    if resolved.resolve().is_err() {
        // For another reason, which will be told.
        return Ok(());
    }
    let resolved = serde_json::to_value(resolved.model).expect("it is plain data");
    for key in [
        "source_vocab_size",
        "target_vocab_size",
        "max_len",
        "pad_id",
    ] {
        let said = file.get("model").and_then(|model| model.get(key));
        if let Some(said) = said.filter(|&said| *said != resolved[key]) {
            let right = &resolved[key];
            return Err(format!(
                "model.{key} is {said}, but follows from the task: {right}; leave it out"
            ));
        }
    }
    Ok(())
}

/// A file's values, and for what it does not say its task's defaults.
pub(crate) fn over_defaults(file: Value) -> Result<RunConfig, String> {
    let Value::Object(file) = file else {
        return Err("must be an object with the keys of a run's config.json".into());
    };
    let name = match file.get("task").and_then(|task| task.get("name")) {
        None => "copy",
        Some(Value::String(name)) => name,
        Some(other) => return Err(format!("task.name is {other}, but must be a word")),
    };
    if name == "custom" {
        return Err("task: is a task of another program, which must read this run itself".into());
    }
    let defaults =
        RunConfig::of_task(name).ok_or_else(|| format!("task.name {} is no task", quote(name)))?;
    let mut defaults = defaults;
    if file.contains_key("steps") && !file.contains_key("epochs") {
        // Who says one number of steps does not mean that of so many epochs.
        defaults.epochs = None;
    }
    let mut config = serde_json::to_value(defaults).expect("it is plain data");
    let keys = config.as_object_mut().expect("it is a structure");
    merge(keys, file, "")?;
    serde_path_to_error::deserialize(config).map_err(|error| {
        let what = error.inner();
        format!("cannot be used: {}: {what}", error.path())
    })
}

/// Puts the values of a file in the place of the defaults.
fn merge(
    defaults: &mut Map<String, Value>,
    file: Map<String, Value>,
    path: &str,
) -> Result<(), String> {
    for (key, value) in file {
        let whole = format!("{path}{key}");
        let Some(default) = defaults.get_mut(&key) else {
            let known = defaults
                .keys()
                .map(|known| (strsim::damerau_levenshtein(known, &key), known));
            let hint = match known.min() {
                Some((distance, nearest)) if distance <= nearest.len().max(key.len()) / 2 => {
                    format!("; the nearest known key is {path}{nearest}")
                }
                Some(_) => {
                    let known: Vec<&str> = defaults.keys().map(String::as_str).collect();
                    format!("; the known keys are {}", known.join(", "))
                }
                None => String::new(),
            };
            return Err(format!("has an unknown key {}{hint}", quote(&whole)));
        };
        match (default, value) {
            (Value::Object(defaults), Value::Object(value)) => {
                merge(defaults, value, &format!("{whole}."))?;
            }
            (default, value) => {
                let is_kind = match (&*default, &value) {
                    // An option that is not set, or is taken away.
                    (Value::Null, _) | (_, Value::Null) => true,
                    (Value::Number(_), Value::Number(_))
                    | (Value::String(_), Value::String(_))
                    | (Value::Bool(_), Value::Bool(_)) => true,
                    _ => false,
                };
                if !is_kind {
                    return Err(format!(
                        "{whole} is {value}, but must be {}",
                        match default {
                            Value::Number(_) => "a number",
                            Value::String(_) => "a word",
                            Value::Bool(_) => "true or false",
                            _ => "a table of keys",
                        }
                    ));
                }
                *default = value;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{SequenceConfig, TaskConfig};

    fn read_text(name: &str, text: &str) -> Result<RunConfig, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_configuration_comes_back() {
        for mut config in [RunConfig::copy(), RunConfig::annotated()] {
            config.seed = 7;
            config.ema = Some(0.99);
            config.checkpoint_seconds = None;
            config.resolve().unwrap();
            let json = serde_json::to_string(&config).unwrap();
            assert_eq!(read_text("config.json", &json).unwrap(), config);
        }
    }

    #[test]
    fn a_part_of_one_changes_that_part() {
        let toml = "steps = 50\nema = 0.9\n[model]\nd_model = 32\n[task]\nmax_length = 5\n";
        let config = read_text("a.toml", toml).unwrap();
        let mut expected = RunConfig::copy();
        expected.steps = 50;
        expected.ema = Some(0.9);
        expected.model.d_model = 32;
        expected.task = TaskConfig::Copy(SequenceConfig {
            max_length: 5,
            ..SequenceConfig::default()
        });
        assert_eq!(config, expected);
        // Some editors of Windows begin a file with a byte order mark.
        let toml = "\u{feff}[task]\nname = \"annotated-copy\"";
        assert_eq!(read_text("a.toml", toml).unwrap(), RunConfig::annotated());
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (name, text, message) in [
            (
                "a.toml",
                "setps = 5",
                r#"unknown key "setps"; the nearest known key is steps"#,
            ),
            (
                "a.json",
                r#"{"model": {"d_modle": 5}}"#,
                "the nearest known key is model.d_model",
            ),
            (
                "a.json",
                r#"{"steps": "many"}"#,
                r#"steps is "many", but must be a number"#,
            ),
            (
                "a.json",
                r#"{"steps": 1.5}"#,
                "cannot be used: steps: invalid type: floating point",
            ),
            (
                "a.TOML",
                "[model]\nd_ff = -8",
                "cannot be used: model.d_ff: invalid value: integer `-8`",
            ),
            (
                "a.json",
                r#"{"ema": "much"}"#,
                "cannot be used: ema: invalid type: string",
            ),
            (
                "a.json",
                r#"{"schedule": {"learningrate": 1}}"#,
                "; the known keys are ",
            ),
            (
                "a.json",
                r#"{"model": 3}"#,
                "model is 3, but must be a table of keys",
            ),
            (
                "a.json",
                r#"{"task": {"name": "fly"}}"#,
                r#"task.name "fly" is no task"#,
            ),
            (
                "a.json",
                r#"{"model": {"max_len": 3}}"#,
                "model.max_len is 3, but follows from the task: 18; leave it out",
            ),
            (
                "a.json",
                r#"{"task": {"name": "custom", "title": "mine"}}"#,
                "is a task of another program",
            ),
            ("a.json", "[1]", "must be an object"),
            ("a.json", "{", "is not JSON"),
            ("a.toml", "steps = = 5", "is not TOML"),
        ] {
            let error = read_text(name, text).unwrap_err();
            assert!(error.contains(message), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let error = read(Path::new("no/such.toml")).unwrap_err().to_string();
        assert!(
            error.contains("--config no/such.toml: cannot be read"),
            "{error}"
        );
    }
}
