//! Curves of one run or several: loss, accuracy, BLEU and learning rate by step, and exact match
//! by length.

use clap::ValueEnum;

use super::axis::{Axis, Spacing};
use super::line_chart::{Band, LineChart, Point, Series, widen_lower};
use super::run::{self, Run};
use super::style;
use training::evaluation::LengthScore;

/// A plot of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunPlot {
    /// Training and validation loss by step
    Loss,
    /// Token accuracy and exact match on the validation split by step
    Accuracy,
    /// BLEU and chrF on the validation split by step, of --task text
    Bleu,
    /// Learning rate by step
    LearningRate,
    /// Exact match by length, if the run has a lengths.json
    Lengths,
    /// Attention weights of every layer and head, of one run
    Attention,
}

/// A line of a plot: its field in the run's files, its label and the index of its colour.
type Line = (&'static str, &'static str, usize);

/// A loss whose largest value is this many times its smallest has a logarithmic axis.
const LOG_RATIO: f64 = 50.0;

/// A line with more points than this has no markers.
const MAX_MARKERS: usize = 60;

impl RunPlot {
    /// Returns the name of the file without extension, such as `learning_rate`. The several files of
    /// attention have their own names.
    pub fn name(self) -> String {
        let name = self.to_possible_value().expect("no plot is skipped");
        name.get_name().replace('-', "_")
    }

    /// Draws the curves of one run or several. Returns `None` if the runs have no data for them,
    /// and for attention, which has no curves.
    pub fn draw(self, runs: &[Run]) -> Option<LineChart> {
        const TOKENS: Line = ("token_accuracy", "token accuracy (teacher forcing)", 1);
        const EXACT: Line = ("exact_match", "exact match (whole sequences)", 0);
        const TRAIN: Line = ("loss", "training", 0);
        const VALID: Line = ("valid_loss", "validation", 1);
        const CHRF: Line = ("chrf", "chrF", 1);
        const BLEU: Line = ("bleu", "BLEU", 0);
        const RATE: Line = ("learning_rate", "learning rate", 0);
        let (title, lines): (_, &[Line]) = match self {
            Self::Loss => ("Loss", &[TRAIN, VALID]),
            Self::Accuracy => ("Accuracy on the validation split", &[TOKENS, EXACT]),
            Self::Bleu => ("Translation of the validation split", &[CHRF, BLEU]),
            Self::LearningRate => ("Learning rate", &[RATE]),
            Self::Lengths => ("Exact match by length", &[TOKENS, EXACT]),
            Self::Attention => return None,
        };
        let has_data = |run: &Run, line: &Line| !self.points(run, line.0).is_empty();
        let has_any = |run: &&Run| lines.iter().any(|line| has_data(run, line));
        let with_data = runs.iter().filter(has_any);
        // The lengths of training are shaded where all runs have the same, else they are in labels.
        let mut trained = with_data.clone().map(trained_lengths);
        let first = trained.next().flatten();
        let band = first.filter(|_| trained.all(|range| range == first));
        let mut series = Vec::new();
        if let [run] = runs {
            for &(field, label, color) in lines {
                let smoothing = run.label_smoothing();
                let label = match field {
                    "loss" if smoothing > 0.0 => format!("{label} (label smoothing {smoothing})"),
                    _ => label.into(),
                };
                series.extend(self.line(run, field, label, color));
            }
        } else {
            // Each run has one line: the last field if all runs have it, else the first.
            let last = lines.last()?;
            let is_last = with_data.clone().all(|run| has_data(run, last));
            let (field, name, _) = if is_last { last } else { &lines[0] };
            for (index, (run, mut label)) in runs.iter().zip(run::labels(runs)).enumerate() {
                match (self, trained_lengths(run)) {
                    (Self::Lengths, Some((from, to))) if band.is_none() => {
                        label += &format!(", trained on {from} to {to}");
                    }
                    (Self::Lengths | Self::LearningRate, _) => {}
                    _ => label += &format!(", {}", name.split(" (").next().unwrap_or(name)),
                }
                series.extend(self.line(run, field, label, index));
            }
        }
        if self != Self::Loss {
            widen_lower(&mut series);
        }
        (!series.is_empty()).then(|| LineChart {
            title: run::title(title, runs),
            x: self.x_axis(runs),
            y: self.y_axis(&series),
            series,
            band: band
                .filter(|_| self == Self::Lengths)
                .map(|(from, to)| Band {
                    label: format!("trained on (length {from} to {to})"),
                    from: from as f64 - 0.5,
                    to: to as f64 + 0.5,
                }),
        })
    }

