//! Compares the settings of several configurations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;
use transformer::Choice;
use transformer::weights::Layout;

use super::presets::TEXTS;
use super::run::find;
use super::{ModelSettings, RunConfig, all_settings};
use crate::data::parallel::{BATCH_TOKENS, TextConfig};
use crate::data::{DataConfig, Preset, SYNTHETIC_TASKS, Sides};
use crate::setting::shown;

/// Values of settings by their paths, such as `optimization.schedule.warmup`, sorted by path.
pub type Settings = BTreeMap<String, Value>;

/// Returns the settings in the JSON of a `config.json`, by their paths. Skips settings that follow
/// from the data or from a pretrained model, settings that another setting makes ineffective, and
/// settings that are `null`, which count as missing.
pub fn settings(config: &Value) -> Settings {
    let table = all_settings();
    let mut found = with_sides(config);
    let all = found.clone();
    let is_set = |path: &str| all.get(path).is_some_and(|value| !value.is_null());
    found.retain(|path, value| {
        let setting = find(&table, path);
        let by = setting.and_then(|setting| setting.replaced_by);
        let is_derived = setting.is_some_and(|setting| setting.is_derived);
        !value.is_null() && !is_derived && !by.is_some_and(|by| is_set(by.path))
    });
    found
}

/// Returns all values in the JSON of a `config.json`, by their paths. The values for sources and for
/// targets are one value, as on the command line. Skips settings of training tokenisers that are read.
pub fn with_sides(config: &Value) -> Settings {
    let mut found = flat(config);
    retain_used(config, &mut found);
    for setting in all_settings().iter().filter(|setting| setting.has_sides) {
        let path = |side: &str| format!("{}.{side}", setting.path);
        let [source, target] = ["source", "target"].map(|side| found.remove(&path(side)));
        if let (Some(source), Some(target)) = (source, target) {
            let both = if source == target {
                source
            } else {
                format!("{},{}", shown(&source), shown(&target)).into()
            };
            found.insert(setting.path.into(), both);
        }
    }
    found
}

/// Keeps the settings of training tokenisers only if `config` has a tokeniser to train. One that is
/// read from a file or from the folder of a pretrained model ignores them.
fn retain_used(config: &Value, settings: &mut Settings) {
    let data = &config["data"];
    let is_read = |file| !data["pretrained"].is_null() || !data["tokenizer"][file].is_null();
    let read = ["source_file", "target_file"].map(is_read);
    settings.retain(|path, _| match path.strip_prefix("data.tokenizer.") {
        None | Some("source_file" | "target_file") => true,
        Some("joint") => read == [false; 2],
        Some(_) => read != [true; 2],
    });
}

/// Returns all values in the JSON of a `config.json`, by their paths. An empty object is a value.
pub(crate) fn flat(config: &Value) -> Settings {
    let keys = match config {
        Value::Object(keys) if !keys.is_empty() => keys,
        value => return Settings::from([(String::new(), value.clone())]),
    };
    let nested = keys.iter().flat_map(|(key, value)| {
        flat(value).into_iter().map(move |(path, value)| {
            let dot = if path.is_empty() { "" } else { "." };
            (format!("{key}{dot}{path}"), value)
        })
    });
    nested.collect()
}

/// Returns the paths of the settings that are not the same in all configurations, in alphabetical
/// order. Numbers are compared by their values: 1 is the same as 1.0.
pub fn differing<'a>(all: &[&'a Settings]) -> Vec<&'a str> {
    let paths: BTreeSet<&String> = all.iter().flat_map(|settings| settings.keys()).collect();
    let differs = |path: &&str| {
        let mut values = all.iter().map(|settings| settings.get(*path));
        let first = values.next().flatten();
        values.any(|value| !is_same(first, value))
    };
    let paths = paths.into_iter().map(String::as_str);
    paths.filter(differs).collect()
}

fn is_same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    let is_whole = |value: Option<&Value>| value.is_some_and(Value::is_u64);
    // Large whole numbers, such as seeds, are not exact as f64.
    a == b || number(a).is_some() && number(a) == number(b) && !(is_whole(a) && is_whole(b))
}

/// Name of the default settings for fine-tuning a pretrained model, in place of a preset's name.
pub const FINE_TUNING: &str = "fine-tuning";

/// Returns the default settings for fine-tuning the pretrained model of a run. `config` is the JSON
/// of the run's `config.json`. Returns `None` if `config` is damaged or its data are not texts.
fn unchanged(config: &Value) -> Option<RunConfig> {
    let own: RunConfig = serde_json::from_value(config.clone()).ok()?;
    let DataConfig::Text(text) = &own.data else {
        return None;
    };
    let mut text = TextConfig {
        batch_tokens: BATCH_TOKENS,
        overlong: TextConfig::DEFAULT.overlong,
        lossy: TextConfig::DEFAULT.lossy,
        valid_share: TextConfig::DEFAULT.valid_share,
        ..*text.clone()
    };
    let pretrained = text.pretrained.as_mut()?;
    (pretrained.source_language, pretrained.target_language) = (None, None);
    text.max_length = Sides::both(pretrained.usual_length());
    Some(RunConfig::fine_tuning(text, own.model))
}

