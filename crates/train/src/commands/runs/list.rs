//! `train runs`: list the runs in a folder as a table.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use training::config::differences::FINE_TUNING;
use training::error::UsageError;
use training::run::layout::CONFIG;
use training::run::{RunData, compared_metrics, rfc3339, run_folders};

use super::shown;
use crate::args::flags::describe;
use crate::args::{name_of, run_folder};
use crate::metric;
use crate::number::seconds;
use crate::terminal::table::Table;
use crate::terminal::{output, width_of};

/// Flags of `runs`.
#[derive(Clone, Debug, Args)]
pub struct RunsArgs {
    /// Folder whose runs are listed, or the folder of a single run
    #[arg(value_name = "DIR", default_value = "runs", value_parser = run_folder())]
    pub folder: PathBuf,
    /// Column that decides the order
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t = Column::Changed)]
    pub sort: Column,
    /// Print one JSON object per run, with the settings that differ from the preset
    #[arg(long)]
    pub json: bool,
}

/// Column that decides the order of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// When training last changed the folder, the newest first
    Changed,
    /// Name of the folder; copy-2 comes before copy-10
    Name,
    /// Name of the task
    Task,
    /// Steps taken, the most first
    Steps,
    /// Best score, grouped by metric
    Best,
    /// Seconds of training, the most first
    Time,
    /// running, stopped, imported, finished, diverged, failed, killed, in this order
    Status,
}

/// Width of the settings below which other columns are left out, in terminal columns.
const SETTINGS: usize = 20;

/// Runs the command.
///
/// # Errors
///
/// A folder that cannot be read, or that has no run.
pub fn run(args: &RunsArgs) -> Result<()> {
    let parent = &args.folder;
    let is_run = parent.join(CONFIG).exists();
    let folders = if is_run {
        vec![parent.clone()]
    } else {
        run_folders(parent).map_err(|error| {
            let what = if parent.exists() {
                format!("cannot be read ({error}); name a folder of runs")
            } else {
                "does not exist; name a folder of runs".into()
            };
            UsageError::new("DIR", parent.display(), what)
        })?
    };
    let mut runs = Vec::new();
    for folder in &folders {
        match RunData::summary(folder) {
            Ok(run) => runs.push(run),
            Err(error) if is_run => return Err(error.into()),
            Err(error) => output::note(&format!("skipped {}", describe(&error.into()))),
        }
    }
    if runs.is_empty() {
        let what = "has no run that can be read; `train` trains one, and --run-dir says where";
        return Err(UsageError::new("DIR", parent.display(), what).into());
    }
    sort(&mut runs, args.sort);
    if args.json {
        let mut records = runs.iter().map(record);
        return records.try_for_each(|record| output::result(&record.to_string()));
    }
    let headings = "name task settings steps best time status".split(' ');
    // What tells runs apart comes first, because the column may be cut.
    let mut words: Vec<Vec<String>> = runs.iter().map(settings).collect();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for word in words.iter().flatten() {
        *counts.entry(word.clone()).or_default() += 1;
    }
    for words in &mut words {
        words.sort_by_key(|word| counts[word]);
    }
    let width = width_of(&console::Term::stdout());
    let mut table = Table::new(headings).right([3, 5]).cutting(2);
    for (run, words) in runs.iter().zip(&words) {
        let mut row = row(run, words.join(" "));
        if width.is_some() {
            row[0] = shown::shortened(&row[0]);
        }
        table.push(row);
    }
    let sorted = name_of(args.sort);
    for name in ["task", "time"].into_iter().filter(|name| *name != sorted) {
        if width.is_some_and(|width| table.width_with(SETTINGS) > width) {
            table = table.without(name);
        }
    }
    output::results(&table.lines(width).join("\n"))
}

