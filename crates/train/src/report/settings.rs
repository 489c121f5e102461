//! Compares the settings of runs with each other, and with those of their nearest presets.

use std::collections::BTreeSet;

use serde::Serialize;
use training::config::differences::{NearestPreset, Settings, with_sides};
use training::run::RunData;
use training::setting::shown;

use crate::args::flags::fit_words;

/// A setting, with its values in all runs of a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Path in `config.json`, such as `model.d_model`.
    path: String,
    /// Argument of `fit` that changes the setting; `None` if the setting has no flag.
    flag: Option<String>,
    /// Value of each run; `None` where a run has no such setting.
    values: Vec<Option<String>>,
    /// Value of each run's nearest preset; `None` if the run does not differ from it.
    presets: Vec<Option<String>>,
}

/// Compares the settings of runs with each other and with their presets. Settings outside a section
/// come first.
pub fn settings(runs: &[RunData]) -> Vec<Setting> {
    let all = Vec::from_iter(runs.iter().map(|run| with_sides(&run.config)));
    let nearest: Vec<_> = runs.iter().map(RunData::nearest_preset).collect();
    let paths: BTreeSet<&String> = all.iter().flat_map(Settings::keys).collect();
    let mut paths: Vec<&String> = paths.into_iter().collect();
    paths.sort_by_key(|path| path.contains('.'));
    let setting = |path: &String| {
        let value = |run: &Settings| run.get(path).map(shown);
        let preset = |nearest: &Option<NearestPreset>| {
            let nearest = nearest.as_ref()?;
            let value = nearest.preset.get(path).map_or("-".into(), shown);
            nearest.changed.contains_key(path).then_some(value)
        };
        Setting {
            path: path.clone(),
            flag: fit_words(path),
            values: all.iter().map(value).collect(),
            presets: nearest.iter().map(preset).collect(),
        }
    };
    paths.into_iter().map(setting).collect()
}
