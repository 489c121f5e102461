//! `train init`: print a commented file of settings.

use anyhow::Result;
use clap::CommandFactory;
use serde_json::Value;
use training::config::{RunConfig, replaced_by};
use training::data::DataConfig;

use crate::args::flags::flag_of;
use crate::args::{Cli, InitArgs};
use crate::terminal::output;

/// Descriptions of settings that have no flag, or whose flag has a help text that does not fit a
/// file of settings.
const DESCRIPTIONS: &[(&str, &str)] = &[
    ("data.task", "Task to learn"),
    (
        "data.train.source",
        "Required: source texts to train on, one per line, or pairs in one file",
    ),
    (
        "data.train.target",
        "Their translations, line by line; leave it out for pairs in one file",
    ),
    (
        "data.valid.source",
        "Source texts of the validation split; without them, pairs of data.train are held out",
    ),
    ("data.valid.target", "Their translations, line by line"),
    (
        "data.tokenizer.or_fewer.source",
        "Whether sources with fewer tokens get a smaller vocabulary",
    ),
    (
        "data.tokenizer.or_fewer.target",
        "Whether targets with fewer tokens get a smaller vocabulary",
    ),
    (
        "data.tokenizer.source_file",
        "A tokenizer.json for sources, instead of a trained one",
    ),
    (
        "data.tokenizer.target_file",
        "A tokenizer.json for targets, instead of a trained one",
    ),
    ("model.n_encoder_layers", "Number of layers in the encoder"),
    ("model.n_decoder_layers", "Number of layers in the decoder"),
    (
        "model.final_norm",
        "Whether encoder and decoder end with a layer norm",
    ),
    ("model.norm_epsilon", "Epsilon of the layer norms"),
    (
        "model.d_kv",
        "Dimensions of an attention head; without it, d_model / n_heads",
    ),
    (
        "model.n_kv_heads",
        "Heads of keys and values, each shared by a group of heads; without it, n_heads",
    ),
    ("model.norm", "Normalisation of the blocks: layer or rms"),
    (
        "model.embedding_norm",
        "Whether the sum of embeddings and positions is normalised",
    ),
    ("model.biases", "Whether linear layers add a bias"),
    ("model.logits_bias", "Whether the generator adds a bias"),
    (
        "model.scale_attention",
        "Whether scores are divided by the square root of the head's dimensions",
    ),
    (
        "model.relative_buckets",
        "Number of distances that relative positions tell apart",
    ),
    (
        "model.relative_max_distance",
        "Distance from which relative positions treat all alike",
    ),
    (
        "model.scale_logits",
        "Whether states are divided by the square root of the width before the generator",
    ),
    (
        "model.norm_variance",
        "Divisor of the layer norms' variance: biased or unbiased",
    ),
    (
        "model.scale_embeddings",
        "Whether embeddings are multiplied by the square root of the width",
    ),
    (
        "optimization.steps",
        "Training steps; with epochs, they follow from the epochs",
    ),
    (
        "optimization.schedule.factor",
        "Without learning_rate, the peak is factor / sqrt(d_model * warmup)",
    ),
    (
        "optimization.optimizer.beta_1",
        "Decay of the first moment of Adam",
    ),
    (
        "optimization.optimizer.beta_2",
        "Decay of the second moment of Adam",
    ),
    (
        "optimization.optimizer.epsilon",
        "Number that is added to the root of the second moment",
    ),
    (
        "evaluation.validation_size",
        "Number of sequences of the validation split in an evaluation",
    ),
    (
        "evaluation.test_size",
        "Number of sequences that are decoded at the end",
    ),
    (
        "evaluation.by_length",
        "Evaluation by length at the end: { lengths = [4, 8], sequences = 250 }",
    ),
    (
        "execution.backend",
        "Backend and device; without it, the default of `train backends`",
    ),
    (
        "execution.fused",
        "Whether operations take their fast paths",
    ),
];

/// Prints the settings of a task or preset as TOML. Each setting has a comment that describes it.
///
/// # Errors
///
/// If stdout cannot be written.
pub(super) fn run(args: &InitArgs) -> Result<()> {
    let (config, call) = match (&args.preset, &args.task) {
        (Some(preset), _) => (RunConfig::of_preset(preset), format!("--preset {preset}")),
        (None, task) => {
            let task = task.as_deref().unwrap_or("copy");
            (RunConfig::of_task(task), format!("--task {task}"))
        }
    };
    let config = config.expect("the parsers know tasks and presets only");
    output::result(file_of(&config, &call).trim_end())
}

