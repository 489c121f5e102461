//! Finds the source lengths that runs were trained on. A plot by length shades these lengths.

use serde::Deserialize;
use serde_json::Value;
use training::data::DataConfig;

use super::group::Group;
use super::line_chart::Band;
use super::run::Run;

/// Returns the shaded part of a plot by length; `None` unless all groups were trained on the same
/// lengths.
pub fn band(groups: &[&Group]) -> Option<Band> {
    let mut trained = groups.iter().map(|group| trained_lengths(group));
    let (from, to) = trained.next()??;
    trained
        .all(|range| range == Some((from, to)))
        .then(|| Band {
            label: format!("trained on (length {from} to {to})"),
            from: from as f64 - 0.5,
            to: to as f64 + 0.5,
        })
}

/// Returns the shortest and the longest length that any run of a group was trained on; `None` if
/// they are not known for any run.
pub fn trained_lengths(group: &Group) -> Option<(usize, usize)> {
    let ranges = group.runs.iter().filter_map(|run| lengths_of(run));
    ranges.reduce(|(from, to), (first, last)| (from.min(first), to.max(last)))
}

/// Returns the shortest and the longest length that a run was trained on. The result is `None` if
/// the run's files do not have these lengths.
///
/// The lengths come from the run's settings or, if the settings do not give them (see
/// [`configured`]), from `lengths.json`.
fn lengths_of(run: &Run) -> Option<(usize, usize)> {
    configured(run.data()).or_else(|| {
        let scores = run.lengths.iter().flatten();
        let trained = scores.filter(|score| score.trained);
        let lengths = trained.map(|score| score.length);
        Some((lengths.clone().min()?, lengths.max()?))
    })
}

/// Returns the shortest and the longest length of a task, from its settings `data`. `None` if the
/// task is not synthetic, or if the settings cannot be read, for example because another version of
/// this program wrote them.
fn configured(data: &Value) -> Option<(usize, usize)> {
    let data = DataConfig::deserialize(data).ok()?;
    let dataset = data.check().ok()??;
    let lengths = dataset.synthetic()?.lengths();
    Some((*lengths.start(), *lengths.end()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::plot::file::Plot;
    use crate::plot::file::tests::stroke;
    use crate::plot::lines::CurveOptions;
    use crate::plot::run::Run;
    use crate::plot::run::tests::run;
    use crate::plot::run_plot::RunPlot;
    use crate::plot::style::series_color;
    use training::run::layout::LENGTHS;
    use training::run::read_lengths;

    #[test]
    fn the_lengths_of_training_are_those_of_the_settings() {
        let lengths = |json: &str| super::configured(&serde_json::from_str(json).unwrap());
        let copy = r#"{"task":"copy","symbols":9,"min_length":1,"max_length":16}"#;
        assert_eq!(lengths(copy), Some((1, 16)));
        assert_eq!(lengths(r#"{"task":"add","max_digits":3}"#), Some((1, 3)));
        assert_eq!(lengths("null"), None);
    }

    fn svg(runs: &[Run]) -> String {
        let chart = RunPlot::Lengths.draw(runs, CurveOptions::default());
        chart.unwrap().svg().unwrap()
    }

    fn with_lengths(folder: &Path, name: &str, positions: &str, trained: usize) -> Run {
        let mut run = run(folder, name, positions, "");
        let score = |length: usize| {
            // Equal curves would share one line, so each positional encoding has a different value.
            let beyond = positions.len() as f64 / 100.0;
            let exact = if length <= trained { 1.0 } else { beyond };
            format!(
                "{{\"length\":{length},\"sequences\":9,\"exact_match\":{exact},\
                 \"token_accuracy\":0.5,\"trained\":{},\"more\":0}}",
                length <= trained
            )
        };
        let json: Vec<String> = (1..=24).rev().map(score).collect();
        let path = run.folder.join(LENGTHS);
        std::fs::write(&path, format!("[{}]", json.join(","))).unwrap();
        run.lengths = read_lengths(&run.folder).unwrap();
        run
    }

    #[test]
    fn lengths_of_several_runs_are_one_line_each_with_the_trained_lengths_shaded() {
        let parent = tempfile::tempdir().unwrap();
        let run = |name: &str, positions: &str, trained| {
            with_lengths(parent.path(), name, positions, trained)
        };
        let mut runs = vec![
            run("a", "rotary", 16),
            run("b", "learned", 16),
            run("c", "sinusoidal", 16),
        ];
        let lengths = svg(&runs);
        for text in [
            "Exact match by length of 3 runs",
            "rotary positions",
            "learned positions",
            "sinusoidal positions",
            "trained on (length 1 to 16)",
            "length of the source (symbols)",
        ] {
            assert!(lengths.contains(text), "{text}");
        }
        for index in 0..3 {
            assert!(
                lengths.matches(&stroke(series_color(index))).count() >= 2,
                "{index}"
            );
        }
        // A run without lengths is skipped, and does not change the shaded band.
        runs[0].lengths = None;
        let lengths = svg(&runs);
        assert!(lengths.contains("trained on (length 1 to 16)"));
        assert!(!lengths.contains("rotary"));
        let runs = [run("a", "rotary", 16), run("d", "learned", 8)];
        let lengths = svg(&runs);
        assert!(lengths.contains("rotary positions, trained on 1 to 16"));
        assert!(lengths.contains("learned positions, trained on 1 to 8"));
    }

    #[test]
    fn lengths_of_one_run_show_its_token_accuracy_too() {
        let parent = tempfile::tempdir().unwrap();
        let mut run = with_lengths(parent.path(), "a", "rotary", 16);
        let lengths = svg(std::slice::from_ref(&run));
        assert!(lengths.contains("exact match (whole sequences)"));
        assert!(lengths.contains("token accuracy"));
        run.lengths = Some(Vec::new());
        assert_eq!(
            RunPlot::Lengths.draw(std::slice::from_ref(&run), CurveOptions::default()),
            None
        );
        run.lengths = None;
        assert_eq!(RunPlot::Lengths.draw(&[run], CurveOptions::default()), None);
    }
}
