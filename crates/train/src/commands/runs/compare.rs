//! `train compare`: show settings that differ, and metrics side by side.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use training::config::differences::{NearestPreset, Settings, differing};
use training::config::setting_at;
use training::data::TASK;
use training::run::{DATA_HASHES, ORIGIN_HASH, RunData, Status, compared_metrics, seed_groups};
use training::setting::Tasks;

use super::shown::{self, shortened};
use crate::args::flags::fit_flag_of;
use crate::args::{different, run_folder};
use crate::metric;
use crate::number::grouped;
use crate::plot::mean_and_deviation;
use crate::terminal::table::Table;
use crate::terminal::{output, width_of};

/// Flags of `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Folders of two or more runs; those that differ only in the seed share a column
    #[arg(value_name = "RUN", required = true, num_args = 2.., value_parser = run_folder())]
    pub runs: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The result of `compare`.
#[derive(Serialize)]
struct Comparison<'a> {
    /// Settings that differ between groups, and do not follow from others.
    settings: Vec<Setting<'a>>,
    groups: Vec<Group<'a>>,
}

/// A setting and its value in each group; `null` where a group does not have it.
#[derive(Serialize)]
struct Setting<'a> {
    path: &'a str,
    flag: Option<&'a str>,
    values: Vec<Value>,
}

/// A group, which is runs that differ in their seed only, and its metrics.
#[derive(Serialize)]
struct Group<'a> {
    /// Heading of its column.
    #[serde(skip)]
    heading: String,
    runs: Vec<&'a str>,
    seeds: Vec<Option<u64>>,
    status: Vec<Status>,
    metrics: BTreeMap<&'static str, Spread>,
}

/// Statistics of a metric over those runs of a group that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Spread {
    mean: f64,
    /// Sample standard deviation; `None` for a single run.
    std: Option<f64>,
    /// Value of each run; `null` for one without the metric.
    values: Vec<Option<f64>>,
}

/// Runs the command.
///
/// # Errors
///
/// A folder that is not a run, or that is named twice.
pub fn run(args: &CompareArgs) -> Result<()> {
    let folders = different(&args.runs)?.into_iter();
    let runs = folders.map(|folder| RunData::summary(folder));
    let runs: Vec<RunData> = runs.collect::<Result<_, _>>()?;
    let of_indices = |group: Vec<usize>| group.into_iter().map(|i| &runs[i]).collect();
    let groups: Vec<Vec<&RunData>> = seed_groups(&runs).into_iter().map(of_indices).collect();
    let comparison = compared(&groups);
    if args.json {
        return output::result(&serde_json::to_string(&comparison)?);
    }
    print(&comparison)?;
    for group in comparison.groups.iter().filter(|it| it.runs.len() > 1) {
        let named = group.runs.iter().zip(&group.seeds).map(|(run, seed)| {
            let seed = seed.map_or("-".into(), |seed| seed.to_string());
            format!("{run} (seed {seed})")
        });
        let (heading, named) = (&group.heading, named.collect::<Vec<_>>().join(", "));
        output::results(&format!(
            "\n{heading}: mean ± standard deviation of {named}"
        ))?;
    }
    Ok(())
}

/// The settings of a model that a run began with.
const ORIGIN: [&str; 3] = [
    ORIGIN_HASH,
    "data.pretrained.source_language",
    "data.pretrained.target_language",
];

/// Returns the value of a setting of a group as it is shown. For the seed of a group of several runs,
/// it is a list with the seed of each run.
fn value(group: &[&RunData], path: &str) -> Value {
    if path == "seed" && group.len() > 1 {
        return group.iter().map(|run| run.seed()).collect();
    }
    let run = group[0];
    let is_of_others = setting_at(path).is_some_and(|it| matches!(it.tasks, Tasks::Synthetic(_)));
    let has_validation = run.config["data"]["valid"]["source"] != "";
    if run.is_of_texts() && (is_of_others || has_validation && path == "data.valid_share") {
        return Value::Null;
    }
    let value = run.settings.get(path).cloned().unwrap_or(Value::Null);
    // The hash of a corpus comes after the name of its file.
    let mut corpora = DATA_HASHES.iter().zip(["train", "valid"]);
    let corpus = corpora.find(|(hash, _)| **hash == path);
    let file = corpus.and_then(|(_, corpus)| run.config["data"][corpus]["source"].as_str());
    match (file, value.as_str()) {
        (Some(""), Some(hash)) => format!("held out {hash}").into(),
        (Some(file), Some(hash)) => {
            let name = Path::new(file).file_name().unwrap_or_default();
            format!("{} {hash}", name.to_string_lossy()).into()
        }
        _ => value,
    }
}

