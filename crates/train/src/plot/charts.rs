//! The charts that runs have, drawn from the data of one run or several: curves by step, seconds or
//! tokens, and by length.

use clap::ValueEnum;
use training::evaluation::LengthScore;
use training::run::{Point, RunData, labels, seed_groups};

use super::average::{mean_curve, radius, smoothed};
use super::axis::Axis;
use super::line_chart::{DASHES, Line, LineChart};
use super::style::SERIES;
use crate::args::name_of;
use crate::metric;
use crate::number::grouped;

/// A plot of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunPlot {
    /// Training and validation loss
    Loss,
    /// Token accuracy and exact match on the validation split
    Accuracy,
    /// BLEU and chrF on the validation split, of --task text
    Bleu,
    /// Learning rate
    LearningRate,
    /// Global norm of the gradient before clipping
    GradientNorm,
    /// Target tokens per second of training
    Throughput,
    /// Exact match by length, if the run has a lengths.json
    Lengths,
    /// Attention weights of every layer and head, of one run
    Attention,
}

/// A measure of training progress, for the horizontal axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// Training steps
    #[default]
    Steps,
    /// Seconds of training, without evaluations
    Seconds,
    /// Target tokens trained on, without padding
    Tokens,
}

/// Returns the progress of a run after a step, or after the last step before it that has a record;
/// `None` if there is no such record.
fn progress_at(run: &RunData, progress: Progress, step: f64) -> Option<f64> {
    let curve = match progress {
        Progress::Steps => return Some(step),
        Progress::Seconds => run.curves.get("seconds"),
        Progress::Tokens => run.curves.get("tokens"),
    };
    let known = curve.partition_point(|point| point.0 <= step);
    Some(curve[known.checked_sub(1)?].1)
}

/// The vertical axis of losses and gradient norms is logarithmic if the largest value
/// is at least this many times the median. On a linear axis, half of the values would then lie in
/// the lowest fifth.
const LOG_RATIO: f64 = 5.0;

/// Maximum number of intervals between the ticks of the vertical axis, and of the horizontal one.
const INTERVALS: usize = 9;
const X_INTERVALS: usize = 7;

impl RunPlot {
    /// Returns the name of the plot's file, such as `learning_rate.svg`. The files of attention maps
    /// have other names.
    pub fn file_name(self) -> String {
        format!("{}.svg", name_of(self).replace('-', "_"))
    }