    fn x_axis(self, runs: &[Run]) -> Axis {
        let (label, range) = if self == Self::Lengths {
            let lengths = runs
                .iter()
                .flat_map(scores)
                .map(|score| score.length as f64);
            let first = lengths.clone().fold(f64::MAX, f64::min) - 0.5;
            let last = lengths.fold(0.0, f64::max) + 0.5;
            ("length of the source (symbols)", first..last)
        } else {
            let last = runs.iter().map(Run::last_step).fold(1.0, f64::max);
            ("training step", 0.0..last)
        };
        Axis::new(label, range, Spacing::Whole)
    }

    fn y_axis(self, series: &[Series]) -> Axis {
        let points = series.iter().flat_map(|series| &series.points);
        let values = points.map(|point| point.1);
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        let smallest = positive.clone().fold(f64::MAX, f64::min);
        let largest = positive.fold(0.0, f64::max);
        let loss = "cross-entropy (nats per token)";
        match self {
            Self::Loss if largest >= LOG_RATIO * smallest => {
                Axis::log(loss, smallest.max(largest * 1e-9), largest)
            }
            Self::Loss => Axis::from_zero(loss, largest),
            Self::LearningRate => Axis::from_zero("learning rate", largest),
            Self::Bleu => Axis::new("BLEU, chrF (0 to 100)", 0.0..100.0, Spacing::Linear),
            _ => Axis::new("accuracy", 0.0..1.0, Spacing::Linear),
        }
    }

    /// Returns the values of a field, by step or by length.
    fn points(self, run: &Run, field: &str) -> Vec<Point> {
        if self != Self::Lengths {
            return run.metric(field).to_vec();
        }
        let value = |score: &LengthScore| match field {
            "exact_match" => score.exact_match,
            _ => score.token_accuracy,
        };
        let point = |score: &LengthScore| Some((score.length as f64, value(score)?));
        scores(run).iter().filter_map(point).collect()
    }

    /// Returns the series of a field; none without data. A long training loss has two series: the
    /// values in a pale colour, and their running mean over them.
    fn line(self, run: &Run, field: &str, label: String, index: usize) -> Vec<Series> {
        let points = self.points(run, field);
        let is_per_step = matches!(field, "loss" | "learning_rate");
        let mut raw = Series::new(index, label, points);
        if !is_per_step && raw.points.len() <= MAX_MARKERS {
            raw.marker = Some(index);
        }
        let radius = raw.points.len() / 100;
        if raw.points.is_empty() {
            return Vec::new();
        }
        if field != "loss" || radius == 0 {
            return vec![raw];
        }
        let mean = Series {
            label: format!("{}, mean of {} steps", raw.label, 2 * radius + 1),
            points: running_mean(&raw.points, radius),
            ..raw.clone()
        };
        let pale = Series {
            color: style::lighter(raw.color, 0.62),
            width: 1.0,
            ..raw
        };
        vec![pale, mean]
    }
}

fn scores(run: &Run) -> &[LengthScore] {
    run.lengths.as_deref().unwrap_or_default()
}

/// Returns the shortest and the longest length that a run was trained on.
fn trained_lengths(run: &Run) -> Option<(usize, usize)> {
    let trained = || scores(run).iter().filter(|score| score.trained);
    let lengths = || trained().map(|score| score.length);
    Some((lengths().min()?, lengths().max()?))
}

