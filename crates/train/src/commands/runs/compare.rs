//! `train compare`: show settings that differ, and metrics side by side.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use training::config::differences::{Settings, differing, settings};
use training::error::UsageError;
use training::run::Overview;

use super::metrics::Metrics;
use super::shown;
use crate::args::CompareArgs;
use crate::terminal::output;
use crate::terminal::table::{Align, Table, stdout_width};

/// The only setting in which the runs of a group may differ.
const SEED: &str = "seed";

/// Runs that differ in their seed only.
struct Group {
    runs: Vec<Overview>,
    settings: Settings,
}

/// The result of `compare`.
#[derive(Serialize)]
struct Comparison<'a> {
    /// Settings that differ between groups.
    settings: Vec<Setting<'a>>,
    groups: Vec<Compared<'a>>,
}

/// A setting and its value in each group; `null` where a group does not have it.
#[derive(Serialize)]
struct Setting<'a> {
    path: &'a str,
    flag: Option<&'a str>,
    values: Vec<Value>,
}

/// A group and its metrics.
#[derive(Serialize)]
struct Compared<'a> {
    runs: Vec<&'a str>,
    seeds: Vec<Option<u64>>,
    status: Vec<Option<&'static str>>,
    metrics: BTreeMap<&'static str, Spread>,
}

/// Statistics of a metric over those runs of a group that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Spread {
    mean: f64,
    /// Sample standard deviation; `None` for a single run.
    std: Option<f64>,
    values: Vec<f64>,
}

/// Runs the command.
///
/// # Errors
///
/// A folder that is not a run, or that is named twice.
pub fn run(args: &CompareArgs) -> Result<()> {
    let mut runs: Vec<Overview> = Vec::new();
    for folder in &args.runs {
        let run = Overview::read(folder)?;
        let is_same = |other: &Overview| is_same_folder(&other.folder, folder);
        if runs.iter().any(is_same) {
            let what = "is named twice; name different runs";
            return Err(UsageError::new("RUN", folder.display(), what).into());
        }
        runs.push(run);
    }
    let groups = grouped(runs);
    let comparison = compared(&groups);
    if args.json {
        return output::result(&serde_json::to_string(&comparison)?);
    }
    let headings: Vec<String> = groups.iter().map(Group::heading).collect();
    print(&comparison, &headings)?;
    for group in groups.iter().filter(|group| group.runs.len() > 1) {
        let named = group.runs.iter().map(|run| match run.seed() {
            Some(seed) => format!("{} (seed {seed})", run.name),
            None => run.name.clone(),
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let heading = group.heading();
        let what = "mean ± standard deviation";
        output::result(&format!("\n{heading}: {what} of {named}"))?;
    }
    Ok(())
}

fn is_same_folder(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
    whole(a) == whole(b)
}

/// Groups runs that differ in their seed only, in the order of the first run of each group.
///
/// Runs with the same seed are never in one group, because the mean of a group must be a mean over
/// seeds.
fn grouped(runs: Vec<Overview>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for run in runs {
        let settings = settings(&run.config);
        let is_alike = |group: &&mut Group| {
            let paths = differing(&[&group.settings, &settings]);
            let has_seed = group.runs.iter().any(|other| other.seed() == run.seed());
            !has_seed && paths.iter().all(|path| *path == SEED)
        };
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group {
                runs: vec![run],
                settings,
            }),
        }
    }
    groups
}

impl Group {
    fn heading(&self) -> String {
        match &self.runs[..] {
            [run] => run.name.clone(),
            [first, others @ ..] => format!("{} +{}", first.name, others.len()),
            [] => unreachable!("a group has a run"),
        }
    }

    /// Returns the value of a setting. For the seed of a group of several runs, the value is a list
    /// with the seed of each run.
    fn value(&self, path: &str) -> Value {
        match &self.runs[..] {
            [_, _, ..] if path == SEED => self.runs.iter().map(Overview::seed).collect(),
            _ => self.settings.get(path).cloned().unwrap_or(Value::Null),
        }
    }

    fn compared(&self) -> Compared<'_> {
        let metrics: Vec<Metrics> = self.runs.iter().map(Metrics::of).collect();
        let spread = |name: &'static str| {
            let values = metrics.iter().filter_map(|metrics| metrics.get(name));
            Some((name, Spread::of(values.collect())?))
        };
        let status = |run: &Overview| run.status.map(|status| status.name());
        Compared {
            runs: self.runs.iter().map(|run| run.name.as_str()).collect(),
            seeds: self.runs.iter().map(Overview::seed).collect(),
            status: self.runs.iter().map(status).collect(),
            metrics: Metrics::NAMES.into_iter().filter_map(spread).collect(),
        }
    }
}

