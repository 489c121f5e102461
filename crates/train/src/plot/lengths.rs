//! Exact match by length, past the lengths that were trained, too: how positions extrapolate.

use super::axis::Axis;
use super::drawing::{Drawing, Point};
use super::line_chart::{self, Band, LineChart, Series};
use super::marker::Marker;
use super::run::{self, Run};
use super::style;
use crate::lengths::LengthScore;

/// Draws one line for each run that has lengths, and of a single run the token accuracy, too;
/// nothing if none has any.
pub fn draw(runs: &[Run]) -> Option<Drawing> {
    let labels = run::labels(runs);
    let scored = runs.iter().zip(labels).filter_map(|(run, label)| {
        let scores = run.lengths.as_deref()?;
        let is_known = scores.iter().any(|score| score.exact_match.is_some());
        is_known.then_some((scores, label))
    });
    let scored: Vec<(&[LengthScore], String)> = scored.collect();
    let lengths = || {
        scored
            .iter()
            .flat_map(|(scores, _)| scores.iter().map(|s| s.length))
    };
    let (shortest, longest) = (lengths().min()?, lengths().max()?);

    let trained: Vec<Option<(usize, usize)>> = scored
        .iter()
        .map(|(scores, _)| trained_range(scores))
        .collect();
    let are_alike = trained.windows(2).all(|pair| pair[0] == pair[1]);
    let band = trained[0].filter(|_| are_alike).map(|(from, to)| Band {
        label: format!("trained on (length {from} to {to})"),
        from: from as f64 - 0.5,
        to: to as f64 + 0.5,
    });
    let mut series = match (runs, &scored[..]) {
        ([_], [(scores, _)]) => one_run(scores),
        _ => {
            let labelled = scored.iter().zip(&trained).enumerate();
            let all = labelled.map(|(index, ((scores, label), range))| {
                let label = match range {
                    Some((from, to)) if !are_alike => format!("{label}, trained on {from} to {to}"),
                    _ => label.clone(),
                };
                line(index, label, points(scores, |score| score.exact_match))
            });
            all.collect()
        }
    };
    // Many lengths are all right or all wrong.
    line_chart::widen_lower(&mut series);
    let (min, max) = (shortest as f64 - 0.5, longest as f64 + 0.5);
    let mut x = Axis::linear("length of the source (symbols)", min, max, 12);
    x.ticks.retain(|tick| tick.fract() == 0.0);
    let chart = LineChart {
        title: run::title("Exact match by length", runs),
        width: 820.0,
        plot_height: 340.0,
        x,
        y: Axis::linear("share that is right", 0.0, 1.0, 5),
        series,
        band,
    };
    Some(chart.draw())
}

/// Exact match and token accuracy.
fn one_run(scores: &[LengthScore]) -> Vec<Series> {
    let tokens = points(scores, |score| score.token_accuracy);
    let exact = points(scores, |score| score.exact_match);
    let mut series = vec![line(0, "exact match (whole sequences)".into(), exact)];
    if !tokens.is_empty() {
        let label = "token accuracy (given the right ones before)";
        series.insert(0, line(1, label.into(), tokens));
    }
    series
}

fn line(index: usize, label: String, points: Vec<Point>) -> Series {
    Series {
        label,
        points,
        color: style::series_color(index),
        width: 2.0,
        marker: Marker::of(index),
    }
}

fn points(scores: &[LengthScore], value: impl Fn(&LengthScore) -> Option<f64>) -> Vec<Point> {
    let known = scores
        .iter()
        .filter_map(|score| Some((score.length as f64, value(score)?)));
    known.collect()
}

fn trained_range(scores: &[LengthScore]) -> Option<(usize, usize)> {
    let trained = || {
        scores
            .iter()
            .filter(|score| score.trained)
            .map(|score| score.length)
    };
    Some((trained().min()?, trained().max()?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::lengths;
    use crate::plot::drawing::Color;
    use crate::plot::run::tests::run;

    fn with_lengths(folder: &Path, name: &str, positions: &str, trained: usize) -> Run {
        let mut run = run(folder, name, positions, "");
        let score = |length: usize| {
            let exact = if length <= trained { "1.0" } else { "0.25" };
            format!(
                "{{\"length\":{length},\"sequences\":9,\"exact_match\":{exact},\
                 \"token_accuracy\":0.5,\"trained\":{},\"more\":0}}",
                length <= trained
            )
        };
        let json: Vec<String> = (1..=24).rev().map(score).collect();
        let path = run.folder.join(lengths::FILE);
        std::fs::write(&path, format!("[{}]", json.join(","))).unwrap();
        run.lengths = lengths::read(&run.folder).unwrap();
        run
    }

    #[test]
    fn several_runs_are_one_line_each_with_the_trained_lengths_shaded() {
        let parent = tempfile::tempdir().unwrap();
        let run = |name: &str, positions: &str, trained| {
            with_lengths(parent.path(), name, positions, trained)
        };
        let runs = [
            run("a", "rotary", 16),
            run("b", "learned", 16),
            run("c", "sinusoidal", 16),
        ];
        let svg = draw(&runs).unwrap().svg().unwrap();
        for text in [
            "Exact match by length of 3 runs",
            "rotary positions",
            "learned positions",
            "sinusoidal positions",
            "trained on (length 1 to 16)",
            "length of the source (symbols)",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        // The key of the legend, and the line.
        for index in 0..3 {
            let Color(red, green, blue) = style::series_color(index);
            let stroke = format!("stroke=\"#{red:02X}{green:02X}{blue:02X}\"");
            assert_eq!(svg.matches(&stroke).count(), 2, "{stroke}");
        }
        let runs = [run("a", "rotary", 16), run("d", "learned", 8)];
        let svg = draw(&runs).unwrap().svg().unwrap();
        assert!(svg.contains("rotary positions, trained on 1 to 16"));
        assert!(svg.contains("learned positions, trained on 1 to 8"));
    }

    #[test]
    fn one_run_shows_its_token_accuracy_too() {
        let parent = tempfile::tempdir().unwrap();
        let mut run = with_lengths(parent.path(), "a", "rotary", 16);
        let svg = draw(std::slice::from_ref(&run)).unwrap().svg().unwrap();
        assert!(svg.contains("exact match (whole sequences)") && svg.contains("token accuracy"));
        run.lengths = Some(Vec::new());
        assert_eq!(draw(std::slice::from_ref(&run)), None);
        run.lengths = None;
        assert_eq!(draw(&[run]), None);
        assert_eq!(draw(&[]), None);
    }
}