/// Returns the text of a TOML file of settings. Its heading contains `call`, the flags of `train
/// fit` that give the same settings.
fn file_of(config: &RunConfig, call: &str) -> String {
    let mut text = format!(
        "# Settings of `train fit {call}`. Train with them:\n#\n#     train fit --config FILE\n#\n\
         # A setting that is left out has the default of the task. Flags override the file.\n"
    );
    let mut group = "";
    let all = config.settings();
    let mut settings = all.clone();
    // The batch size has no effect on texts, whose batches are limited by their tokens.
    let is_text = matches!(config.data, DataConfig::Text(_));
    settings.retain(|(path, _)| !is_text || path != "optimization.batch_size");
    // In TOML, the settings of a table come before its sub-tables.
    let concern = |path: &str| path.split('.').next().map(String::from);
    let concerns: Vec<Option<String>> = settings.iter().map(|(path, _)| concern(path)).collect();
    let depth = |path: &str| path.matches('.').count();
    settings.sort_by_cached_key(|(path, _)| {
        let of_path = concerns.iter().position(|other| *other == concern(path));
        (of_path, depth(path), group_of(path).to_owned())
    });
    for (path, value) in &settings {
        if group_of(path) != group {
            group = group_of(path);
            text += &format!("\n[{group}]\n");
        } else {
            text += "\n";
        }
        text += &format!("# {}\n", description(path));
        let name = path.rsplit('.').next().unwrap_or(path);
        let is_replaced = replaced_by(path).is_some_and(|by| {
            let by = all.iter().find(|(path, _)| path == by);
            by.is_some_and(|(_, value)| !value.is_null())
        });
        let is_unset = value.is_null() || value.as_str() == Some("") || is_replaced;
        text += &if is_unset {
            format!("# {name} =\n")
        } else {
            format!("{name} = {}\n", toml(value))
        };
    }
    text
}

fn group_of(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(group, _)| group)
}

/// Formats a value as TOML. Objects become inline tables, and all other values have the same form
/// as in JSON.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(keys) => {
            let keys = keys.iter();
            let keys = keys.map(|(key, value)| format!("{key} = {}", toml(value)));
            format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns the description of a setting: its entry in [`DESCRIPTIONS`], else the help of its flag.
/// If `fit` has the flag, the flag follows in parentheses.
fn description(path: &str) -> String {
    let known = DESCRIPTIONS.iter().find(|(known, _)| *known == path);
    let flag = flag_of(path).filter(|flag| flag.starts_with("--"));
    let text = match (known, flag) {
        (Some((_, text)), _) => (*text).to_owned(),
        (None, Some(flag)) => help_of(flag),
        (None, None) => String::new(),
    };
    match flag {
        Some(flag) if is_flag_of_fit(flag) => format!("{text} ({flag})"),
        _ => text,
    }
}

/// Returns the help of a flag of `fit`, without its default. Returns an empty text if `fit` does
/// not have the flag.
fn help_of(flag: &str) -> String {
    let cli = Cli::command();
    let fit = cli.find_subcommand("fit").expect("it is a command");
    let arg = fit
        .get_arguments()
        .find(|arg| arg.get_long() == Some(flag.trim_start_matches("--")));
    let help = arg.and_then(|arg| arg.get_help()).map(ToString::to_string);
    let help = help.unwrap_or_default();
    help.split(" [default").next().unwrap_or_default().into()
}

fn is_flag_of_fit(flag: &str) -> bool {
    !help_of(flag).is_empty()
}

#[cfg(test)]
mod tests {
    use training::config::{Preset, file};

    use super::*;

    #[test]
    fn every_preset_survives_a_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        for preset in Preset::all() {
            let config = RunConfig::of_preset(preset.name).unwrap();
            let path = folder.path().join(format!("{}.toml", preset.name));
            std::fs::write(&path, file_of(&config, "")).unwrap();
            assert_eq!(file::read(&path).unwrap(), config, "{}", preset.name);
        }
    }

    #[test]
    fn every_setting_is_described() {
        for preset in Preset::all() {
            for (path, _) in RunConfig::of_preset(preset.name).unwrap().settings() {
                let text = description(&path);
                assert!(text.len() > 10 && !text.starts_with(' '), "{path}: {text}");
            }
        }
    }
}
