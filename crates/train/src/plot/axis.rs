//! Axes: where a value stands, and which values have a tick.

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// The value at its beginning.
    pub min: f64,
    /// The value at its end.
    pub max: f64,
    /// Whether equal distances are equal ratios.
    pub is_log: bool,
    /// The values that are written beside it.
    pub ticks: Vec<f64>,
}

impl Axis {
    /// From `min` to `max` exactly, with about so many ticks.
    pub fn linear(label: impl Into<String>, min: f64, max: f64, ticks: usize) -> Self {
        let max = if max > min { max } else { min + 1.0 };
        let step = nice_step(max - min, ticks);
        // A rounding error beyond the end is no reason to lose a tick.
        let (first, last) = ((min / step - 1e-9).ceil(), (max / step + 1e-9).floor());
        let ticks = (first as i64..=last as i64).map(|n| n as f64 * step);
        Self {
            label: label.into(),
            min,
            max,
            is_log: false,
            ticks: ticks.collect(),
        }
    }

    /// From 0 to a tick that no value is above.
    pub fn from_zero(label: impl Into<String>, largest: f64, ticks: usize) -> Self {
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let step = nice_step(largest, ticks);
        let max = (largest / step - 1e-9).ceil() * step;
        Self::linear(label, 0.0, max, ticks)
    }

    /// From one tick to another, around positive values, with equal ratios at equal distances.
    pub fn log(label: impl Into<String>, smallest: f64, largest: f64) -> Self {
        let decades = (largest / smallest).log10();
        let factors: &[f64] = match decades {
            d if d <= 3.0 => &[1.0, 2.0, 5.0],
            d if d <= 5.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let every = if decades > 12.0 {
            (decades / 8.0).ceil() as usize
        } else {
            1
        };
        let first = smallest.log10().floor() as i32;
        let last = largest.log10().ceil() as i32 + every as i32;
        let all = (first..=last)
            .step_by(every)
            .flat_map(|decade| factors.iter().map(move |f| f * 10f64.powi(decade)));
        let all: Vec<f64> = all.collect();
        let begin = all.iter().rposition(|&tick| tick <= smallest * 1.001);
        let end = all.iter().position(|&tick| tick >= largest * 0.999);
        let (begin, end) = (begin.unwrap_or(0), end.unwrap_or(all.len() - 1));
        let ticks = all[begin..=end.max(begin + 1)].to_vec();
        Self {
            label: label.into(),
            min: ticks[0],
            max: ticks[ticks.len() - 1],
            is_log: true,
            ticks,
        }
    }

    /// Where a value stands: 0 at the beginning, 1 at the end; values beyond stand there.
    pub fn place(&self, value: f64) -> f64 {
        let place = if self.is_log {
            (value.max(self.min) / self.min).ln() / (self.max / self.min).ln()
        } else {
            (value - self.min) / (self.max - self.min)
        };
        place.clamp(0.0, 1.0)
    }

    /// What is written at a tick.
    pub fn tick_label(&self, value: f64) -> String {
        // The smallest difference that the labels have to show.
        let step = if self.is_log {
            10f64.powf(value.log10().floor())
        } else {
            self.ticks
                .windows(2)
                .map(|pair| pair[1] - pair[0])
                .fold(self.max, f64::min)
        };
        number(value, step)
    }
}

/// 1, 2 or 5 times a power of ten, so that there are at most so many steps.
fn nice_step(range: f64, most: usize) -> f64 {
    let rough = range / most.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|f| f * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

/// A multiple of `step` with as many digits as it needs.
fn number(value: f64, step: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let digits = -(step.log10() + 1e-9).floor();
    if digits > 4.0 || value.abs() >= 1e9 {
        let mantissa_digits = (value.abs().log10().floor() + digits).clamp(0.0, 9.0) as usize;
        return format!("{value:.mantissa_digits$e}");
    }
    let text = format!("{value:.*}", digits.max(0.0) as usize);
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (text.as_str(), String::new()),
    };
    grouped(whole) + &fraction
}

/// Thousands, apart.
fn grouped(whole: &str) -> String {
    let (sign, digits) = match whole.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", whole),
    };
    if digits.len() < 5 {
        return whole.into();
    }
    let first = digits.len() % 3;
    let groups = (first > 0).then(|| &digits[..first]).into_iter();
    let rest = (first..digits.len())
        .step_by(3)
        .map(|at| &digits[at..at + 3]);
    format!("{sign}{}", groups.chain(rest).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> String {
        let labels = axis.ticks.iter().map(|&tick| axis.tick_label(tick));
        labels.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_numbers() {
        for (axis, expected) in [
            (Axis::linear("", 0.0, 1.0, 5), "0 0.2 0.4 0.6 0.8 1.0"),
            (Axis::linear("", -1.0, 1.0, 4), "-1.0 -0.5 0 0.5 1.0"),
            (
                Axis::linear("", 0.0, 20_000.0, 10),
                "0 2000 4000 6000 8000 10,000 12,000 14,000 16,000 18,000 20,000",
            ),
            (Axis::linear("", 3.0, 5.5, 8), "3.0 3.5 4.0 4.5 5.0 5.5"),
            (
                Axis::from_zero("", 3.6, 8),
                "0 0.5 1.0 1.5 2.0 2.5 3.0 3.5 4.0",
            ),
            (
                Axis::from_zero("", 7e-4, 7),
                "0 0.0001 0.0002 0.0003 0.0004 0.0005 0.0006 0.0007",
            ),
            (Axis::from_zero("", 7e-6, 4), "0 2e-6 4e-6 6e-6 8e-6"),
            (
                Axis::from_zero("", 12e-6, 6),
                "0 2e-6 4e-6 6e-6 8e-6 1.0e-5 1.2e-5",
            ),
            (Axis::linear("", 0.0, 0.0, 2), "0 0.5 1.0"),
            (
                Axis::log("", 0.013, 4.1),
                "0.01 0.02 0.05 0.1 0.2 0.5 1 2 5",
            ),
            (
                Axis::log("", 2e-4, 3.6),
                "0.0001 0.0003 0.001 0.003 0.01 0.03 0.1 0.3 1 3 10",
            ),
            (
                Axis::log("", 1e-7, 9.0),
                "1e-7 1e-6 1e-5 0.0001 0.001 0.01 0.1 1 10",
            ),
            (Axis::log("", 1.0, 1.0), "1 2"),
        ] {
            assert_eq!(labels(&axis), expected);
        }
    }

    #[test]
    fn log_axes_have_few_ticks_around_the_values() {
        let wide = Axis::log("", 1e-30, 1.0);
        assert!(
            wide.ticks.len() <= 10 && wide.min <= 1e-30 && wide.max >= 1.0,
            "{wide:?}"
        );
    }

    #[test]
    fn places_go_from_0_to_1() {
        let linear = Axis::linear("", 2.0, 6.0, 4);
        assert_eq!(
            [2.0, 3.0, 6.0, 7.0, 0.0].map(|x| linear.place(x)),
            [0.0, 0.25, 1.0, 1.0, 0.0]
        );
        let log = Axis::log("", 0.01, 1.0);
        assert!((log.place(0.1) - 0.5).abs() < 1e-12);
        assert_eq!([0.0, 0.01, 1.0].map(|x| log.place(x)), [0.0, 0.0, 1.0]);
    }
}