    /// Returns the title, and the metrics in drawing order. The last one is the most important.
    /// Attention has none.
    pub fn metrics(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Loss => ("Loss", &["loss", "valid_loss"]),
            Self::Accuracy => (
                "Accuracy on the validation split",
                &["token_accuracy", "exact_match"],
            ),
            Self::Bleu => ("Translation of the validation split", &["chrf", "bleu"]),
            Self::LearningRate => ("Learning rate", &["learning_rate"]),
            Self::GradientNorm => ("Gradient norm", &["gradient_norm"]),
            Self::Throughput => ("Throughput", &["tokens_per_second"]),
            Self::Lengths => ("Exact match by length", &["token_accuracy", "exact_match"]),
            Self::Attention => ("Attention", &[]),
        }
    }

    /// Returns the values of a metric by step or by length; empty without data.
    fn points(self, run: &RunData, field: &str) -> Vec<Point> {
        if self != Self::Lengths {
            return run.curves.get(field).to_vec();
        }
        let value = |score: &LengthScore| match field {
            "exact_match" => score.exact_match,
            _ => score.token_accuracy,
        };
        let point = |score: &LengthScore| Some((score.length as f64, value(score)?));
        let scores = run.lengths.iter().flat_map(|it| &it.lengths);
        scores.filter_map(point).collect()
    }

    /// Draws the curves of one run or several. Returns `None` if the runs have no data for them.
    ///
    /// A single run, or runs that differ in their seed only, have a line for each metric. In other
    /// charts, each run has one line, of the most important metric that it has data for.
    pub fn draw(self, runs: &[RunData], progress: Progress) -> Option<LineChart> {
        let (what, fields) = self.metrics();
        let with_data = |group: Vec<usize>| {
            let has_data = |field: &&&str| {
                let mut group = group.iter();
                group.any(|&index| !self.points(&runs[index], field).is_empty())
            };
            let fields: Vec<&str> = fields.iter().filter(has_data).copied().collect();
            let last = fields.last().copied()?;
            Some((group, fields, last))
        };
        let groups = Vec::from_iter(seed_groups(runs).into_iter().filter_map(with_data));
        let count: usize = groups.iter().map(|(group, ..)| group.len()).sum();
        let (first, _, metric) = groups.first()?;
        let mut lines = Vec::new();
        let mut title;
        if let [(group, fields, _)] = &groups[..] {
            title = match count {
                1 => format!("{what}, run {}", runs[first[0]].name),
                _ => format!("{what} of {count} seeds"),
            };
            if let (Self::Lengths, 1, Some(of)) = (self, count, runs[first[0]].lengths_of()) {
                title += &format!(", {of}");
            }
            for field in fields {
                let label = metric::label(field);
                lines.extend(self.lines(runs, group, field, label.into(), None, progress));
            }
            let optimizer = &runs[first[0]].config["optimization"]["optimizer"];
            let clip = optimizer["clip_norm"].as_f64();
            if let (Self::GradientNorm, Some(clip), Some(line)) = (self, clip, lines.last()) {
                let ends = line.points.iter().map(|point| (point.0, clip));
                lines.push(Line {
                    label: format!("clipped at {clip}"),
                    points: ends.collect(),
                    color: None,
                    dash: 1,
                    ..line.clone()
                });
            }
        } else {
            title = format!("{what} of {count} runs");
            let names = labels(runs);
            let is_same = groups.iter().all(|(.., other)| other == metric);
            if is_same && fields.len() > 1 {
                title += &format!(": {}", metric::label(metric));
            }
            for (group, _, field) in &groups {
                let mut label = names[group[0]].clone();
                if !is_same {
                    label += &format!(", {}", metric::label(field));
                }
                let color = Some(group[0]);
                // If there is another line before the last, it has the raw values, which would hide
                // the lines of other runs.
                lines.extend(self.lines(runs, group, field, label, color, progress).pop());
            }
        }
        let has_ring = lines.iter().any(|line| line.ring.is_some());
        let ring_label = match &runs[first[0]].best {
            _ if !has_ring => String::new(),
            Some(best) if count == 1 => format!("best checkpoint (step {})", grouped(best.step)),
            _ => "best checkpoint".into(),
        };
        let lengths = runs.iter().flat_map(|run| &run.lengths);
        let trained = lengths.flat_map(|it| &it.lengths);
        let trained = trained.filter(|score| score.trained && self == Self::Lengths);
        let trained = trained.map(|score| score.length as f64);
        let shortest = trained.clone().reduce(f64::min);
        let band = shortest.zip(trained.reduce(f64::max));
        (!lines.is_empty()).then(|| LineChart {
            title,
            x: self.x_axis(&lines, progress),
            // The lower end of a spread can be near 0 or negative, which a logarithmic axis cannot
            // show.
            y: self.y_axis(lines.iter().flat_map(Line::heights), INTERVALS),
            lines,
            band: band.map(|(from, to)| (from - 0.5, to + 0.5, "lengths of training")),
            ring_label,
        })
    }

    /// Returns the lines of a metric for runs that share a line. A long and noisy curve of a single
    /// run has two lines: its values in a pale colour, and the smoothed curve on top. Without
    /// `color`, the lines have the colour of the metric.
    fn lines(
        self,
        runs: &[RunData],
        group: &[usize],
        field: &'static str,
        label: String,
        color: Option<usize>,
        progress: Progress,
    ) -> Vec<Line> {
        let group = group.iter().map(|&index| &runs[index]);
        let with_points = group.map(|run| (run, self.points(run, field)));
        let with_data = with_points.filter(|(_, points)| !points.is_empty());
        let (runs, raw): (Vec<&RunData>, Vec<Vec<Point>>) = with_data.unzip();
        let longest = raw.iter().map(Vec::len).max().unwrap_or(0);
        let is_noisy = ["loss", "gradient_norm", "tokens_per_second"].contains(&field);
        let radius = if is_noisy { radius(longest) } else { 0 };
        let smooth: Vec<Vec<Point>> = if radius > 0 {
            raw.iter().map(|points| smoothed(points)).collect()
        } else {
            raw.clone()
        };
        let (points, spread) = mean_curve(&smooth);
        // Progress is the mean over the runs. A run whose progress at a step is not known does not
        // count.
        let place = |&(step, value): &Point| {
            if self == Self::Lengths {
                return Some((step, value));
            }
            let known = runs.iter();
            let known = Vec::from_iter(known.filter_map(|run| progress_at(run, progress, step)));
            let mean = known.iter().sum::<f64>() / known.len() as f64;
            (!known.is_empty()).then_some((mean, value))
        };
        let placed = |points: &[Point]| points.iter().filter_map(place).collect::<Vec<_>>();
        let is_evaluated = !is_noisy && field != "learning_rate" && self != Self::Lengths;
        let best = match runs[..] {
            [run] if is_evaluated => run.best.map(|best| best.step as f64),
            _ => None,
        };
        let ring = points.iter().find(|point| Some(point.0) == best);
        let mut line = Line {
            label,
            field,
            points: placed(&points),
            spread,
            color: Some(color.unwrap_or(metric::color(field))),
            dash: color.map_or(0, |color| color / SERIES.len() % (DASHES.len() + 1)),
            is_raw: false,
            ring: ring.and_then(place),
        };
        let unknown = points.len() - line.points.len();
        line.spread.drain(..unknown.min(line.spread.len()));
        if line.points.is_empty() {
            return Vec::new();
        }
        let mut lines = Vec::new();
        if radius > 0 {
            if let [raw] = &raw[..] {
                lines.push(Line {
                    label: String::new(),
                    points: placed(raw),
                    is_raw: true,
                    ..line.clone()
                });
            }
            line.label += &format!(", mean of {} steps", grouped(2 * radius + 1));
        }
        if raw.len() > 1 {
            line.label += &format!(", mean ± SD of {} seeds", raw.len());
        }
        lines.push(line);
        lines
    }

    fn x_axis(self, lines: &[Line], progress: Progress) -> Axis {
        let points = lines.iter().flat_map(|line| &line.points);
        let values = points.map(|point| point.0);
        let first = values.clone().fold(f64::MAX, f64::min);
        let last = values.fold(0.0, f64::max);
        let lengths = first - 0.5..last + 0.5;
        let (label, range, least) = match progress {
            _ if self == Self::Lengths => ("length of the source (symbols)", lengths, 1.0),
            Progress::Steps => ("training step", 0.0..last.max(1.0), 1.0),
            Progress::Tokens => ("target tokens trained on", 0.0..last.max(1.0), 1.0),
            Progress::Seconds => ("training time (s)", 0.0..last.max(1e-3), 0.0),
        };
        Axis::within(label, range, X_INTERVALS, least)
    }

    /// Returns the vertical axis for values, with at most `most` + 1 ticks. It begins at 0, or
    /// is logarithmic if most values would be hard to tell apart otherwise.
    pub fn y_axis(self, values: impl Iterator<Item = f64>, most: usize) -> Axis {
        let (label, is_log) = match self {
            Self::Loss => ("cross-entropy (nats per token)", true),
            Self::GradientNorm => ("global gradient norm", true),
            Self::LearningRate => ("learning rate", false),
            Self::Throughput => ("target tokens per second", false),
            Self::Bleu => return Axis::around("BLEU, chrF (0 to 100)", 0.0, 100.0, most),
            _ => return Axis::around("accuracy", 0.0, 1.0, most),
        };
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        let mut positive: Vec<f64> = positive.collect();
        positive.sort_by(f64::total_cmp);
        let largest = positive.last().copied().unwrap_or(0.0);
        match positive.get(positive.len() / 2) {
            Some(&median) if is_log && largest >= LOG_RATIO * median => {
                Axis::log(label, positive[0].max(largest * 1e-9), largest, most)
            }
            _ => Axis::around(label, 0.0, largest, most),
        }
    }
}