fn compared<'a>(groups: &[Vec<&'a RunData>]) -> Comparison<'a> {
    let first: Vec<&RunData> = groups.iter().map(|group| group[0]).collect();
    let all: Vec<&Settings> = first.iter().map(|run| &run.settings).collect();
    let nearest: Vec<_> = first.iter().map(|run| run.nearest_preset()).collect();
    let chosen = Vec::from_iter(nearest.iter().map(|it| it.as_ref().map(shown::chosen)));
    let origin = |run: &&RunData| ORIGIN.map(|path| run.settings.get(path).cloned());
    let origins = Vec::from_iter(first.iter().map(origin));
    let has_one_origin = origins.windows(2).all(|both| both[0] == both[1]);
    // A setting that differs because the presets do was not chosen, nor was one that follows from
    // another model that a run began with, or from its languages.
    let is_chosen = |path: &&str| {
        let mut chosen = chosen.iter();
        if path.starts_with("data.pretrained.search.") && !has_one_origin {
            return false;
        }
        *path == TASK.path
            || DATA_HASHES.contains(path)
            || setting_at(path).is_none_or(|it| it.is_derived)
            || chosen.any(|chosen| chosen.as_ref().is_none_or(|it| it.contains_key(*path)))
    };
    let setting = |path, flag, values| Setting { path, flag, values };
    let values = |path| groups.iter().map(|it| value(it, path)).collect();
    let paths = differing(&all).into_iter().filter(is_chosen);
    let own = |path| setting(path, fit_flag_of(path), values(path));
    let mut settings: Vec<_> = paths.map(own).collect();
    // The preset of a synthetic task has the task's name.
    let presets = first.iter().zip(&nearest).map(|(run, nearest)| {
        let nearest = nearest.as_ref().filter(|_| run.is_of_texts());
        nearest.map(|nearest| nearest.name).into()
    });
    let origins = Vec::from_iter(first.iter().map(|run| run.origin().into()));
    // A model that `import` has read is not one of `--from`.
    let data = first.iter().map(|run| &run.config["data"]);
    let folders = data.map(|data| &data["pretrained"]["folder"]);
    let from = origins.iter().eq(folders).then_some("--from");
    let preset = ("preset", Some("--preset"), presets.collect());
    let family = |nearest: &Option<NearestPreset>| nearest.as_ref()?.family;
    let families = nearest
        .iter()
        .map(|it| family(it).map(|it| it.to_string()).into());
    let family = ("family", Some("--family"), families.collect());
    for (path, flag, values) in [("from", from, origins), family, preset] {
        if values.iter().any(|value| *value != values[0]) {
            settings.insert(0, setting(path, flag, values));
        }
    }
    let groups = groups.iter().map(|runs| Group::of(runs)).collect();
    Comparison { settings, groups }
}

impl Spread {
    /// Returns the mean and the standard deviation of values; `None` without values.
    fn of(values: Vec<Option<f64>>) -> Option<Self> {
        let found: Vec<f64> = values.iter().copied().flatten().collect();
        let (mean, std) = mean_and_deviation(&found);
        (!found.is_empty()).then(|| Self {
            mean,
            std: (found.len() > 1).then_some(std),
            values,
        })
    }

    /// Formats the mean, and how many of the runs it is of, if not of all.
    fn of_runs(&self, name: &str) -> String {
        let (found, all) = (self.values.iter().flatten().count(), self.values.len());
        let mut shown = self.shown(name);
        if found < all {
            shown += &format!(" ({found} of {all})");
        }
        shown
    }

    /// Formats the mean, and the deviation with as many decimal places.
    fn shown(&self, name: &str) -> String {
        let mean = metric::text(name, self.mean);
        let decimals = mean.split_once('.').map_or(0, |(_, after)| after.len());
        match self.std {
            Some(std) if std > 0.0 && (name == "seconds" || mean.contains('e')) => {
                format!("{mean} ± {}", metric::text(name, std))
            }
            Some(std) if std > 0.0 => {
                format!("{mean} ± {}", grouped(format_args!("{std:.decimals$}")))
            }
            _ => mean,
        }
    }
}

/// Minimum width of the names of settings and metrics, in terminal columns.
const NAMES: usize = 20;

/// Prints the comparison. Groups that do not fit the width of the terminal are printed in further
/// tables below.
fn print(comparison: &Comparison) -> Result<()> {
    let (width, groups) = (width_of(&console::Term::stdout()), comparison.groups.len());
    let fits = |count: &usize| {
        let mut starts = (0..groups).step_by(*count);
        let table = |start| table(comparison, start, *count);
        starts.all(|start| width.is_none_or(|width| table(start).width_with(NAMES) <= width))
    };
    let count = (1..=groups).rev().find(fits).unwrap_or(1);
    for start in (0..groups).step_by(count) {
        if start > 0 {
            output::result("")?;
        }
        let lines = table(comparison, start, count).lines(width);
        lines.iter().try_for_each(|line| output::result(line))?;
    }
    Ok(())
}