/// Returns the mean of the finite values up to `radius` points before and after each point. Values
/// that are not finite stay gaps.
fn running_mean(points: &[Point], radius: usize) -> Vec<Point> {
    // Sum and number of the finite values before each point.
    let mut before = vec![(0.0, 0.0)];
    for &(_, value) in points {
        let (sum, count) = before[before.len() - 1];
        let (value, one) = if value.is_finite() {
            (value, 1.0)
        } else {
            (0.0, 0.0)
        };
        before.push((sum + value, count + one));
    }
    let mean = |(i, &(step, value)): (usize, &Point)| {
        let (first, last) = (i.saturating_sub(radius), (i + radius + 1).min(points.len()));
        let ((from, fewer), (to, more)) = (before[first], before[last]);
        let mean = (to - from) / (more - fewer);
        (step, if value.is_finite() { mean } else { f64::NAN })
    };
    points.iter().enumerate().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plot::file::Plot;
    use crate::plot::file::tests::stroke as stroke_of;
    use crate::plot::run::tests::run;
    use training::run::layout::LENGTHS;
    use training::run::read_lengths;

    fn metrics(steps: usize, loss: impl Fn(usize) -> f64) -> String {
        let lines = (1..=steps).map(|step| {
            let mut line = format!(
                "{{\"step\":{step},\"loss\":{},\"learning_rate\":{}}}\n",
                loss(step),
                step as f64 * 1e-4
            );
            if step % 100 == 0 {
                line += &format!(
                    "{{\"step\":{step},\"valid_loss\":{},\"token_accuracy\":0.5}}\n",
                    loss(step)
                );
            }
            line
        });
        lines.collect()
    }

    fn svg(kind: RunPlot, runs: &[Run]) -> String {
        kind.draw(runs).unwrap().svg().unwrap()
    }

    fn stroke(index: usize) -> String {
        stroke_of(style::series_color(index))
    }

    #[test]
    fn a_run_has_its_curves_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let run = [run(
            parent.path(),
            "mine",
            "rotary",
            &metrics(300, |step| 3.0 - step as f64 / 200.0),
        )];
        let loss = svg(RunPlot::Loss, &run);
        for text in [
            "Loss, run mine",
            "training",
            "training, mean of 7 steps",
            "validation",
            "training step",
            "nats per token",
        ] {
            assert!(loss.contains(text), "{text}");
        }
        // One of the lines is the key in the legend.
        assert_eq!(loss.matches(&stroke(0)).count(), 2);
        assert_eq!(loss.matches(&stroke(1)).count(), 2);
        let accuracy = svg(RunPlot::Accuracy, &run);
        assert!(accuracy.contains("token accuracy") && !accuracy.contains("exact match"));
        assert_eq!(accuracy.matches(&stroke(0)).count(), 0);
        let learning_rate = svg(RunPlot::LearningRate, &run);
        assert_eq!(learning_rate.matches(&stroke(0)).count(), 2);
        assert!(learning_rate.contains("0.03"));
    }

    #[test]
    fn several_runs_share_a_plot() {
        let parent = tempfile::tempdir().unwrap();
        let run = |name: &str, positions: &str, steps| {
            run(parent.path(), name, positions, &metrics(steps, |_| 1.0))
        };
        let runs = [run("a", "rotary", 200), run("b", "learned", 300)];
        let loss = svg(RunPlot::Loss, &runs);
        assert!(loss.contains("rotary positions, validation") && !loss.contains("training,"));
        let accuracy = svg(RunPlot::Accuracy, &runs);
        assert!(accuracy.contains("learned positions, token accuracy"));
        let runs = [run("a", "rotary", 200), run("b", "rotary", 99)];
        let loss = svg(RunPlot::Loss, &runs);
        assert!(loss.contains("a, training, mean of 5 steps") && loss.contains("b, training"));
    }

    #[test]
    fn runs_without_texts_do_not_change_the_bleu_of_others() {
        let parent = tempfile::tempdir().unwrap();
        let text = "{\"step\":9,\"bleu\":30,\"chrf\":50}\n{\"step\":10,\"bleu\":31,\"chrf\":51}\n";
        let runs = [
            run(parent.path(), "a", "rotary", text),
            run(parent.path(), "b", "rotary", &metrics(9, |_| 1.0)),
        ];
        let svg = svg(RunPlot::Bleu, &runs);
        assert!(svg.contains("a, BLEU") && !svg.contains("a, chrF") && !svg.contains("\nb"));
        let alone = super::tests::svg(RunPlot::Bleu, &runs[..1]);
        assert!(alone.contains("\nBLEU\n") && alone.contains("\nchrF\n"));
    }

    #[test]
    fn losses_that_fall_by_decades_have_a_log_axis_and_others_begin_at_0() {
        let parent = tempfile::tempdir().unwrap();
        let loss = |name: &str, loss: &dyn Fn(usize) -> f64| {
            let run = run(parent.path(), name, "none", &metrics(20, loss));
            svg(RunPlot::Loss, &[run])
        };
        let ticks = loss("a", &|step| 4.0 * 0.5f64.powi(step as i32));
        assert!(
            ticks.contains("\n0.0001\n") || ticks.contains("1e-"),
            "{ticks}"
        );
        let ticks = loss("b", &|step| 4.0 / step as f64);
        assert!(
            ticks.contains("\n0\n") && ticks.contains("\n4\n"),
            "{ticks}"
        );
        loss("c", &|_| 0.0);
    }

    #[test]
    fn curves_without_data_are_not_drawn() {
        let parent = tempfile::tempdir().unwrap();
        let metrics = "{\"step\":1,\"loss\":null}\n";
        let run = [run(parent.path(), "mine", "rotary", metrics)];
        for kind in RunPlot::value_variants() {
            assert_eq!(kind.draw(&run), None, "{kind:?}");
            assert_eq!(kind.draw(&[]), None, "{kind:?}");
        }
    }

    #[test]
    fn a_running_mean_is_of_the_values_around() {
        let points: Vec<Point> = [1.0, 2.0, 6.0, f64::NAN, 4.0, 5.0]
            .into_iter()
            .enumerate()
            .map(|(i, value)| (i as f64, value))
            .collect();
        let mean = running_mean(&points, 1);
        let values: Vec<f64> = mean.iter().map(|(_, value)| *value).collect();
        assert_eq!(values[..3], [1.5, 3.0, 4.0]);
        assert!(values[3].is_nan());
        assert_eq!(values[4..], [4.5, 4.5]);
        assert_eq!(mean[2].0, 2.0);
    }

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
        let lengths = svg(RunPlot::Lengths, &runs);
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
            assert_eq!(lengths.matches(&stroke(index)).count(), 2, "{index}");
        }
        // A run without lengths is skipped, and does not change the shaded band.
        runs[0].lengths = None;
        let lengths = svg(RunPlot::Lengths, &runs);
        assert!(lengths.contains("trained on (length 1 to 16)"));
        assert!(!lengths.contains("rotary"));
        let runs = [run("a", "rotary", 16), run("d", "learned", 8)];
        let lengths = svg(RunPlot::Lengths, &runs);
        assert!(lengths.contains("rotary positions, trained on 1 to 16"));
        assert!(lengths.contains("learned positions, trained on 1 to 8"));
    }

    #[test]
    fn lengths_of_one_run_show_its_token_accuracy_too() {
        let parent = tempfile::tempdir().unwrap();
        let mut run = with_lengths(parent.path(), "a", "rotary", 16);
        let lengths = svg(RunPlot::Lengths, std::slice::from_ref(&run));
        assert!(lengths.contains("exact match (whole sequences)"));
        assert!(lengths.contains("token accuracy"));
        run.lengths = Some(Vec::new());
        assert_eq!(RunPlot::Lengths.draw(std::slice::from_ref(&run)), None);
        run.lengths = None;
        assert_eq!(RunPlot::Lengths.draw(&[run]), None);
    }
}