fn compared(groups: &[Group]) -> Comparison<'_> {
    let all: Vec<&Settings> = groups.iter().map(|group| &group.settings).collect();
    let settings = differing(&all).into_iter().map(|path| Setting {
        path,
        flag: shown::flag(path),
        values: groups.iter().map(|group| group.value(path)).collect(),
    });
    Comparison {
        settings: settings.collect(),
        groups: groups.iter().map(Group::compared).collect(),
    }
}

impl Spread {
    /// Returns the mean and the standard deviation of values; `None` without values.
    fn of(values: Vec<f64>) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2));
        let variance = squares.sum::<f64>() / (count - 1.0);
        (!values.is_empty()).then(|| Self {
            mean,
            std: (values.len() > 1).then(|| variance.sqrt()),
            values,
        })
    }

    fn shown(&self, name: &str) -> String {
        let is_fraction = name.ends_with("exact_match") || name.ends_with("accuracy");
        let number = match name {
            "seconds" => shown::seconds,
            _ if is_fraction => shown::fraction,
            _ => shown::number,
        };
        let are_equal = self.values.iter().all(|value| *value == self.values[0]);
        match self.std {
            Some(std) if !are_equal => format!("{} ± {}", number(self.mean), number(std)),
            _ => number(self.mean),
        }
    }
}

/// Prints the comparison. Groups that do not fit the width of the terminal are printed in further
/// tables below.
fn print(comparison: &Comparison, headings: &[String]) -> Result<()> {
    let width = stdout_width();
    let fits = |count: &usize| {
        let mut starts = (0..headings.len()).step_by(*count);
        let table = |start| table(comparison, headings, start, *count);
        starts.all(|start| width.is_none_or(|width| table(start).natural_width() <= width))
    };
    let count = (1..=headings.len()).rev().find(fits).unwrap_or(1);
    for start in (0..headings.len()).step_by(count) {
        if start > 0 {
            output::result("")?;
        }
        let lines = table(comparison, headings, start, count).lines(width);
        lines.iter().try_for_each(|line| output::result(line))?;
    }
    Ok(())
}

/// Returns the table of up to `count` groups, from index `start` on.
fn table(comparison: &Comparison, headings: &[String], start: usize, count: usize) -> Table {
    let end = headings.len().min(start + count);
    let columns = headings[start..end].iter().cloned();
    let first = [("setting", Align::Left), ("flag", Align::Left)];
    let first = first.map(|(name, align)| (name.to_owned(), align));
    let columns = first
        .into_iter()
        .chain(columns.map(|name| (name, Align::Right)));
    let mut table = Table::new(columns).cutting(0);
    for setting in &comparison.settings {
        let values = setting.values[start..end].iter().map(shown::value);
        let names = [setting.path, setting.flag.unwrap_or_default()].map(String::from);
        table.push(names.into_iter().chain(values).collect());
    }
    if comparison.settings.is_empty() {
        let mut row = vec!["(none differs)".to_owned()];
        row.resize(2 + end - start, String::new());
        table.push(row);
    }
    table.push_gap();
    let groups = &comparison.groups[start..end];
    let mut row = |name: &str, cells: Vec<String>| {
        let names = [name.to_owned(), String::new()];
        table.push(names.into_iter().chain(cells).collect());
    };
    row("status", groups.iter().map(Compared::status).collect());
    for name in Metrics::NAMES {
        if comparison
            .groups
            .iter()
            .any(|group| group.metrics.contains_key(name))
        {
            let cell = |group: &Compared| {
                let spread = group.metrics.get(name);
                spread.map_or("-".into(), |spread| spread.shown(name))
            };
            row(name, groups.iter().map(cell).collect());
        }
    }
    table
}

impl Compared<'_> {
    /// Returns the status that all runs have, or the number of runs with each status.
    fn status(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for status in &self.status {
            *counts.entry(status.unwrap_or("unknown")).or_default() += 1;
        }
        let shown = counts.iter().map(|(status, count)| match counts.len() {
            1 => (*status).to_owned(),
            _ => format!("{count} {status}"),
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_the_sample_standard_deviation() {
        let spread = Spread::of(vec![2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(spread.mean, 5.0);
        assert!((spread.std.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(spread.shown("valid_loss"), "5 ± 2.1381");
        let fractions = Spread::of(vec![0.0, 0.001]).unwrap();
        assert_eq!(fractions.shown("test_exact_match"), "0.0005 ± 0.0007");
        assert_eq!(Spread::of(vec![7.0; 3]).unwrap().shown("steps"), "7");
        let one = Spread::of(vec![3.0]).unwrap();
        assert_eq!((one.mean, one.std), (3.0, None));
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