/// Returns the table of up to `count` groups, from index `start` on. Settings are named by their
/// flags where possible.
fn table(comparison: &Comparison, start: usize, count: usize) -> Table {
    let range = start..comparison.groups.len().min(start + count);
    let groups = &comparison.groups[range.clone()];
    let columns = groups.iter().map(|group| shortened(&group.heading));
    let headings = ["setting".to_owned()].into_iter().chain(columns);
    let mut table = Table::new(headings).right(1..=range.len()).cutting(0);
    let mut row = |name: &str, cells: Vec<String>| {
        table.push([name.to_owned()].into_iter().chain(cells).collect());
    };
    for setting in &comparison.settings {
        let values = setting.values[range.clone()].iter();
        let values = values.map(|value| shortened(&shown::on_line(setting.path, value)));
        row(setting.flag.unwrap_or(setting.path), values.collect());
    }
    if comparison.settings.is_empty() {
        row("(none differs)", vec![String::new(); range.len()]);
    }
    row("", vec![String::new(); range.len()]);
    row("status", groups.iter().map(Group::status).collect());
    for name in compared_metrics() {
        let has_metric = |group: &Group| group.metrics.contains_key(name);
        if comparison.groups.iter().any(has_metric) {
            let cells = groups.iter().map(|group| {
                let spread = group.metrics.get(name);
                spread.map_or("-".into(), |spread| spread.of_runs(name))
            });
            row(name, cells.collect());
        }
    }
    table
}

impl<'a> Group<'a> {
    fn of(runs: &[&'a RunData]) -> Self {
        let name = &runs[0].name;
        let spread = |metric: &'static str| {
            let values = runs.iter().map(|run| run.metric(metric));
            Some((metric, Spread::of(values.collect())?))
        };
        Self {
            heading: match runs.len() {
                1 => name.clone(),
                seeds => format!("{name}, {seeds} seeds"),
            },
            runs: runs.iter().map(|run| run.name.as_str()).collect(),
            seeds: runs.iter().map(|run| run.seed()).collect(),
            status: runs.iter().map(|run| run.status.status).collect(),
            metrics: compared_metrics().filter_map(spread).collect(),
        }
    }

    /// Returns the status that all runs have, or the number of runs with each status.
    fn status(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for status in &self.status {
            *counts.entry(status.name()).or_default() += 1;
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
    fn a_deviation_has_as_many_decimal_places_as_its_mean() {
        let of = |values: &[f64]| Spread::of(values.iter().copied().map(Some).collect()).unwrap();
        let spread = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.5]);
        assert_eq!(spread.shown("valid_loss"), "5.0625 ± 2.2747");
        let fractions = of(&[0.0, 0.001]);
        assert_eq!(fractions.shown("test_exact_match"), "0.0005 ± 0.0007");
        let seconds = of(&[0.33, 0.43]);
        assert_eq!(seconds.shown("seconds"), "0.38 s ± 0.07 s");
        assert_eq!(of(&[7.0; 3]).shown("steps"), "7");
        let one = Spread::of(vec![Some(3.0), None]).unwrap();
        assert_eq!((one.mean, one.std), (3.0, None));
        assert_eq!(one.of_runs("steps"), "3 (1 of 2)");
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn three_runs_fit_beside_each_other_in_80_columns() {
        let spread = || Spread::of(vec![Some(0.123), Some(0.456)]).unwrap();
        let names = ["a-long-name-of-a-run-1", "a-long-name-of-a-run-2", "b"];
        let group = |name: &'static str| Group {
            heading: name.into(),
            runs: vec![name],
            seeds: vec![None],
            status: vec![Status::Finished],
            metrics: compared_metrics().map(|name| (name, spread())).collect(),
        };
        let comparison = Comparison {
            settings: vec![Setting {
                path: "data.pretrained.folder",
                flag: None,
                values: names
                    .map(|name| format!("/home/user/models/{name}").into())
                    .into(),
            }],
            groups: names.map(group).into(),
        };
        let table = table(&comparison, 0, 3);
        assert!(table.width_with(NAMES) <= 80);
        let lines = table.lines(Some(80));
        let expected =
            "setting               a-long-na…-a-run-1  a-long-na…-a-run-2                   b";
        assert_eq!(lines[0], expected);
    }
}
