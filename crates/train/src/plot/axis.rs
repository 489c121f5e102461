//! Axes: where a value lies, and which values have a tick.

use std::ops::Range;

use plotters::coord::ranged1d::{BoldPoints, DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::data::float::pretty_print_float;

/// How an axis spaces its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Equal distances are equal differences.
    Linear,
    /// As linear, with ticks at whole numbers only.
    Whole,
    /// Equal distances are equal ratios. plotters' own logarithmic axis has ticks at whole decades
    /// only, of which a loss often spans just one.
    Log,
}

/// An axis of a chart. Values outside its range are drawn at the nearer end.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: &'static str,
    /// First and last value.
    pub range: Range<f64>,
    /// How the values are spaced.
    pub spacing: Spacing,
}

impl Axis {
    /// Returns an axis over a range.
    pub fn new(label: &'static str, range: Range<f64>, spacing: Spacing) -> Self {
        Self {
            label,
            range,
            spacing,
        }
    }

    /// Returns an axis from 0 to the first tick that is not below the largest value.
    pub fn from_zero(label: &'static str, largest: f64) -> Self {
        let end = if largest > 0.0 { largest } else { 1.0 };
        let ticks = RangedCoordf64::from(0.0..end).key_points(BoldPoints(8));
        let step = ticks.get(1).copied().unwrap_or(end);
        let end = (end / step - 1e-9).ceil() * step;
        Self::new(label, 0.0..end, Spacing::Linear)
    }

    /// Returns a logarithmic axis from the tick below the smallest value to the tick above the
    /// largest. Both must be positive.
    pub fn log(label: &'static str, smallest: f64, largest: f64) -> Self {
        let ticks = log_ticks(smallest, largest);
        Self::new(label, ticks[0]..ticks[ticks.len() - 1], Spacing::Log)
    }
}

/// Returns round numbers at about equal ratios, from the last below `smallest` to the first above
/// `largest`.
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
        match self.spacing {
            Spacing::Log => RangedCoordf64::from(start.ln()..end.ln()).map(&value.ln(), limit),
            _ => RangedCoordf64::from(start..end).map(&value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let linear = || RangedCoordf64::from(self.range.clone()).key_points(hint);
        match self.spacing {
            Spacing::Linear => linear(),
            Spacing::Whole => {
                let ticks = linear().into_iter();
                ticks.filter(|tick| tick.fract() == 0.0).collect()
            }
            Spacing::Log => log_ticks(self.range.start, self.range.end),
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Returns the label of a tick, with an exponent where the number would be long.
pub fn tick_label(tick: f64) -> String {
    let is_long = tick.abs() < 1e-4 || tick.abs() >= 1e6;
    pretty_print_float(tick, is_long)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, ticks: usize) -> String {
        let ticks = axis.key_points(BoldPoints(ticks)).into_iter();
        ticks.map(tick_label).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_numbers() {
        for (axis, ticks, expected) in [
            (
                Axis::new("", 0.0..1.0, Spacing::Linear),
                6,
                "0 0.2 0.4 0.6 0.8 1",
            ),
            (
                Axis::new("", -1.0..1.0, Spacing::Linear),
                5,
                "-1 -0.5 0 0.5 1",
            ),
            (
                Axis::new("", 0.0..20_000.0, Spacing::Linear),
                11,
                "0 2000 4000 6000 8000 10000 12000 14000 16000 18000 20000",
            ),
            (Axis::new("", 0.0..3.0, Spacing::Whole), 12, "0 1 2 3"),
            (
                Axis::new("", 0.0..3e6, Spacing::Whole),
                7,
                "0 500000 1e6 1.5e6 2e6 2.5e6 3e6",
            ),
            (
                Axis::new("", 0.5..24.5, Spacing::Whole),
                12,
                "2 4 6 8 10 12 14 16 18 20 22 24",
            ),
            (
                Axis::new("", 3.0..5.5, Spacing::Linear),
                6,
                "3 3.5 4 4.5 5 5.5",
            ),
            (Axis::from_zero("", 3.6), 9, "0 0.5 1 1.5 2 2.5 3 3.5 4"),
            (
                Axis::from_zero("", 7e-4),
                8,
                "0 0.0001 0.0002 0.0003 0.0004 0.0005 0.0006 0.0007",
            ),
            (
                Axis::from_zero("", 7e-6),
                9,
                "0 1e-6 2e-6 3e-6 4e-6 5e-6 6e-6 7e-6",
            ),
            (
                Axis::from_zero("", 11e-6),
                9,
                "0 2e-6 4e-6 6e-6 8e-6 1e-5 1.2e-5",
            ),
            (Axis::from_zero("", 0.0), 3, "0 0.5 1"),
            (
                Axis::log("", 0.013, 4.1),
                0,
                "0.01 0.02 0.05 0.1 0.2 0.5 1 2 5",
            ),
            (
                Axis::log("", 2e-4, 3.6),
                0,
                "0.0001 0.0003 0.001 0.003 0.01 0.03 0.1 0.3 1 3 10",
            ),
            (
                Axis::log("", 1e-7, 9.0),
                0,
                "1e-7 1e-6 1e-5 0.0001 0.001 0.01 0.1 1 10",
            ),
            (Axis::log("", 1.0, 1.0), 0, "1 2"),
        ] {
            assert_eq!(labels(&axis, ticks), expected);
        }
    }

    #[test]
    fn log_axes_have_few_ticks_around_the_values() {
        let wide = Axis::log("", 1e-30, 1.0);
        let ticks = wide.key_points(BoldPoints(9));
        assert!(ticks.len() <= 10, "{ticks:?}");
        assert!(
            wide.range.start <= 1e-30 && wide.range.end >= 1.0,
            "{wide:?}"
        );
    }

    #[test]
    fn values_lie_between_the_ends() {
        let linear = Axis::new("", 2.0..6.0, Spacing::Linear);
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
