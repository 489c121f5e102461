//! Changes single settings of a configuration by their paths.

use serde_json::{Value, json};

use super::RunConfig;
use super::run::find;
use crate::data::{DataConfig, TASK};
use crate::error::UsageError;
use crate::setting::{Kind, Setting, Tasks, json, value_at};

/// Maximum number of similar paths that the error about an unknown path suggests. If some paths
/// have the same last key as the unknown path, the error suggests all of these paths instead.
const NEAREST: usize = 3;

impl RunConfig {
    /// Returns the configuration with one setting changed. `text` is a word, a number or another
    /// JSON value. A setting that would make the changed setting ineffective becomes null.
    ///
    /// ```
    /// use training::config::RunConfig;
    ///
    /// let config = RunConfig::copy().with("optimization.optimizer.beta_2", "0.99")?;
    /// assert_eq!(config.optimization.optimizer.beta_2, 0.99);
    /// let error = config.with("optimization.beta_2", "0.99").unwrap_err();
    /// let hint = "is not a setting; the nearest is optimization.optimizer.beta_2";
    /// assert_eq!(error.to_string(), format!("optimization.beta_2: {hint}"));
    /// # Ok::<(), training::error::UsageError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If `path` is not the path of a setting that can be set, the task does not have the setting,
    /// or the value is not valid.
    pub fn with(&self, path: &str, text: &str) -> Result<Self, UsageError> {
        let table = self.table();
        let Some(setting) = find(&table, path) else {
            return Err(match super::setting_at(path) {
                Some(setting) => UsageError::setting(setting, text, self.not_of_task()),
                None => UsageError::new(path, "", not_a_setting(&table, path)),
            });
        };
        let wrong = |expected: String| UsageError::setting(setting, text, expected);
        if setting == TASK {
            let expected = format!("is chosen by --task {text}, not by --set");
            return Err(UsageError::new(path, text, expected));
        }
        if path.starts_with("data.pretrained") {
            let expected = "follows from the folder of the pretrained model";
            return Err(wrong(expected.into()));
        }
        if setting.is_derived {
            return Err(wrong("follows from the task and its data".into()));
        }
        let is_text = matches!(self.data, DataConfig::Text(_));
        match setting.tasks {
            Tasks::Text(advice) if !is_text => {
                return Err(wrong(format!("is for --task text only; {advice}")));
            }
            Tasks::Synthetic(advice) if is_text => {
                return Err(wrong(format!("is not for --task text; {advice}")));
            }
            _ => {}
        }
        let value = setting.read_text(text).map_err(wrong)?;
        let mut config = self.to_json();
        assign(&mut config, &table, setting, path, value);
        if let Some(by) = setting.replaced_by {
            assign(&mut config, &table, by, by.path, Value::Null);
        }
        serde_json::from_value(config).map_err(|error| wrong(error.to_string()))
    }

    /// Returns the configuration with each of `settings`, `PATH=VALUE` with blanks between them, which
    /// must be valid.
    pub(super) fn with_all(&self, settings: &str) -> Self {
        let (table, mut config) = (self.table(), self.to_json());
        for setting in settings.split_whitespace() {
            let (path, value) = setting.split_once('=').expect("it is PATH=VALUE");
            let setting = find(&table, path).expect("it is a setting");
            let value = setting.read_text(value).expect("it is a valid value");
            assign(&mut config, &table, setting, path, value);
        }
        serde_json::from_value(config).expect("the values are valid")
    }

    /// Returns the configuration as a JSON value, with numbers as short as in a configuration file,
    /// such as 0.98.
    pub(crate) fn to_json(&self) -> Value {
        json(self)
    }

    /// Returns each setting with its value, in the order of the configuration's sections. Skips
    /// settings that follow from the data or from a pretrained model. The settings of an optional
    /// group that is not used are null.
    pub fn settings(&self) -> Vec<(&'static Setting, Value)> {
        let config = self.to_json();
        let value = |path| value_at(&config, path).cloned().unwrap_or_default();
        let table = self.table().into_iter();
        let settings = table.filter(|setting| {
            let is_group = matches!(setting.kind, Kind::Group(..));
            let is_pretrained = setting.path.starts_with("data.pretrained.");
            !is_group && !setting.is_derived && !is_pretrained
        });
        let settings = settings.map(|setting| (setting, value(setting.path)));
        settings.collect()
    }

    fn not_of_task(&self) -> String {
        let settings = self.data.settings().iter();
        let flags = Vec::from_iter(settings.filter_map(|setting| Some(setting.flag?.name)));
        let known = if flags.is_empty() {
            "no settings".into()
        } else {
            flags.join(", ")
        };
        let task = self.data.name();
        format!("is not a setting of --task {task}, which has {known}")
    }
}

