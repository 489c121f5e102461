//! `train presets`: list the presets, or print one as a file of settings.

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use training::config::{Preset, RunConfig};
use training::data::DataConfig;
use training::setting::{Setting, Tasks, shown};

use crate::args::preset;
use crate::terminal::output;

/// Flags of `presets`.
#[derive(Clone, Debug, Args)]
pub struct PresetsArgs {
    /// Preset whose settings are printed as TOML [default: a list of all presets]
    #[arg(value_parser = preset())]
    pub preset: Option<String>,
}

/// Prints the names of all presets with their descriptions, or the settings of one as TOML.
///
/// # Errors
///
/// If stdout cannot be written.
pub(super) fn run(args: &PresetsArgs) -> Result<()> {
    if let Some(name) = &args.preset {
        let config = RunConfig::of_preset(name).expect("the parser knows presets only");
        return output::results(&file_of(&config, name));
    }
    for Preset { name, summary, .. } in Preset::all() {
        output::results(&format!("{name:<15} {summary}"))?;
    }
    output::results("\n`train presets NAME > run.toml` writes all settings for `fit --config`.")
}

/// Returns the text of a TOML file with the settings of a preset. Each has a comment that describes
/// it.
fn file_of(config: &RunConfig, name: &str) -> String {
    let mut text = format!(
        "# Settings of the preset {name}. Train with them:\n#\n#     train fit --config FILE\n#\n\
         # A setting that is left out has the default of the task. Flags override the file.\n"
    );
    let all = config.settings();
    let is_text = matches!(config.data, DataConfig::Text(_));
    let has_effect = |setting: &Setting| match setting.tasks {
        Tasks::All => true,
        Tasks::Text(_) => is_text,
        Tasks::Synthetic(_) => !is_text,
    };
    let mut settings: Vec<_> = all.iter().filter(|(it, _)| has_effect(it)).collect();
    // In TOML, the settings of a table come before its sub-tables.
    let section = |path: &'static str| path.split('.').next();
    let sections: Vec<_> = settings.iter().map(|(it, _)| section(it.path)).collect();
    settings.sort_by_cached_key(|(it, _)| {
        let of_path = sections.iter().position(|other| *other == section(it.path));
        (of_path, it.path.matches('.').count(), group_of(it))
    });
    let mut group = "";
    for (setting, value) in settings {
        if group_of(setting) != group {
            group = group_of(setting);
            text += &format!("\n[{group}]\n");
        } else {
            text += "\n";
        }
        let flag = setting.flag.map(|flag| format!(" ({})", flag.name));
        text += &format!("# {}{}\n", setting.help(), flag.unwrap_or_default());
        let is_replaced = setting.replaced_by.is_some_and(|by| {
            let mut all = all.iter();
            all.any(|(known, value)| *known == by && !value.is_null())
        });
        let name = setting.key();
        text += &if value.is_null() || value.as_str() == Some("") || is_replaced {
            format!("# {name} =\n")
        } else {
            format!("{name} = {}\n", toml(value))
        };
    }
    text
}

fn group_of(setting: &Setting) -> &'static str {
    setting.path.rsplit_once('.').map_or("", |(group, _)| group)
}

/// Formats a value as TOML. All values but those of two different sides have the form of JSON.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(sides) if sides["source"] == sides["target"] => shown(value),
        Value::Object(sides) => {
            let [source, target] = ["source", "target"].map(|side| &sides[side]);
            format!("{{ source = {source}, target = {target} }}")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use training::config::file;

    use super::*;

    #[test]
    fn every_preset_survives_a_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        for preset in Preset::all() {
            let config = RunConfig::of_preset(preset.name).unwrap();
            let path = folder.path().join(format!("{}.toml", preset.name));
            std::fs::write(&path, file_of(&config, preset.name)).unwrap();
            assert_eq!(file::read(&path).unwrap(), config, "{}", preset.name);
        }
    }
}