/// All presets, each without and with the choices of a family of models, and their settings. Of
/// those that are equally similar to a run, the first one is taken.
static PRESETS: LazyLock<Vec<(&str, Option<Layout>, Settings)>> = LazyLock::new(|| {
    let families = || {
        [None]
            .into_iter()
            .chain(Layout::ALL.iter().copied().map(Some))
    };
    let presets = SYNTHETIC_TASKS
        .iter()
        .chain([&TEXTS[1], &TEXTS[0], &TEXTS[2]]);
    let both = presets.flat_map(|preset| families().map(move |family| (preset, family)));
    let of = |(preset, family): (&'static Preset, Option<Layout>)| {
        let mut config = preset.config();
        family
            .map_or(Ok(()), |family| config.choose_family(family))
            .ok()?;
        Some((preset.name, family, settings(&config.to_json())))
    };
    both.filter_map(of).collect()
});

/// The preset that a configuration is most similar to.
#[derive(Clone, Debug, PartialEq)]
pub struct NearestPreset {
    /// Name of the preset. For a pretrained model, it is [`FINE_TUNING`].
    pub name: &'static str,
    /// Family of the model's architecture, if that makes the preset more similar.
    pub family: Option<Layout>,
    /// Settings in which the configuration differs from the preset. The values are those of the
    /// configuration, or `null` if only the preset has the setting.
    pub changed: Settings,
    /// Settings of the preset.
    pub preset: Settings,
}

/// Compares the JSON of a `config.json` with the presets of its task.
/// Returns `None` for a task without presets, for a `config` without a task, and for a damaged
/// `config` of a pretrained model.
///
/// Ignores settings that name files or the machine, which no preset chooses.
pub fn nearest_preset(config: &Value) -> Option<NearestPreset> {
    let task = config["data"]["task"].as_str()?;
    let of_pretrained;
    let presets = if task == "text" && !config["data"]["pretrained"].is_null() {
        let mut settings = settings(&unchanged(config)?.to_json());
        // The dropout of the model's folder is not known.
        settings.remove(ModelSettings::dropout.path);
        of_pretrained = [(FINE_TUNING, None, settings)];
        &of_pretrained[..]
    } else {
        &PRESETS
    };
    let is_of_texts = |name: &str| name == FINE_TUNING || TEXTS.iter().any(|it| it.name == name);
    let is_of_task = |name: &str| name == task || task == "text" && is_of_texts(name);
    let presets = presets.iter().filter(|(name, ..)| is_of_task(name));
    let (table, own) = (all_settings(), settings(config));
    let from = presets.map(|(name, family, preset)| {
        let mut preset = preset.clone();
        retain_used(config, &mut preset);
        let paths = differing(&[&own, &preset]).into_iter();
        let paths = paths.filter(|path| !find(&table, path).is_some_and(|found| found.is_local));
        let value = |path: &str| own.get(path).cloned().unwrap_or(Value::Null);
        let mut changed: Settings = paths.map(|path| (path.into(), value(path))).collect();
        // A run has only one of two settings that replace each other, such as steps and epochs. The
        // setting that it lacks is not listed as `null`.
        changed.retain(|path, value| {
            let by = |path: &str| Some(find(&table, path)?.replaced_by?.path);
            let replaces = |other: &String| by(other) == Some(path);
            let has_by = by(path).is_some_and(|by| own.contains_key(by));
            !value.is_null() || !(has_by || own.keys().any(replaces))
        });
        NearestPreset {
            name,
            family: *family,
            changed,
            preset,
        }
    });
    from.min_by_key(|nearest| nearest.changed.len() + usize::from(nearest.family.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(config: &RunConfig) -> (&'static str, Vec<String>) {
        let json = config.to_json();
        let nearest = nearest_preset(&json).unwrap();
        let shown = nearest.changed.iter();
        let shown = shown.map(|(path, value)| format!("{path} {value}"));
        (nearest.name, shown.collect())
    }

    #[test]
    fn a_preset_does_not_differ_from_itself() {
        for name in SYNTHETIC_TASKS.iter().map(|task| task.name) {
            let mut config = RunConfig::of_task(name).unwrap();
            config.execution.backend = "flex".into();
            config.check().unwrap();
            assert_eq!(changed(&config), (name, Vec::new()));
        }
        for name in ["tiny", "small", "base"] {
            assert_eq!(changed(&RunConfig::text(name)), (name, Vec::new()));
        }
        let custom = serde_json::json!({"data": {"task": "custom"}});
        assert!(nearest_preset(&custom).is_none());
    }

    #[test]
    fn changed_settings_are_found() {
        let mut config = RunConfig::copy();
        config.seed = 3;
        config.model = config.model.with_d_model(16);
        config.evaluation.target = Some(0.5);
        config.optimization.steps = 12;
        config.check().unwrap();
        let (nearest, paths) = changed(&config);
        let expected = "evaluation.target 0.5, model.d_model 16, optimization.steps 12, seed 3";
        assert_eq!((nearest, &*paths.join(", ")), ("copy", expected));
        let mut config = RunConfig::text("tiny");
        config.optimization.epochs = None;
        config.optimization.steps = 70;
        config.optimization.schedule.learning_rate = Some(0.001);
        let (nearest, paths) = changed(&config);
        let expected = "optimization.schedule.learning_rate 0.001, optimization.steps 70";
        assert_eq!((nearest, &*paths.join(", ")), ("tiny", expected));
    }

    #[test]
    fn equal_numbers_do_not_differ() {
        let [a, b] = [
            serde_json::json!({"x": 1, "y": null}),
            serde_json::json!({"x": 1.0}),
        ];
        assert!(differing(&[&settings(&a), &settings(&b)]).is_empty());
        let [a, b] = [u64::MAX - 1, u64::MAX].map(|seed| serde_json::json!({ "seed": seed }));
        assert_eq!(differing(&[&settings(&a), &settings(&b)]), ["seed"]);
    }
}
