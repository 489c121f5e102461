//! Compares the settings of runs with each other, and with those of their presets.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};
use training::config::{RunConfig, TextSize, setting_at};

use crate::args::flags::fit_words;
use crate::number::ranges;

/// Sections of `config.json`, in the order of the page. Settings at the top level of the file
/// belong to `run`.
const SECTIONS: [&str; 7] = [
    "run",
    "data",
    "model",
    "optimization",
    "evaluation",
    "checkpointing",
    "execution",
];

/// A setting, with its values in all runs of a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Section of `config.json`.
    section: &'static str,
    /// Path in `config.json`, such as `model.d_model`.
    path: String,
    /// Argument of `fit` that changes the setting: its flag, or `--set PATH=VALUE` if only `import`
    /// has a flag for it. `None` if the setting has no flag.
    #[serde(skip_serializing_if = "Option::is_none")]
    flag: Option<String>,
    /// Value of each run; `None` where a run has no such setting.
    values: Vec<Option<String>>,
    /// Value that each run's preset has for this setting. `None` if the run has the same value, if
    /// the setting is derived, or if the run or its preset lacks the setting.
    presets: Vec<Option<String>>,
}

/// Compares the settings of runs with each other and with their presets. Each element of `configs`
/// is the contents of a `config.json`.
pub fn settings(configs: &[&Value]) -> Vec<Setting> {
    let flat: Vec<Map<String, Value>> = configs.iter().map(|config| flatten(config)).collect();
    let presets: Vec<_> = flat.iter().map(preset).collect();
    let paths: BTreeSet<&String> = flat.iter().flat_map(Map::keys).collect();
    let setting = |path: &String| {
        let value = |run: &Map<String, Value>| run.get(path).map(words);
        let preset = |(run, preset): (&Map<String, Value>, &Option<Map<String, Value>>)| {
            let theirs = words(preset.as_ref()?.get(path)?);
            let differs = value(run)? != theirs && !is_derived(path, run);
            differs.then_some(theirs)
        };
        Setting {
            section: section(path),
            path: path.clone(),
            flag: fit_words(path),
            values: flat.iter().map(value).collect(),
            presets: flat.iter().zip(&presets).map(preset).collect(),
        }
    };
    let mut settings: Vec<Setting> = paths.into_iter().map(setting).collect();
    let rank = |section| SECTIONS.iter().position(|known| *known == section);
    // The sort is stable, so that the paths of a section stay in order.
    settings.sort_by_key(|setting| rank(setting.section));
    settings
}

fn section(path: &str) -> &'static str {
    let first = path.split_once('.').map_or("run", |(section, _)| section);
    let known = SECTIONS.iter().find(|known| **known == first);
    known.copied().unwrap_or("run")
}

/// Returns whether a setting of a run follows from other settings, from the data or from the
/// machine.
fn is_derived(path: &str, run: &Map<String, Value>) -> bool {
    let is_set = |path| run.get(path).is_some_and(|value| !value.is_null());
    setting_at(path).is_some_and(|setting| {
        let by = setting.replaced_by;
        setting.is_derived || setting.is_local || by.is_some_and(|by| is_set(by.path))
    })
}

/// Returns the settings of the preset for the task of a run. If the task has several presets,
/// returns the one that differs least from the settings of the run. `None` if the task is unknown.
fn preset(run: &Map<String, Value>) -> Option<Map<String, Value>> {
    let task = run.get("data.task")?.as_str()?;
    let presets = match task {
        "text" => [TextSize::Small, TextSize::Tiny, TextSize::Base]
            .map(RunConfig::text)
            .to_vec(),
        task => vec![RunConfig::of_task(task)?],
    };
    let presets = presets.iter().map(|preset| {
        // The preset is converted to text and parsed again. Its f32 numbers then have the same
        // digits as in config.json. A direct conversion would give them the digits of f64.
        let text = serde_json::to_string(preset).expect("it is plain data");
        flatten(&serde_json::from_str(&text).expect("it was written as JSON"))
    });
    let differences = |preset: &Map<String, Value>| {
        let differs = |(path, value): &(&String, &Value)| run.get(*path) != Some(*value);
        preset.iter().filter(differs).count()
    };
    presets.min_by_key(differences)
}

