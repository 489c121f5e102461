//! Axes of charts: their ranges, the values with ticks, and the labels of ticks. Plots, the report
//! and the terminal have the same axes.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

use crate::number::grouped;

/// An axis of a chart. Values outside its range are drawn at the nearer end.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Name of the quantity, with its unit if it has one.
    pub label: &'static str,
    /// First and last value of the axis.
    pub range: Range<f64>,
    /// Values that have a tick, evenly spaced, or nearly so on a logarithmic axis.
    pub ticks: Vec<f64>,
    pub is_log: bool,
}

impl Axis {
    /// Returns a linear axis over a range, with at most `most` + 1 ticks, which are at least
    /// `least` apart.
    pub fn within(label: &'static str, range: Range<f64>, most: usize, least: f64) -> Self {
        let is_wide = |step: &f64| *step >= least && range.end - range.start <= most as f64 * step;
        let step = steps(range.end - range.start).find(is_wide);
        let step = step.unwrap_or(least);
        let first = (range.start / step - 1e-9).ceil() as i64;
        let last = (range.end / step + 1e-9).floor() as i64;
        Self {
            label,
            ticks: (first..=last).map(|i| rounded(i as f64 * step)).collect(),
            range,
            is_log: false,
        }
    }

    /// Returns the narrowest linear axis around two values that begins and ends at a tick, and has
    /// at most `most` + 1 ticks.
    pub fn around(label: &'static str, mut low: f64, mut high: f64, most: usize) -> Self {
        if high - low <= 1e-6 * high.abs() {
            let room = if high == 0.0 { 1.0 } else { 0.05 * high.abs() };
            (low, high) = (if low == 0.0 { 0.0 } else { low - room }, high + room);
        }
        let ends = |step: f64| {
            let ends = (low / step + 1e-9).floor()..(high / step - 1e-9).ceil();
            (ends.end - ends.start <= most as f64).then_some(ends.start * step..ends.end * step)
        };
        let range = steps(high - low).find_map(ends).unwrap_or(low..high);
        Self::within(label, range, most, 0.0)
    }

    /// Returns a logarithmic axis, from the last tick at or below the smallest value to the first
    /// tick at or above the largest value, with at most `most` + 1 ticks. Both values must be
    /// positive.
    pub fn log(label: &'static str, smallest: f64, largest: f64, most: usize) -> Self {
        let dense: [(&[f64], i32); 2] = [(&[1.0, 2.0, 5.0], 1), (&[1.0, 3.0], 1)];
        let sparse = (1..).map(|every| (&[1.0][..], every));
        let [first, last] = [smallest, largest].map(|value| value.log10().floor() as i32);
        let ticks = |(factors, every): (&[f64], i32)| {
            let decades = (first - every..=last + every).filter(|decade| decade % every == 0);
            let all =
                decades.flat_map(|decade| factors.iter().map(move |it| it * 10f64.powi(decade)));
            let all: Vec<f64> = all.map(rounded).collect();
            let begin = all.iter().rposition(|&tick| tick <= smallest * 1.001)?;
            let end = all.iter().position(|&tick| tick >= largest * 0.999)?;
            let end = end.max(begin + 1);
            (end - begin <= most).then(|| all[begin..=end].to_vec())
        };
        let ticks = dense.into_iter().chain(sparse).find_map(ticks);
        let ticks = ticks.expect("there is a distance that is large enough");
        Self {
            label,
            range: ticks[0]..ticks[ticks.len() - 1],
            ticks,
            is_log: true,
        }
    }

    /// Returns the label of a tick: a decimal number with commas between thousands, or a number with
    /// an exponent, such as `2e-4`, below 0.001 and from 10 million on.
    pub fn tick_label(&self, tick: f64) -> String {
        match tick.abs() {
            0.0 => "0".into(),
            0.0..0.9995e-3 | 9.9995e6.. => format!("{tick:e}"),
            _ => grouped(tick),
        }
    }

    /// Returns the position of a value, from 0 at the first value of the axis to 1 at the last.
    pub fn position(&self, value: f64) -> f64 {
        let Range { start, end } = self.range;
        let value = value.clamp(start, end);
        if self.is_log {
            (value / start).ln() / (end / start).ln()
        } else {
            (value - start) / (end - start)
        }
    }
}

/// Returns distances of ticks: 1, 2 and 5 times the powers of ten, from about a hundredth of `span`.
fn steps(span: f64) -> impl Iterator<Item = f64> {
    let power = span.max(1e-300).log10().floor() as i32 - 2;
    let powers = (power..power + 5).map(|power| 10f64.powi(power));
    powers.flat_map(|power| [power, 2.0 * power, 5.0 * power])
}

/// Removes rounding errors from a tick.
fn rounded(tick: f64) -> f64 {
    format!("{tick:.9e}").parse().expect("it is a number")
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        first + (self.position(*value) * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        for (axis, expected) in [
            (Axis::within("", 0.0..1.0, 8, 0.0), "0 0.2 0.4 0.6 0.8 1"),
            (Axis::within("", 0.5..9.5, 12, 1.0), "1 2 3 4 5 6 7 8 9"),
            (Axis::within("", 0.0..3.0, 12, 1.0), "0 1 2 3"),
            (Axis::within("", 0.0..3e7, 4, 1.0), "0 1e7 2e7 3e7"),
            (
                Axis::within("", 0.0..2500.0, 5, 1.0),
                "0 500 1,000 1,500 2,000 2,500",
            ),
            (Axis::around("", 0.0, 3.6, 8), "0 0.5 1 1.5 2 2.5 3 3.5 4"),
            (Axis::around("", 0.0, 7e-4, 4), "0 2e-4 4e-4 6e-4 8e-4"),
            (Axis::around("", -0.3, 0.3, 2), "-0.5 0 0.5"),
            (Axis::around("", 97.0, 103.0, 1), "0 200"),
            (Axis::around("", 0.0, 0.0, 2), "0 0.5 1"),
            (Axis::around("", 2.0, 2.0, 2), "1.9 2 2.1"),
            (
                Axis::log("", 0.013, 4.1, 9),
                "0.01 0.02 0.05 0.1 0.2 0.5 1 2 5",
            ),
            (
                Axis::log("", 2e-4, 3.6, 10),
                "1e-4 3e-4 0.001 0.003 0.01 0.03 0.1 0.3 1 3 10",
            ),
            (Axis::log("", 0.013, 4.1, 3), "0.01 0.1 1 10"),
            (Axis::log("", 1.0, 1.0, 4), "1 2"),
        ] {
            let labels = axis.ticks.iter().map(|&tick| axis.tick_label(tick));
            assert_eq!(labels.collect::<Vec<_>>().join(" "), expected);
        }
        let wide = Axis::log("", 1e-30, 1.0, 8);
        assert!(
            wide.ticks.len() <= 9 && wide.range.start <= 1e-30,
            "{wide:?}"
        );
    }

    #[test]
    fn values_lie_between_the_ends() {
        let linear = Axis::within("", 2.0..6.0, 4, 0.0);
        let pixels = [2.0, 3.0, 6.0, 7.0, 0.0].map(|x| linear.map(&x, (0, 400)));
        assert_eq!(pixels, [0, 100, 400, 400, 0]);
        let log = Axis::log("", 0.01, 1.0, 8);
        let pixels = [0.0, 0.01, 0.1, 1.0].map(|x| log.map(&x, (0, 400)));
        assert_eq!(pixels, [0, 0, 200, 400]);
    }
}
