//! Groups runs that differ in their seed only. They share a line in a plot.

use std::collections::HashSet;

use super::run::Run;

/// Runs that share one line in a plot, and the label of the line.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// Label that tells the group apart from the others, unless the same folder is given twice.
    pub label: String,
    /// The runs; at least one.
    pub runs: Vec<&'a Run>,
}

/// Groups runs that differ in their seed only. If `is_each_alone` is true, each run is a group of
/// its own.
pub fn groups(runs: &[Run], is_each_alone: bool) -> Vec<Group<'_>> {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        let same = |group: &&mut Vec<&Run>| {
            !is_each_alone && group.iter().all(|other| other.differs_in_seed_only(run))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    let firsts: Vec<&Run> = groups.iter().map(|group| group[0]).collect();
    let labelled = labels(&firsts).into_iter().zip(groups);
    labelled
        .map(|(label, runs)| Group { label, runs })
        .collect()
}

/// Returns labels for runs: the positional encodings if all are known and differ, else the names if
/// all differ, else the folders.
fn labels(runs: &[&Run]) -> Vec<String> {
    let positions = |run: &&Run| Some(format!("{} positions", run.positions()?));
    let positions: Option<Vec<String>> = runs.iter().map(positions).collect();
    let names = runs.iter().map(|run| run.name.clone()).collect();
    let folders = runs.iter().map(|run| run.folder.display().to_string());
    let differ = |labels: &Vec<String>| labels.iter().collect::<HashSet<_>>().len() == labels.len();
    let first = positions.into_iter().chain([names]).find(differ);
    first.unwrap_or_else(|| folders.collect())
}

/// Returns the title of a plot of one run or several.
pub fn title(what: &str, groups: &[&Group]) -> String {
    let runs: usize = groups.iter().map(|group| group.runs.len()).sum();
    match groups {
        [group] if runs == 1 => format!("{what}, run {}", group.runs[0].name),
        [_] => format!("{what} of {runs} seeds"),
        _ => format!("{what} of {runs} runs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::run::tests::run;

    #[test]
    fn runs_are_labelled_by_their_difference() {
        let parent = tempfile::tempdir().unwrap();
        let run = |name: &str, positions: &str| run(parent.path(), name, positions, "");
        let labels = |runs: &[Run]| {
            let groups = groups(runs, true);
            let labels = groups.into_iter().map(|group| group.label);
            labels.collect::<Vec<String>>()
        };
        let runs = [run("a/x", "rotary"), run("b/x", "learned")];
        assert_eq!(labels(&runs), ["rotary positions", "learned positions"]);
        let runs = [run("a/x", "rotary"), run("a/y", "rotary")];
        assert_eq!(labels(&runs), ["x", "y"]);
        let runs = [run("a/x", "rotary"), run("b/x", "rotary")];
        let paths = [parent.path().join("a/x"), parent.path().join("b/x")];
        assert_eq!(labels(&runs), paths.map(|path| path.display().to_string()));
    }

    #[test]
    fn runs_that_differ_in_the_seed_only_are_a_group() {
        let parent = tempfile::tempdir().unwrap();
        let runs = [("a", 1), ("b", 2), ("c", 2), ("d", 3)].map(|(name, seed)| {
            let positions = if name == "c" { "none" } else { "rotary" };
            let run = run(parent.path(), name, positions, "");
            let config = format!("{{\"seed\":{seed},\"model\":{{\"positions\":\"{positions}\"}}}}");
            std::fs::write(run.folder.join("config.json"), config).unwrap();
            Run::read(&run.folder).unwrap()
        });
        let grouped = groups(&runs, false);
        let all: Vec<&Group> = grouped.iter().collect();
        let labels: Vec<&str> = all.iter().map(|group| group.label.as_str()).collect();
        assert_eq!(labels, ["rotary positions", "none positions"]);
        assert_eq!(title("Loss", &all), "Loss of 4 runs");
        assert_eq!(title("Loss", &all[..1]), "Loss of 3 seeds");
        assert_eq!(title("Loss", &all[1..]), "Loss, run c");
        assert_eq!(groups(&runs, true).len(), 4);
    }
}
