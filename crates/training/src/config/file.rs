//! Reads a configuration from a JSON or TOML file, which may have only some of the settings.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::assign::{in_words, prefer_given};
use super::run::RunConfig;
use crate::error::{UsageError, quote};
use crate::files::read_regular;
use crate::files::unique::Unique;

/// Maximum size of a configuration file, in MiB.
const LARGEST: u64 = 16;

/// Reads a configuration file, such as a run's `config.json`. Missing settings get the defaults of
/// the file's task, which is `copy` if the file has none. Bounds of values are not checked.
///
/// # Errors
///
/// If the file cannot be read, is not a configuration of a built-in task, has an unknown key or a
/// value of the wrong type, or contradicts a value that follows from the data. A message about a
/// key has its path, or only `data` for some values of this section.
pub fn read(path: &Path) -> Result<RunConfig, UsageError> {
    let wrong = |what: String| UsageError::setting("config", path.display(), what);
    let bytes = read_regular(path, LARGEST);
    let bytes = bytes.map_err(|error| wrong(format!("cannot be read ({error})")))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8".into()))?;
    let extension = path.extension();
    let is_toml = extension.is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    // Some Windows editors begin a file with a byte order mark.
    let text = text.trim_start_matches('\u{feff}');
    let read = if is_toml {
        toml::from_str(text).map_err(|error| not_toml(text, &error))
    } else {
        serde_json::from_str(text).map_err(|error| format!("is not JSON ({error})"))
    };
    let Unique(file) = read.map_err(wrong)?;
    let config = over_defaults(file.clone()).map_err(wrong)?;
    check_derived(&file, &config).map_err(wrong)?;
    Ok(config)
}

/// Returns the message for a text that is not usable TOML, with the number of the line if it is
/// known.
fn not_toml(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map(|before| 1 + before.matches('\n').count());
    let line = line.map_or(String::new(), |line| format!("line {line}: "));
    format!("is not usable TOML ({line}{})", error.message())
}

/// Rejects a file in which a setting of the model differs from the value that follows from the
/// data. Does nothing for data sets that are read from files, because their values are not known.
fn check_derived(file: &Value, config: &RunConfig) -> Result<(), String> {
    let mut checked = config.clone();
    if checked.check().is_err() {
        // The caller of `read` checks the settings again and reports this error.
        return Ok(());
    }
    let checked = serde_json::to_value(checked.model).expect("it is plain data");
    for key in [
        "source_vocab_size",
        "target_vocab_size",
        "max_len",
        "pad_id",
    ] {
        let (given, derived) = (&file["model"][key], &checked[key]);
        if file["model"].get(key).is_some() && given != derived {
            return Err(format!(
                "model.{key} is {given}, but follows from the task: {derived}; leave it out"
            ));
        }
    }
    Ok(())
}

/// Returns the configuration of a file, with the defaults of its task for missing settings. A file
/// without a task gets the task `copy`.
///
/// # Errors
///
/// If `file` is not a configuration of a built-in task, or has an unknown key or a value of the
/// wrong type. A message about a key has its path, or only `data` for some values of this section.
pub fn over_defaults(file: Value) -> Result<RunConfig, String> {
    let Value::Object(file) = file else {
        return Err("must be an object with the keys of a run's config.json".into());
    };
    if file.contains_key("model_type") {
        let what =
            "belongs to a Hugging Face model: `train generate` and `train import` read its folder";
        return Err(what.into());
    }
    if file.get("task").is_some_and(Value::is_object) {
        let what = "is of an older version, whose settings were not grouped: see \
                    `train --print-config` for the groups, or train again";
        return Err(what.into());
    }
    let name = match file.get("data").and_then(|data| data.get("task")) {
        None => "copy",
        Some(Value::String(name)) => name,
        Some(other) => return Err(format!("data.task is {other}, but must be a word")),
    };
    if name == "custom" {
        let what = "data.task: is a task of another program, which must read this run itself";
        return Err(what.into());
    }
    let defaults = RunConfig::of_task(name)
        .ok_or_else(|| format!("data.task {} is not a task", quote(name)))?;
    let mut config = serde_json::to_value(defaults).expect("it is plain data");
    prefer_given(&mut config, &file);
    let keys = config.as_object_mut().expect("it is a structure");
    merge(keys, with_both_sides(file), "")?;
    serde_path_to_error::deserialize(config).map_err(|error| {
        let (path, error) = (error.path().to_string(), error.inner().to_string());
        format!("{path}: {}", in_words(&error))
    })
}

