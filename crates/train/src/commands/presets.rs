//! `train presets`: list the default settings of tasks and presets.

use anyhow::Result;
use serde_json::{Map, Value};
use training::config::{Preset, RunConfig};

use crate::args::PresetsArgs;
use crate::args::flags::{fit_words, flag_of};
use crate::terminal::output;

/// Prints tables of the settings that differ between presets, or all settings of a preset. As JSON,
/// prints all settings of every preset, or of one.
///
/// # Errors
///
/// If stdout cannot be written.
pub(super) fn run(args: &PresetsArgs) -> Result<()> {
    match (&args.preset, args.json) {
        (Some(name), true) => output::result(&serde_json::to_string_pretty(&config(name))?),
        (Some(name), false) => print_one(&config(name)),
        (None, true) => {
            let all = Preset::all().into_iter();
            let all = all.map(|preset| (preset.name.into(), config(preset.name).to_json()));
            let all: Map<String, Value> = all.collect();
            output::result(&serde_json::to_string_pretty(&all)?)
        }
        (None, false) => print_all(),
    }
}

fn config(name: &str) -> RunConfig {
    RunConfig::of_preset(name).expect("the parser knows presets only")
}

/// Prints a line for each setting: its path, its value, and what sets it on the command line of
/// `fit`, as far as [`fit_words`] knows.
fn print_one(config: &RunConfig) -> Result<()> {
    let settings = config.settings();
    let width = |column: fn(&(String, Value)) -> usize| settings.iter().map(column).max();
    let paths = width(|(path, _)| path.len()).unwrap_or_default();
    let values = width(|(_, value)| words(value).len()).unwrap_or_default();
    for (path, value) in &settings {
        let flag = fit_words(path).unwrap_or_default();
        let line = format!("{path:paths$}  {:values$}  {flag}", words(value));
        output::result(line.trim_end())?;
    }
    Ok(())
}

/// Prints a table of the presets of synthetic tasks and a table of the presets for texts.
fn print_all() -> Result<()> {
    let presets = Preset::all().into_iter().map(|preset| {
        let rows = rows_of(&config(preset.name));
        (preset.name, rows)
    });
    let presets: Vec<(&str, Rows)> = presets.collect();
    let is_of_text = |(_, rows): &&(&str, Rows)| value(rows, "--batch-tokens") != "-";
    let tasks: Vec<_> = presets
        .iter()
        .filter(|preset| !is_of_text(preset))
        .collect();
    let texts: Vec<_> = presets.iter().filter(is_of_text).collect();
    print_table("--task, --preset", &tasks, &texts)?;
    output::result("")?;
    print_table("--preset for text", &texts, &tasks)?;
    output::result("\n`train presets NAME` lists all settings of a preset.")
}

/// Settings of a preset as pairs of a label and a value. The label is the flag that sets the
/// setting. Without such a flag, the label is the last part of the setting's path.
type Rows = Vec<(String, String)>;

fn rows_of(config: &RunConfig) -> Rows {
    /// Path of the peak learning rate. No preset sets it, so its line shows the computed peak.
    const RATE: &str = "optimization.schedule.learning_rate";
    let is_text = config.optimization.epochs.is_some();
    // In a preset with epochs, the number of steps follows from the epochs, and `--batch-tokens`
    // limits the batches. The settings for steps and batch size have no effect, so they are hidden.
    let hidden = if is_text {
        &["optimization.steps", "optimization.batch_size", RATE][..]
    } else {
        &["optimization.epochs", RATE][..]
    };
    let mut rows: Rows = Vec::new();
    for (path, value) in config.settings() {
        // The settings in `of_sides` are equal for source and target in all presets, so the table
        // has one line for both sides.
        let (parent, side) = path.rsplit_once('.').unwrap_or(("", &path));
        let is_side = ["source", "target"].contains(&side);
        let of_sides = ["max_length", "vocab_size", "or_fewer"];
        let is_shared = is_side && of_sides.iter().any(|name| parent.ends_with(name));
        let path = if is_shared { parent } else { &path };
        let name = path.rsplit('.').next().unwrap_or_default();
        let label = flag_of(path).unwrap_or(name);
        let is_known = rows.iter().any(|(known, _)| known == label);
        if path != "data.task" && !is_known && !hidden.contains(&path) {
            rows.push((label.into(), words(&value)));
        }
    }
    let peak = config.optimization.schedule.peak(config.model.d_model);
    rows.push(("--learning-rate".into(), format!("{peak:.2e}")));
    rows
}

fn value<'a>(rows: &'a Rows, label: &str) -> &'a str {
    let row = rows.iter().find(|(known, _)| known == label);
    row.map_or("-", |(_, value)| value)
}

/// Prints a table with a column for each of `presets`, and a line for each setting whose value is
/// not the same in all of `presets` and `others`.
///
/// `others` are the presets of the other table. Those without a value for a setting do not count.
fn print_table(title: &str, presets: &[&(&str, Rows)], others: &[&(&str, Rows)]) -> Result<()> {
    let mut labels: Vec<&str> = Vec::new();
    for (label, _) in presets.iter().flat_map(|(_, rows)| rows) {
        let here: Vec<&str> = presets.iter().map(|(_, rows)| value(rows, label)).collect();
        let mut elsewhere = others.iter().map(|(_, rows)| value(rows, label));
        let is_other = |value: &str| value != here[0];
        let differs = here.iter().any(|value| is_other(value))
            || elsewhere.any(|value| value != "-" && is_other(value));
        if differs && !labels.contains(&label.as_str()) {
            labels.push(label);
        }
    }
    let first = labels
        .iter()
        .map(|label| label.len())
        .chain([title.len()])
        .max();
    let first = first.unwrap_or_default();
    let width = |(name, rows): &(&str, Rows)| {
        let values = labels.iter().map(|label| value(rows, label).len());
        values.chain([name.len()]).max().unwrap_or_default()
    };
    let line = |label: &str, cell: &dyn Fn(&(&str, Rows)) -> String| {
        let cells = presets
            .iter()
            .map(|preset| format!("  {:>1$}", cell(preset), width(preset)));
        output::result(&format!("{label:first$}{}", cells.collect::<String>()))
    };
    line(title, &|(name, _)| (*name).into())?;
    for label in &labels {
        line(label, &|(_, rows)| value(rows, label).into())?;
    }
    Ok(())
}

/// Formats a value in the form that `--set` reads, or as `-` if it is null or empty.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "-".into(),
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}
