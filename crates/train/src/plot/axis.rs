//! Axes of charts: the positions of values, the values with ticks, and the labels of ticks.

use std::ops::Range;

use plotters::coord::ranged1d::{BoldPoints, DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

use crate::number::grouped;

/// An axis of a chart. Values outside its range are drawn at the nearer end.
///
/// This type replaces the logarithmic axis of plotters, which has no ticks below the first power of
/// 10 in its range, and often has none between two powers. A loss often spans just one power of 10.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Name of the quantity, with its unit if it has one.
    pub label: &'static str,
    /// First and last value of the axis.
    pub range: Range<f64>,
    ticks: Vec<f64>,
    is_log: bool,
}

/// Maximum number of ticks of a linear axis.
const TICKS: usize = 9;

/// Maximum number of ticks of an axis of whole numbers, which is horizontal and has room for more.
const WHOLE_TICKS: usize = 12;

impl Axis {
    /// Returns a linear axis over a range.
    pub fn linear(label: &'static str, range: Range<f64>) -> Self {
        Self {
            label,
            ticks: linear_ticks(&range, TICKS),
            range,
            is_log: false,
        }
    }

    /// Returns a linear axis with ticks at whole numbers only.
    pub fn whole(label: &'static str, range: Range<f64>) -> Self {
        let mut ticks = linear_ticks(&range, WHOLE_TICKS);
        ticks.retain(|tick| (tick - tick.round()).abs() < 1e-9);
        let linear = Self::linear(label, range);
        Self { ticks, ..linear }
    }

    /// Returns a linear axis from 0 to the first tick that is not below the largest value. The axis
    /// ends at 1 if this value is not positive.
    pub fn from_zero(label: &'static str, largest: f64) -> Self {
        let end = if largest > 0.0 { largest } else { 1.0 };
        let step = linear_ticks(&(0.0..end), TICKS - 1).get(1).copied();
        let step = step.unwrap_or(end);
        Self::linear(label, 0.0..(end / step - 1e-9).ceil() * step)
    }

    /// Returns a logarithmic axis, from the last tick at or below the smallest value to the first
    /// tick at or above the largest value. Both values must be positive.
    pub fn log(label: &'static str, smallest: f64, largest: f64) -> Self {
        let ticks = log_ticks(smallest, largest);
        Self {
            label,
            range: ticks[0]..ticks[ticks.len() - 1],
            ticks,
            is_log: true,
        }
    }

    /// Returns the values that have a tick.
    pub fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// Returns the label of a tick: a decimal number with commas between thousands, except that
    ///
    /// - if the axis has a tick between 0 and 0.001, labels below 1, except 0, have an exponent, as
    ///   in `2e-4`,
    /// - labels above 9,999 have an exponent on a logarithmic axis,
    /// - labels are in millions, as in `20M`, on a linear axis that reaches 10 million.
    ///
    /// The labels of a linear axis without exponents have the same number of decimal places.
    pub fn tick_label(&self, tick: f64) -> String {
        let sizes = self.ticks.iter().map(|tick| tick.abs());
        let largest = sizes.fold(0.0, f64::max);
        let exponent = |value: f64| (value.abs().log10() + 1e-9).floor() as i32;
        // The tick 0 of a linear axis may have a rounding error.
        let is_zero = |tick: f64| !self.is_log && tick.abs() <= 1e-9 * largest;
        let has_small = |&tick: &f64| !is_zero(tick) && tick.abs() < 0.9995e-3;
        let has_small = self.ticks.iter().any(has_small);
        let is_small = has_small && !is_zero(tick) && tick.abs() < 0.9995;
        let step = match self.ticks[..] {
            _ if self.is_log => exponent(tick),
            [first, second, ..] => exponent(second - first),
            _ => 0,
        };
        if is_small || (self.is_log && tick > 9999.5) {
            let digits = (exponent(tick) - step).max(0) as usize;
            let text = format!("{tick:.digits$e}");
            let (number, power) = text.split_once('e').unwrap_or((&text, "0"));
            return format!("{}e{power}", without_zeros(number));
        }
        if !self.is_log && largest >= 1e7 {
            return with_decimals(tick / 1e6, 6 - step) + "M";
        }
        let label = with_decimals(tick, -step);
        if has_small {
            without_zeros(&label).into()
        } else {
            label
        }
    }
}