/// In a file for the task `text`, replaces a single value for sources and targets by an object with
/// the keys `source` and `target`.
fn with_both_sides(mut file: Object) -> Object {
    fn write_out(mut section: Option<&mut Value>, keys: &[&str]) {
        for key in keys {
            let value = section
                .as_deref_mut()
                .and_then(|section| section.get_mut(key));
            if let Some(value) = value.filter(|value| value.is_number() || value.is_boolean()) {
                *value = json!({ "source": value, "target": value });
            }
        }
    }
    let data = file.get_mut("data");
    if let Some(data) = data.filter(|data| data["task"] == "text") {
        write_out(Some(&mut *data), &["max_length"]);
        write_out(data.get_mut("tokenizer"), &["vocab_size", "or_fewer"]);
    }
    file
}

fn is_same_kind(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// Values of a JSON object, by their keys.
type Object = Map<String, Value>;

/// Replaces values in `defaults` by the values of a file.
fn merge(defaults: &mut Object, file: Object, path: &str) -> Result<(), String> {
    for (key, value) in file {
        let whole = format!("{path}{key}");
        let Some(default) = defaults.get_mut(&key) else {
            let known = defaults
                .keys()
                .map(|known| (strsim::damerau_levenshtein(known, &key), known));
            let section = defaults
                .iter()
                .find(|(_, section)| section.get(&key).is_some());
            if let Some((section, _)) = section {
                let name = quote(&whole);
                return Err(format!(
                    "has an unknown key {name}; it belongs in {path}{section}"
                ));
            }
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
            // An optional setting may be null, in the file or by default.
            (default, value)
                if default.is_null() || value.is_null() || is_same_kind(default, &value) =>
            {
                *default = value;
            }
            (default, value) => {
                let kind = match default {
                    Value::Number(_) => "a number",
                    Value::String(_) => "a word",
                    Value::Bool(_) => "true or false",
                    _ => "a table of keys",
                };
                return Err(format!("{whole} is {value}, but must be {kind}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::synthetic::SequenceConfig;
    use crate::data::{DataConfig, Sides};

    fn read_text(name: &str, text: &str) -> Result<RunConfig, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_configuration_survives_a_round_trip() {
        for mut config in [RunConfig::copy(), RunConfig::annotated()] {
            config.seed = 7;
            config.optimization.ema = Some(0.99);
            config.checkpointing.seconds = None;
            config.check().unwrap();
            let json = serde_json::to_string(&config).unwrap();
            assert_eq!(read_text("config.json", &json).unwrap(), config);
        }
    }

    #[test]
    fn a_partial_file_changes_only_its_settings() {
        let toml = "[optimization]\nsteps = 50\nema = 0.9\n[model]\nd_model = 32\n[data]\nmax_length = 5\n";
        let config = read_text("a.toml", toml).unwrap();
        let mut expected = RunConfig::copy();
        expected.optimization.steps = 50;
        expected.optimization.ema = Some(0.9);
        expected.model.d_model = 32;
        expected.data = DataConfig::Copy(SequenceConfig {
            max_length: 5,
            ..SequenceConfig::default()
        });
        assert_eq!(config, expected);
        let toml = "\u{feff}[data]\ntask = \"annotated-copy\"";
        assert_eq!(read_text("a.toml", toml).unwrap(), RunConfig::annotated());
    }

    #[test]
    fn one_value_stands_for_sources_and_targets() {
        let read = |data: &str| -> Result<_, String> {
            let config = read_text("a.toml", &format!("[data]\ntask = 'text'\n{data}"))?;
            match config.data {
                DataConfig::Text(text) => Ok(text),
                other => panic!("{other:?}"),
            }
        };
        let text = read("max_length = 50\n[data.tokenizer]\nvocab_size = 90\nor_fewer = false");
        let text = text.unwrap();
        assert_eq!(text.max_length, Sides::both(50));
        assert_eq!(text.tokenizer.vocab_size, Sides::both(90));
        assert_eq!(text.tokenizer.or_fewer, Sides::both(false));
        let text = read("max_length = { target = 7 }").unwrap();
        let expected = Sides {
            source: 256,
            target: 7,
        };
        assert_eq!(text.max_length, expected);
        let error = read("max_length = 'x'").unwrap_err();
        assert!(
            error.contains("data.max_length is \"x\", but must be a table of keys"),
            "{error}"
        );
        let error = read("max_length = { sauce = 7 }").unwrap_err();
        assert!(
            error.contains("nearest known key is data.max_length.source"),
            "{error}"
        );
    }

    #[test]
    fn wrong_keys_and_values_are_named() {
        for (name, text, message) in [
            (
                "a.toml",
                "sede = 5",
                r#"unknown key "sede"; the nearest known key is seed"#,
            ),
            (
                "a.json",
                r#"{"model": {"d_modle": 5}}"#,
                "the nearest known key is model.d_model",
            ),
            (
                "a.json",
                r#"{"optimization": {"steps": "many"}}"#,
                r#"optimization.steps is "many", but must be a number"#,
            ),
            (
                "a.json",
                r#"{"optimization": {"steps": 1.5}}"#,
                "optimization.steps: must be a whole number",
            ),
            (
                "a.TOML",
                "[model]\nd_ff = -8",
                "model.d_ff: must be a whole number",
            ),
            (
                "a.json",
                r#"{"optimization": {"ema": "much"}}"#,
                "optimization.ema: must be a number",
            ),
            (
                "a.json",
                r#"{"optimization": {"schedule": {"shape": 1}}}"#,
                "; the known keys are ",
            ),
            (
                "a.json",
                r#"{"model": 3}"#,
                "model is 3, but must be a table of keys",
            ),
            (
                "a.json",
                r#"{"data": {"task": "fly"}}"#,
                r#"data.task "fly" is not a task"#,
            ),
            (
                "a.json",
                r#"{"model": {"max_len": 3}}"#,
                "model.max_len is 3, but follows from the task: 18; leave it out",
            ),
            (
                "a.json",
                r#"{"data": {"task": "custom", "title": "mine"}}"#,
                "is a task of another program",
            ),
            (
                "a.toml",
                "task = 'reverse'",
                r#"unknown key "task"; it belongs in data"#,
            ),
            (
                "a.toml",
                "d_model = 5",
                r#"unknown key "d_model"; it belongs in model"#,
            ),
            (
                "config.json",
                r#"{"task": {"name": "copy"}, "model": {}, "steps": 5}"#,
                "is of an older version, whose settings were not grouped",
            ),
            ("a.json", "[1]", "must be an object"),
            ("a.json", "{", "is not JSON"),
            (
                "a.toml",
                "seed = 1\nsteps = = 5",
                "is not usable TOML (line 2: ",
            ),
            (
                "a.toml",
                "[optimization.optimizer]\nclip_norm = inf",
                "inf is not a finite number",
            ),
            (
                "a.toml",
                "[optimization]\nlora = { rank = 4 }",
                "optimization.lora: missing field `alpha`",
            ),
            (
                "a.toml",
                "[optimization]\nlora = 4",
                "optimization.lora: must be a table of keys",
            ),
            ("a.toml", "seed = 1979-05-27", "a date is not the value"),
        ] {
            let error = read_text(name, text).unwrap_err();
            assert!(error.contains(message), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let error = read(Path::new("no/such.toml")).unwrap_err().to_string();
        assert!(
            error.contains("config no/such.toml: cannot be read"),
            "{error}"
        );
    }
}