/// Changes the setting at `path`, which is that of `setting` or of one of its sides. A group on the
/// way that is null gets its default values first.
pub(super) fn assign(
    config: &mut Value,
    table: &[&'static Setting],
    setting: &Setting,
    path: &str,
    value: Value,
) {
    let mut place = config;
    let mut end = 0;
    for key in path.split('.') {
        if place.is_null() {
            let group = find(table, &path[..end - 1]);
            *place = match group.map(|group| group.kind) {
                Some(Kind::Group(_, default)) => default(),
                _ => json!({}),
            };
        }
        end += key.len() + 1;
        place = match place {
            Value::Object(keys) => keys.entry(key).or_insert(Value::Null),
            other => {
                // A single value stands for both sides.
                let both = std::mem::take(other);
                *other = json!({ "source": both, "target": both });
                &mut other[key]
            }
        };
    }
    *place = if setting.has_sides && setting.path == path && !value.is_object() {
        json!({ "source": value, "target": value })
    } else {
        value
    };
}

/// Returns the message for a path that is not a setting. It names the most similar paths or, if no
/// path is similar, the top-level keys.
pub(super) fn not_a_setting(table: &[&'static Setting], path: &str) -> String {
    let begin = format!("{path}.");
    let mut given = table.iter().filter(|known| !known.is_derived);
    if let Some(inside) = given.find(|known| known.path.starts_with(&begin)) {
        return format!("must be a group of settings, such as {inside}");
    }
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |known: &str| {
        let of_name = strsim::damerau_levenshtein(&last(known), &last(path));
        (of_name, strsim::damerau_levenshtein(known, path))
    };
    let is_single = |it: &&&Setting| !matches!(it.kind, Kind::Group(..)) && !it.is_derived;
    let known = table.iter().filter(is_single).map(|known| known.path);
    let mut near: Vec<_> = known.map(|path| (distance(path), path)).collect();
    near.sort_unstable();
    let is_near = |((name, whole), known): &((usize, usize), &str)| {
        *name <= last(known).len() / 3 || *whole <= known.len() / 3
    };
    near.retain(is_near);
    let exact = near.iter().filter(|((name, _), _)| *name == 0).count();
    near.truncate(if exact > 0 { exact } else { NEAREST });
    let near: Vec<&str> = near.into_iter().map(|(_, known)| known).collect();
    match &near[..] {
        [] => {
            let first = |setting: &&Setting| setting.path.split('.').next().unwrap_or_default();
            let mut groups: Vec<&str> = table.iter().map(first).collect();
            groups.dedup();
            let groups = groups.join(", ");
            format!("is not a setting; a path begins with one of {groups}")
        }
        [nearest] => format!("is not a setting; the nearest is {nearest}"),
        near => format!("is not a setting; the nearest are {}", near.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_setting_can_be_set() {
        let config = RunConfig::copy();
        let set = |path: &str, text: &str| config.with(path, text).unwrap();
        assert_eq!(set("seed", "7").seed, 7);
        assert_eq!(set("model.dropout", "0.25").model.dropout, 0.25);
        assert_eq!(set("optimization.ema", "0.9").optimization.ema, Some(0.9));
        assert_eq!(
            set("checkpointing.seconds", "null").checkpointing.seconds,
            None
        );
        assert!(!set("execution.fused", "false").execution.fused);
        assert_eq!(set("execution.backend", "flex").execution.backend, "flex");
        let by_length = set("evaluation.by_length.lengths", "1..3");
        let by_length = by_length.evaluation.by_length.unwrap();
        assert_eq!(
            (by_length.lengths, by_length.sequences),
            (vec![1, 2, 3], 250)
        );
        let lora = set("optimization.lora.rank", "4")
            .optimization
            .lora
            .unwrap();
        assert_eq!((lora.rank, lora.scale()), (4, 8.0));
        let positions = set("model.positions", "sinusoidal-halves").model.positions;
        assert_eq!(positions, transformer::Positions::SinusoidalHalves);
        let text = RunConfig::text("small");
        let sides = text.with("data.max_length", "30").unwrap();
        let sides = sides.with("data.max_length.target", "40").unwrap();
        let lengths = &sides.to_json()["data"]["max_length"];
        assert_eq!(lengths["source"], 30);
        assert_eq!(lengths["target"], 40);
        let text = text.with("optimization.steps", "30").unwrap();
        assert_eq!(
            (text.optimization.steps, text.optimization.epochs),
            (30, None)
        );
        assert_eq!(config.with("seed", "0").unwrap(), config);
    }

    #[test]
    fn wrong_paths_and_values_are_explained() {
        let table = "
            optimization.beta_2=1 => : is not a setting; the nearest is optimization.optimizer.beta_2
            model.d_modle=1 => : is not a setting; the nearest is model.d_model
            optimization.optimizer=1 =>  1: is a group of settings: kind, beta_1, beta_2, epsilon
            data.max_digits=3 =>  3: is not a setting of --task copy, which has --symbols
            optimization.epochs=3 =>  3: is for --task text only
            optimization.steps=null =>  null: must be a whole number
            model.max_len=9 =>  9: follows from the task and its data
            execution.fused=1 =>  1: must be true or false
            model.d_model=1.5 =>  1.5: must be a whole number
            model=3 => : must be a group of settings, such as model.d_model
            optimization.ema=much =>  much: must be above 0
            optimization.ema=nan =>  nan: must be above 0
            model.positions=round =>  round: must be one of sinusoidal, sinusoidal-halves
            zebra.crossing.quux=1 => : is not a setting; a path begins with one of seed, data, model";
        for line in table.lines().skip(1) {
            let (setting, expected) = line.trim().split_once(" => ").unwrap();
            let (path, text) = setting.split_once('=').unwrap();
            let error = RunConfig::copy().with(path, text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{path}{expected}")), "{error}");
        }
    }

    #[test]
    fn all_values_have_a_declaration() {
        for preset in crate::config::Preset::all() {
            let config = RunConfig::of_preset(preset.name).unwrap();
            for path in super::super::differences::flat(&config.to_json()).keys() {
                assert!(find(&config.table(), path).is_some(), "{path}");
            }
        }
        let mut paths = std::collections::BTreeSet::new();
        for setting in super::super::all_settings() {
            assert!(!setting.help().is_empty(), "{setting}");
            paths.insert(setting.path);
        }
        assert!(paths.contains("optimization.lora.alpha"));
    }
}
