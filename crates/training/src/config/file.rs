//! Reads a configuration from a JSON or TOML file, which may have only some of the settings.

use std::path::Path;

use serde_json::{Value, json};
use transformer::weights::Unique;

use super::assign::{assign, not_a_setting};
use super::differences::flat;
use super::run::{RunConfig, find};
use crate::data::TASK;
use crate::error::{UsageError, quote};
use crate::files::read_regular;
use crate::setting::shown;

/// Maximum size of a configuration file, in MiB.
const LARGEST: u64 = 16;

/// What an error says of the configuration of a Hugging Face model.
pub(crate) const OF_HUGGING_FACE: &str = "belongs to a Hugging Face model, not to a run: `train import FOLDER --run-dir RUN` makes a run of its folder";

/// Reads a configuration file, such as a run's `config.json`. Missing settings get the defaults of
/// the file's task, which is `copy` if the file has none. Relations between values are not checked.
///
/// # Errors
///
/// If the file cannot be read, is not a configuration of a built-in task, has an unknown key or a
/// value that is not valid, or contradicts a value that follows from the data.
pub fn read(path: &Path) -> Result<RunConfig, UsageError> {
    let wrong = |what: String| UsageError::argument("config", path.display(), what);
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
        serde_json::from_str(text).map_err(|error| {
            format!("is not JSON ({error}); the name of a TOML file ends in .toml")
        })
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
    let near = error.span().and_then(|span| text.get(span));
    let near = near.map_or(String::new(), quote);
    format!("is not usable TOML ({line}{} {near})", error.message())
}

/// Rejects a file in which a setting of the model differs from the value that follows from the
/// data. Does nothing for data sets that are read from files, because their values are not known.
fn check_derived(file: &Value, config: &RunConfig) -> Result<(), String> {
    let mut checked = config.clone();
    if checked.check().is_err() {
        // The caller of `read` checks the settings again and reports this error.
        return Ok(());
    }
    let (given, checked) = (flat(file), flat(&checked.to_json()));
    let table = config.table().into_iter();
    for setting in table.filter(|setting| setting.is_derived) {
        let both = given.get(setting.path).zip(checked.get(setting.path));
        if let Some((given, derived)) = both.filter(|(given, derived)| given != derived) {
            return Err(format!(
                "{setting} is {given}, but follows from the task: {derived}; leave it out"
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
/// If `file` is not a configuration of a built-in task, or has an unknown key or a value that is not
/// valid.
pub fn over_defaults(file: Value) -> Result<RunConfig, String> {
    if !file.is_object() {
        return Err("must be an object with the keys of a run's config.json".into());
    }
    if file.get("model_type").is_some() {
        return Err(OF_HUGGING_FACE.into());
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
    let defaults = RunConfig::of_task(name).ok_or_else(|| {
        let expected = TASK.read_text(name).err().unwrap_or_default();
        format!("data.task {} is not a task: {expected}", quote(name))
    })?;
    let table = defaults.table();
    let mut config = defaults.to_json();
    let given = flat(&file);
    for setting in &table {
        // A default must not make a setting of the file ineffective.
        if let Some(by) = setting.replaced_by
            && given.contains_key(setting.path)
            && !given.contains_key(by.path)
        {
            assign(&mut config, &table, by, by.path, Value::Null);
        }
    }
    for (path, value) in &given {
        // A group without settings, as in the file of a preset, changes none.
        let begin = format!("{path}.");
        let is_group = path.is_empty() || table.iter().any(|it| it.path.starts_with(&begin));
        if is_group && *value == json!({}) {
            continue;
        }
        let Some(setting) = find(&table, path) else {
            return Err(format!("{path}: {}", not_a_setting(&table, path)));
        };
        let read = setting.read(value);
        let given = value.as_str().map_or_else(|| shown(value), quote);
        let value = read.map_err(|expected| format!("{path} {given}: {expected}"))?;
        assign(&mut config, &table, setting, path, value);
    }
    serde_path_to_error::deserialize(config)
        .map_err(|error| format!("{}: {}", error.path(), error.inner()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::synthetic::SequenceConfig;
    use crate::data::{DataConfig, Sides};
    use crate::tests::assert_has;

    fn read_text(name: &str, text: &str) -> Result<RunConfig, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_configuration_survives_a_round_trip() {
        for mut config in [
            RunConfig::copy(),
            RunConfig::of_preset("annotated-copy").unwrap(),
        ] {
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
        let toml = "[execution]\n[optimization.lora]\n[optimization]\nsteps = 50\nema = 0.9\n[model]\nd_model = 32\n[data]\nmax_length = 5\n";
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
        assert_eq!(
            read_text("a.toml", toml).unwrap(),
            RunConfig::of_preset("annotated-copy").unwrap()
        );
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
        assert_has(&error, &["data.max_length \"x\": must be a whole number"]);
        let error = read("max_length = {}").unwrap_err();
        assert_has(&error, &["data.max_length {}: must be a whole number"]);
        let error = read("max_length = { sauce = 7 }").unwrap_err();
        assert_has(&error, &["data.max_length.sauce: is not a setting"]);
    }

    #[test]
    fn wrong_keys_and_values_are_named() {
        let table = r#"
            sede = 5 => sede: is not a setting; the nearest is seed
            model.d_modle = 5 => the nearest is model.d_model
            optimization.steps = "many" => optimization.steps "many": must be a whole number
            optimization.steps = 1.5 => optimization.steps 1.5: must be a whole number
            model.d_ff = -8 => model.d_ff -8: must be a whole number
            optimization.ema = "much" => optimization.ema "much": must be above 0
            optimization.schedule.shape = 1 => optimization.schedule.shape: is not a setting
            model = 3 => model: must be a group of settings, such as model.d_model
            data.task = "fly" => data.task "fly" is not a task: must be one of copy
            model.max_len = 3 => model.max_len is 3, but follows from the task: 18; leave it out
            data = { task = "custom", title = "mine" } => is a task of another program
            task = 'reverse' => the nearest is data.task
            optimization.optimizer.clip_norm = inf => inf is not a finite number
            optimization.lora = 4 => optimization.lora 4: is a group of settings: rank, alpha
            seed = {} => seed {}: must be a whole number
            data.max_length = {} => data.max_length {}: must be a whole number
            model.d_model.x = {} => model.d_model.x: is not a setting
            seed = 1979-05-27 => a date is not the value
            seed = = 5 => is not usable TOML (line 1: "#;
        let table = table.lines().skip(1);
        let table = table.map(|line| line.split_once(" => ").unwrap());
        let json = [("[1]", "must be an object"), ("{", "is not JSON")];
        for (text, message) in table.chain(json) {
            let is_toml = text.contains('=');
            let name = if is_toml { "a.TOML" } else { "a.json" };
            let error = read_text(name, text.trim()).unwrap_err();
            assert_has(&error, &[message]);
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let error = read_text("a.toml", "seed = 1\nseed = 2").unwrap_err();
        assert_has(&error, &["line 2: duplicate key \"seed\""]);
        let error = read(Path::new("no/such.toml")).unwrap_err();
        assert_has(&error, &["config no/such.toml: cannot be read"]);
    }
}
