//! Reads and changes single settings of a configuration by their paths.

use serde_json::{Map, Value};

use super::RunConfig;
use crate::error::UsageError;

/// Path of the setting that names the task. The task decides which other settings the section
/// `data` has.
pub(super) const TASK: &str = "data.task";

/// Paths of settings, and of groups of settings, that cannot be set, because they follow from the
/// data or from a pretrained model.
const DERIVED: [&str; 12] = [
    "data.tokenizer_sha256",
    "data.data",
    "data.pretrained.vocab_size",
    "data.pretrained.max_tokens",
    "data.pretrained.pad_id",
    "data.pretrained.start_id",
    "data.pretrained.end_id",
    "data.pretrained.search",
    "model.source_vocab_size",
    "model.target_vocab_size",
    "model.max_len",
    "model.pad_id",
];

/// Returns whether a setting follows from the data or from a pretrained model.
pub(super) fn is_derived(path: &str) -> bool {
    DERIVED.iter().any(|&derived| {
        let rest = path.strip_prefix(derived);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Pairs of settings. The first setting has no effect while the second is not null.
const REPLACED: [(&str, &str); 2] = [
    ("optimization.steps", "optimization.epochs"),
    (
        "optimization.schedule.factor",
        "optimization.schedule.learning_rate",
    ),
];

/// Top-level keys of a configuration, in the order of the fields of [`RunConfig`].
const CONCERNS: [&str; 7] = [
    "seed",
    "data",
    "model",
    "optimization",
    "evaluation",
    "checkpointing",
    "execution",
];

/// Maximum number of similar paths that the error about an unknown path suggests. If some paths
/// have the same last key as the unknown path, the error suggests all of these paths instead.
const NEAREST: usize = 3;

impl RunConfig {
    /// Returns the configuration with one setting, or a whole group of settings, changed. `text` is
    /// a JSON value, or a word without quotation marks. A setting that would make the changed
    /// setting ineffective (see [`replaced_by`]) becomes null.
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
    /// If `path` is not the path of a setting that can be set, or the value has the wrong type.
    pub fn with(&self, path: &str, text: &str) -> Result<Self, UsageError> {
        let wrong = |value: &str, expected: String| UsageError::new(path, value, expected);
        if path == TASK || is_derived(path) {
            return Err(wrong("", "follows from the task and its data".into()));
        }
        let mut config = self.to_json();
        let Some(setting) = setting_of(&mut config, path) else {
            return Err(wrong("", not_a_setting(&config, path)));
        };
        if let Value::Object(settings) = &*setting {
            // Some groups accept a single value for all their settings, such as one maximum length
            // for sources and targets.
            let names: Vec<&str> = settings.keys().map(String::as_str).collect();
            let names = names.join(", ");
            let group = wrong("", format!("is a group of settings: {names}"));
            let value: Value = serde_json::from_str(text).map_err(|_| group.clone())?;
            if value.is_object() {
                return Err(group);
            }
            *setting = value;
            return serde_json::from_value(config).map_err(|_| group);
        }
        let json = serde_json::from_str(text).ok();
        let word = || Value::String(text.into());
        let value = match (&*setting, json) {
            (Value::String(_), Some(Value::String(text))) => Value::String(text),
            (Value::String(_), _) => word(),
            (_, Some(json)) => json,
            (_, None) => word(),
        };
        let kind = match (&*setting, &value) {
            (_, Value::Null) => None,
            (Value::Number(old), value) if !value.is_number() => {
                if old.is_u64() {
                    Some("a whole number")
                } else {
                    Some("a number")
                }
            }
            (Value::Bool(_), value) if !value.is_boolean() => Some("true or false"),
            _ => None,
        };
        if let Some(kind) = kind {
            return Err(wrong(text, format!("must be {kind}")));
        }
        *setting = value;
        if let Some(by) = replaced_by(path).and_then(|by| setting_of(&mut config, by)) {
            *by = Value::Null;
        }
        serde_json::from_value(config).map_err(|error| wrong(text, in_words(&error.to_string())))
    }

    /// Returns the configuration as a JSON value, with numbers as short as in a configuration file,
    /// such as 0.98.
    pub fn to_json(&self) -> Value {
        // `serde_json::to_value` would convert `f32` numbers to `f64`: 0.98 would become
        // 0.9800000190734863.
        let json = serde_json::to_string(self).expect("it is plain data");
        serde_json::from_str(&json).expect("it has just been written")
    }

    /// Returns the path and the value of each setting, in the order of the configuration's
    /// sections. Skips settings that follow from the data or from a pretrained model.
    pub fn settings(&self) -> Vec<(String, Value)> {
        let mut settings = Vec::new();
        collect(&self.to_json(), String::new(), &mut settings);
        settings.retain(|(path, _)| !is_derived(path));
        let concern = |path: &str| {
            let root = path.split('.').next().unwrap_or_default();
            CONCERNS.iter().position(|concern| *concern == root)
        };
        settings.sort_by_key(|(path, _)| (concern(path), path != TASK));
        settings
    }
}

/// Translates the message of a `serde` error into words for users, such as "must be a number".
pub(super) fn in_words(error: &str) -> String {
    let of_value = ["invalid type: ", "invalid value: ", "unknown variant "];
    let is_of_value = of_value.iter().any(|begin| error.starts_with(begin));
    let right = error.rsplit_once(", expected ").filter(|_| is_of_value);
    let Some((_, right)) = right else {
        return error.into();
    };
    match right.trim_start_matches("one of ") {
        "usize" | "u64" | "u32" => "must be a whole number".into(),
        "f64" | "f32" => "must be a number".into(),
        words if words.starts_with("must ") => words.into(),
        words if words.starts_with("struct ") => "must be a table of keys".into(),
        words => format!("must be {words}"),
    }
}

/// Returns the path of the setting that, unless it is null, makes the setting at `path`
/// ineffective. For `optimization.steps`, this is `optimization.epochs`. Returns `None` if there is
/// no such setting.
pub fn replaced_by(path: &str) -> Option<&'static str> {
    let found = REPLACED.iter().find(|(replaced, _)| *replaced == path);
    found.map(|(_, by)| *by)
}

/// Makes the settings of a file effective. If a default would make a setting of the file
/// ineffective, sets this default to null, unless the file has a value for it.
pub(super) fn prefer_given(defaults: &mut Value, file: &Map<String, Value>) {
    let has = |path: &str| {
        let (group, key) = path.rsplit_once('.').expect("the setting is in a group");
        let mut groups = group.split('.');
        let first = file.get(groups.next().unwrap_or_default());
        let group = groups.try_fold(first, |group, name| Some(group?.get(name)));
        group
            .flatten()
            .is_some_and(|group| group.get(key).is_some())
    };
    for (replaced, by) in REPLACED {
        if let Some(by) = setting_of(defaults, by).filter(|_| has(replaced) && !has(by)) {
            *by = Value::Null;
        }
    }
}

fn setting_of<'a>(config: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut keys = path.split('.');
    keys.try_fold(config, |value, key| value.get_mut(key))
}

fn collect(value: &Value, path: String, settings: &mut Vec<(String, Value)>) {
    let Value::Object(keys) = value else {
        settings.push((path, value.clone()));
        return;
    };
    for (key, value) in keys {
        let path = match path.as_str() {
            "" => key.clone(),
            _ => format!("{path}.{key}"),
        };
        collect(value, path, settings);
    }
}

/// Returns the message for a path that is not a setting. It names the most similar paths or, if no
/// path is similar, the top-level keys.
fn not_a_setting(config: &Value, path: &str) -> String {
    let mut settings = Vec::new();
    collect(config, String::new(), &mut settings);
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |known: &str| {
        let of_name = strsim::damerau_levenshtein(&last(known), &last(path));
        (of_name, strsim::damerau_levenshtein(known, path))
    };
    let known = settings.iter().map(|(known, _)| known.as_str());
    let mut near: Vec<((usize, usize), &str)> =
        known.map(|known| (distance(known), known)).collect();
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
            let groups = config.as_object().into_iter().flat_map(|keys| keys.keys());
            let groups: Vec<&str> = groups.map(String::as_str).collect();
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
    use crate::config::TextSize;

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
        let by_length = set(
            "evaluation.by_length",
            r#"{"lengths": [3], "sequences": 2}"#,
        );
        assert_eq!(by_length.evaluation.by_length.unwrap().lengths, [3]);
        let text = RunConfig::text(TextSize::Small);
        let sides = text.with("data.max_length", "30").unwrap();
        let sides = sides.with("data.max_length.target", "40").unwrap();
        let lengths = &sides.to_json()["data"]["max_length"];
        assert_eq!(
            (&lengths["source"], &lengths["target"]),
            (&30.into(), &40.into())
        );
        let text = text.with("optimization.steps", "30").unwrap();
        assert_eq!(
            (text.optimization.steps, text.optimization.epochs),
            (30, None)
        );
        assert_eq!(config.with("seed", "0").unwrap(), config);
    }

    #[test]
    fn wrong_paths_and_values_are_explained() {
        for (path, text, expected) in [
            (
                "optimization.beta_2",
                "1",
                ": is not a setting; the nearest is optimization.optimizer.beta_2",
            ),
            (
                "model.d_modle",
                "1",
                ": is not a setting; the nearest is model.d_model",
            ),
            (
                "optimization.optimizer",
                "1",
                ": is a group of settings: beta_1, beta_2, clip_norm, epsilon, kind, weight_decay",
            ),
            ("model.max_len", "9", ": follows from the task and its data"),
            ("model.d_model", "wide", " wide: must be a whole number"),
            ("execution.fused", "1", " 1: must be true or false"),
            ("model.d_model", "1.5", " 1.5: must be a whole number"),
            ("optimization.ema", "much", " much: must be a number"),
            ("model.positions", "round", " round: must be "),
            ("zebra.crossing.quux", "1", ": is not a setting; "),
        ] {
            let error = RunConfig::copy().with(path, text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{path}{expected}")), "{error}");
        }
    }
}
