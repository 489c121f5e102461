//! Computes the lines of a curve for one run or several: values, running means, and means over
//! seeds.

use super::average::{mean_curve, running_mean};
use super::group::Group;
use super::run::{Progress, Run};
use super::run_plot::{Curve, RunPlot};
use super::series::{Point, Series};
use super::style;
use crate::number::grouped;

/// Maximum number of points of a line with markers. A line with more points has no markers.
const MAX_MARKERS: usize = 60;

/// How the curves of runs are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CurveOptions {
    /// Quantity of the horizontal axis. Plots by length ignore it.
    pub progress: Progress,
    /// Whether each run has its own line. Otherwise, runs that differ only in their seed share one
    /// line, which is their mean.
    pub is_each_seed: bool,
}

impl RunPlot {
    /// Returns the lines that draw a curve of a group, or no lines if there are no data. A long and
    /// noisy curve of a single run has two lines: its values in a pale colour, and their running
    /// mean on top.
    pub fn lines(
        self,
        group: &Group,
        curve: &Curve,
        label: String,
        index: usize,
        options: CurveOptions,
    ) -> Vec<Series> {
        let with_data = group.runs.iter().filter_map(|run| {
            let points = self.points(run, *curve);
            (!points.is_empty()).then_some((*run, points))
        });
        let (runs, raw): (Vec<&Run>, Vec<Vec<Point>>) = with_data.unzip();
        let longest = raw.iter().map(Vec::len).max().unwrap_or(0);
        let radius = if curve.is_noisy { longest / 100 } else { 0 };
        let smooth: Vec<Vec<Point>> = match radius {
            0 => raw.clone(),
            _ => raw
                .iter()
                .map(|points| running_mean(points, radius))
                .collect(),
        };
        let mean = mean_curve(&smooth);
        // Progress is the mean over the runs. A run whose progress at a step is not known does not
        // count in the mean for this step.
        let progress = |step: f64| match self {
            Self::Lengths => Some(step),
            _ => {
                let known = runs.iter().filter_map(|run| run.at(options.progress, step));
                let known: Vec<f64> = known.collect();
                (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
            }
        };
        let placed = |points: &[Point]| -> Vec<Point> {
            let points = points.iter();
            let points = points.filter_map(|&(step, value)| Some((progress(step)?, value)));
            points.collect()
        };
        let mut line = Series::new(index, label, placed(&mean.points));
        if line.points.is_empty() {
            return Vec::new();
        }
        let unknown = mean.points.len() - line.points.len();
        line.spread = mean.spread[unknown.min(mean.spread.len())..].to_vec();
        let is_marked = line.points.len() == 1 || !curve.is_per_step;
        line.marker = (is_marked && line.points.len() <= MAX_MARKERS).then_some(index);
        if let ([run], false) = (&runs[..], curve.is_per_step || self == Self::Lengths)
            && line.points.len() > 1
        {
            let best = run.best_step();
            let point = mean.points.iter().find(|point| Some(point.0) == best);
            line.ring = point.and_then(|&(step, value)| Some((progress(step)?, value)));
        }
        let pale = Series {
            label: String::new(),
            points: placed(&raw[0]),
            color: style::lighter(line.color, 0.62),
            width: 1.0,
            ..line.clone()
        };
        if radius > 0 {
            let count = grouped(2 * radius + 1);
            line.label += &format!(", mean of {count} {}", curve.unit());
        }
        match raw.len() {
            1 if radius > 0 => return vec![pale, line],
            1 => {}
            seeds => line.label += &format!(", mean ± SD of {seeds} seeds"),
        }
        vec![line]
    }
}