/// Returns a number without trailing zeros in its decimal places.
fn without_zeros(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

fn linear_ticks(range: &Range<f64>, most: usize) -> Vec<f64> {
    RangedCoordf64::from(range.clone()).key_points(BoldPoints(most))
}

/// Returns a number with `decimals` decimal places, or none if `decimals` is negative, and with
/// commas between thousands.
fn with_decimals(number: f64, decimals: i32) -> String {
    grouped(format_args!("{number:.*}", decimals.max(0) as usize))
}

/// Returns round numbers that are about evenly spaced on a logarithmic scale, from the last one
/// that is at most `smallest` to the first one that is at least `largest`.
///
/// Both comparisons have a tolerance of 0.1 %. If the first and the last number are the same, the
/// next round number is added.
fn log_ticks(smallest: f64, largest: f64) -> Vec<f64> {
    let decades = (largest / smallest).log10();
    let (factors, every): (&[f64], _) = match decades {
        d if d <= 3.0 => (&[1.0, 2.0, 5.0], 1),
        d if d <= 5.0 => (&[1.0, 3.0], 1),
        d => (&[1.0], (d / 8.0).ceil() as usize),
    };
    let first = smallest.log10().floor() as i32 - 1;
    let last = largest.log10().ceil() as i32 + every as i32;
    let decades = (first..=last)
        .step_by(every)
        .map(|decade| 10f64.powi(decade));
    let all = decades.flat_map(|decade| factors.iter().map(move |factor| factor * decade));
    let all: Vec<f64> = all.collect();
    let begin = all.iter().rposition(|&tick| tick <= smallest * 1.001);
    let end = all.iter().position(|&tick| tick >= largest * 0.999);
    let (begin, end) = (begin.unwrap_or(0), end.unwrap_or(all.len() - 1));
    all[begin..=end.max(begin + 1)].to_vec()
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let Range { start, end } = self.range;
        let value = value.clamp(start, end);
        if self.is_log {
            RangedCoordf64::from(start.ln()..end.ln()).map(&value.ln(), limit)
        } else {
            RangedCoordf64::from(start..end).map(&value, limit)
        }
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

    fn labels(axis: &Axis) -> String {
        let labels = axis.ticks().iter().map(|&tick| axis.tick_label(tick));
        labels.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_numbers_with_labels_of_one_form() {
        for (axis, expected) in [
            (Axis::linear("", 0.0..1.0), "0.0 0.2 0.4 0.6 0.8 1.0"),
            (Axis::linear("", -1.0..1.0), "-1.0 -0.5 0.0 0.5 1.0"),
            (Axis::linear("", 3.0..5.5), "3.0 3.5 4.0 4.5 5.0 5.5"),
            (
                Axis::whole("", 0.0..20_000.0),
                "0 2,000 4,000 6,000 8,000 10,000 12,000 14,000 16,000 18,000 20,000",
            ),
            (Axis::whole("", 0.0..3.0), "0 1 2 3"),
            (Axis::whole("", 0.0..1.0), "0 1"),
            (
                Axis::whole("", 0.0..3e6),
                "0 500,000 1,000,000 1,500,000 2,000,000 2,500,000 3,000,000",
            ),
            (Axis::whole("", 0.0..3e7), "0M 5M 10M 15M 20M 25M 30M"),
            (
                Axis::whole("", 0.5..24.5),
                "2 4 6 8 10 12 14 16 18 20 22 24",
            ),
            (
                Axis::from_zero("", 3.6),
                "0.0 0.5 1.0 1.5 2.0 2.5 3.0 3.5 4.0",
            ),
            (
                Axis::from_zero("", 7e-4),
                "0 1e-4 2e-4 3e-4 4e-4 5e-4 6e-4 7e-4",
            ),
            (
                Axis::from_zero("", 11e-6),
                "0 2e-6 4e-6 6e-6 8e-6 1e-5 1.2e-5",
            ),
            (
                Axis::from_zero("", 14e-4),
                "0 2e-4 4e-4 6e-4 8e-4 1e-3 1.2e-3 1.4e-3",
            ),
            (
                Axis::from_zero("", 5e-3),
                "0.000 0.001 0.002 0.003 0.004 0.005",
            ),
            (Axis::log("", 500.0, 2e4), "500 1,000 2,000 5,000 1e4 2e4"),
            (
                Axis::log("", 0.013, 4.1),
                "0.01 0.02 0.05 0.1 0.2 0.5 1 2 5",
            ),
            (
                Axis::log("", 20.0, 4100.0),
                "20 50 100 200 500 1,000 2,000 5,000",
            ),
            (
                Axis::log("", 2e-4, 3.6),
                "1e-4 3e-4 1e-3 3e-3 1e-2 3e-2 1e-1 3e-1 1 3 10",
            ),
            (
                Axis::log("", 1e-7, 9.0),
                "1e-7 1e-6 1e-5 1e-4 1e-3 1e-2 1e-1 1 10",
            ),
            (Axis::log("", 1.0, 1.0), "1 2"),
        ] {
            assert_eq!(labels(&axis), expected);
        }
    }

    #[test]
    fn log_axes_have_few_ticks_around_the_values() {
        let wide = Axis::log("", 1e-30, 1.0);
        assert!(wide.ticks().len() <= 10, "{wide:?}");
        assert!(
            wide.range.start <= 1e-30 && wide.range.end >= 1.0,
            "{wide:?}"
        );
    }

    #[test]
    fn values_lie_between_the_ends() {
        let linear = Axis::linear("", 2.0..6.0);
        assert_eq!(
            [2.0, 3.0, 6.0, 7.0, 0.0].map(|x| linear.map(&x, (0, 400))),
            [0, 100, 400, 400, 0]
        );
        let log = Axis::log("", 0.01, 1.0);
        assert_eq!(
            [0.0, 0.01, 0.1, 1.0].map(|x| log.map(&x, (0, 400))),
            [0, 0, 200, 400]
        );
    }
}