fn sort(runs: &mut [RunData], by: Column) {
    // Runs with equal values in the column stay sorted by their names.
    runs.sort_by_cached_key(|it| natural(&it.name));
    match by {
        Column::Name => {}
        Column::Changed => runs.sort_by_key(|it| Reverse(it.changed)),
        Column::Task => runs.sort_by(|a, b| a.task().cmp(b.task())),
        Column::Steps => runs.sort_by_key(|it| Reverse(it.status.step)),
        Column::Best => runs.sort_by(by_best),
        Column::Time => {
            let seconds = |run: &RunData| run.metric("seconds").unwrap_or(-1.0);
            runs.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
        }
        Column::Status => runs.sort_by_key(|it| it.status.status as u8),
    }
}

/// Orders runs by the name of the metric that decides their best evaluation, then by its value, the
/// best first. Runs without a best evaluation come last.
fn by_best(a: &RunData, b: &RunData) -> Ordering {
    let (a, b) = match (a.best, b.best) {
        (Some(a), Some(b)) => (a, b),
        (a, b) => return a.is_none().cmp(&b.is_none()),
    };
    let better_first = a.by.compare(b.value, a.value);
    a.field().cmp(b.field()).then(better_first)
}

/// Splits a name into texts and numbers, so that `copy-2` comes before `copy-10`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let chars: Vec<char> = name.chars().collect();
    let parts = chars.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    let parts = parts.map(|part| {
        let part: String = part.iter().collect();
        match part.parse() {
            Ok(number) => (String::new(), number),
            Err(_) => (part, 0),
        }
    });
    parts.collect()
}

fn row(run: &RunData, settings: String) -> Vec<String> {
    let best = run.best.map(|best| metric::named(best.field(), best.value));
    vec![
        run.name.clone(),
        run.task().into(),
        settings,
        metric::steps(&run.status),
        best.unwrap_or("-".into()),
        run.metric("seconds").map_or("-".into(), seconds),
        run.status.status.to_string(),
    ]
}

/// Returns the settings that differ from the preset, as flags if possible.
fn settings(run: &RunData) -> Vec<String> {
    let Some(nearest) = run.nearest_preset() else {
        return Vec::new();
    };
    let mut words = Vec::new();
    let origin = run.origin();
    match nearest.name {
        FINE_TUNING => words.push(format!("--from {}", origin.unwrap_or_default())),
        preset if run.is_of_texts() => words.push(format!("--preset {preset}")),
        _ => words.extend(origin.map(|file| format!("imported from {file}"))),
    }
    words.extend(nearest.family.map(|family| format!("--family {family}")));
    let chosen = shown::chosen(&nearest);
    let chosen = chosen.iter();
    words.extend(chosen.map(|(path, value)| shown::setting(path, value)));
    words
}

/// Returns the run in the form of its JSON output. The time at which training last changed the
/// folder is in UTC and in the format of RFC 3339.
fn record(run: &RunData) -> Value {
    let nearest = run.nearest_preset();
    let nearest = nearest.as_ref();
    let metric = |name| Some((name, run.metric(name)?));
    let metrics: BTreeMap<&str, f64> = compared_metrics().filter_map(metric).collect();
    let best = run.best.map(|best| {
        let field = best.field();
        json!({"metric": field, "value": best.value, "step": best.step})
    });
    json!({
        "name": run.name,
        "folder": run.folder.to_string_lossy(),
        "task": run.task(),
        "preset": nearest.map(|nearest| nearest.name),
        "family": nearest.and_then(|nearest| nearest.family).map(|family| family.to_string()),
        "settings": nearest.map(|nearest| &nearest.changed),
        "seed": run.seed(),
        "step": run.status.step,
        "steps": run.status.steps,
        "best": best,
        "seconds": run.metric("seconds"),
        "status": run.status.status,
        "reason": run.status.reason,
        "changed": run.changed.and_then(rfc3339),
        "metrics": metrics,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_by_their_numbers() {
        let mut names = ["copy-10", "copy-2", "add-3", "copy", "copy-2b"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["add-3", "copy", "copy-2", "copy-2b", "copy-10"]);
    }
}