/// Returns the values of nested objects by their paths, such as `model.d_model`.
fn flatten(config: &Value) -> Map<String, Value> {
    fn add(value: &Value, path: &str, found: &mut Map<String, Value>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let dot = if path.is_empty() { "" } else { "." };
                    add(value, &format!("{path}{dot}{key}"), found);
                }
            }
            value => {
                found.insert(path.into(), value.clone());
            }
        }
    }
    let mut found = Map::new();
    add(config, "", &mut found);
    found
}

/// Formats a value as readable text.
fn words(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let numbers: Option<Vec<u64>> = values.iter().map(Value::as_u64).collect();
            let parts: Vec<String> = match numbers {
                Some(numbers) => ranges(&numbers),
                None => values.iter().map(words).collect(),
            };
            parts.join(", ")
        }
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(change: impl FnOnce(&mut RunConfig)) -> Value {
        let mut config = RunConfig::copy();
        config.check().unwrap();
        change(&mut config);
        serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap()
    }

    fn find<'a>(settings: &'a [Setting], path: &str) -> &'a Setting {
        settings
            .iter()
            .find(|setting| setting.path == path)
            .unwrap()
    }

    #[test]
    fn settings_that_differ_from_the_preset_have_its_value() {
        let plain = config(|_| {});
        let changed = config(|config| {
            config.model.d_model = 128;
            config.model.max_len = 99;
            config.optimization.optimizer.clip_norm = Some(0.5);
            config.execution.backend = "flex".into();
        });
        let found = settings(&[&plain, &changed]);
        let d_model = find(&found, "model.d_model");
        assert_eq!(d_model.values, [Some("64".into()), Some("128".into())]);
        assert_eq!(d_model.presets, [None, Some("64".into())]);
        assert_eq!(d_model.flag.as_deref(), Some("--d-model"));
        let max_len = find(&found, "model.max_len").flag.as_deref();
        assert_eq!(max_len, Some("--set model.max_len=VALUE"));
        let clip = find(&found, "optimization.optimizer.clip_norm");
        assert_eq!(clip.presets, [None, Some("none".into())]);
        assert_eq!(clip.section, "optimization");
        let marked = found.iter().filter(|setting| setting.presets[1].is_some());
        assert_eq!(marked.count(), 2);
        assert_eq!(found[0].path, "seed");
        let sections: Vec<_> = found.iter().map(|setting| setting.section).collect();
        assert!(sections.is_sorted_by_key(|name| SECTIONS.iter().position(|s| s == name)));
    }

    #[test]
    fn runs_of_different_tasks_and_unknown_settings_stand_side_by_side() {
        let copy = config(|_| {});
        let other = json!({"data": {"task": "custom", "title": "<b>"}, "new": [1, 2, 3, 5]});
        let found = settings(&[&copy, &other]);
        assert_eq!(find(&found, "new").values, [None, Some("1..3, 5".into())]);
        assert_eq!(find(&found, "data.title").values[1].as_deref(), Some("<b>"));
        assert_eq!(find(&found, "model.d_model").values[1], None);
        assert!(found.iter().all(|setting| setting.presets[1].is_none()));
        assert_eq!(settings(&[]), []);
    }

    #[test]
    fn the_preset_of_a_text_is_the_nearest() {
        let text = |size, d_ff| {
            let mut config = RunConfig::text(size);
            config.model.d_ff = d_ff;
            serde_json::to_value(&config).unwrap()
        };
        let found = settings(&[&text(TextSize::Base, 77), &text(TextSize::Tiny, 77)]);
        let d_ff = find(&found, "model.d_ff");
        assert_eq!(d_ff.presets, [Some("2048".into()), Some("256".into())]);
        assert_eq!(find(&found, "model.d_model").presets, [None, None]);
    }
}
