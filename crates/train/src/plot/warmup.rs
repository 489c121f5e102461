//! The learning rate of the paper (section 5.3), as the Annotated Transformer shows it: of two
//! widths and two lengths of the warm-up.

use super::axis::Axis;
use super::drawing::{Drawing, Point};
use super::line_chart::{LineChart, Series};
use super::marker::Marker;
use super::style;
use crate::schedule::Schedule;

/// `d_model` and warm-up steps of each curve, with factor 1.
const CURVES: [(usize, usize); 3] = [(512, 8000), (512, 4000), (256, 4000)];
/// The first two are one curve in the end: the later and thinner one leaves the other to be seen.
const WIDTHS: [f64; 3] = [5.0, 2.0, 2.0];
/// Steps that are shown.
const STEPS: usize = 20_000;
/// Steps between two points: a divisor of each warm-up, so that the peaks are points.
const EVERY: usize = 20;

/// Draws three curves of the paper's schedule over 20,000 steps.
pub fn warmup() -> Drawing {
    let series = CURVES
        .into_iter()
        .enumerate()
        .map(|(index, (d_model, warmup))| Series {
            label: format!("d_model {d_model}, warm-up {warmup} steps"),
            points: curve(d_model, warmup),
            color: style::series_color(index),
            width: WIDTHS[index],
            marker: Marker::None,
        });
    let series: Vec<Series> = series.collect();
    let rates = series
        .iter()
        .flat_map(|series| series.points.iter().map(|(_, rate)| *rate));
    let chart = LineChart {
        title: "Warm-up: min(step^-0.5, step · warmup^-1.5) / √d_model".into(),
        width: 820.0,
        plot_height: 340.0,
        x: Axis::linear("training step", 0.0, STEPS as f64, 10),
        y: Axis::from_zero("learning rate", rates.fold(0.0, f64::max), 6),
        series,
        band: None,
    };
    chart.draw()
}

fn curve(d_model: usize, warmup: usize) -> Vec<Point> {
    let noam = Schedule::Noam {
        factor: 1.0,
        warmup,
    };
    let steps = std::iter::once(1).chain((EVERY..=STEPS).step_by(EVERY));
    steps
        .map(|step| (step as f64, noam.learning_rate(step, STEPS, d_model)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_curve_has_its_peak_at_the_end_of_its_warm_up() {
        for (d_model, warmup) in CURVES {
            let points = curve(d_model, warmup);
            let peak = points.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            assert_eq!(peak.0, warmup as f64);
            let expected = ((d_model * warmup) as f64).powf(-0.5);
            assert!((peak.1 - expected).abs() < 1e-12, "{peak:?}");
            assert_eq!((points[0].0, points[points.len() - 1].0), (1.0, 20_000.0));
        }
        let svg = warmup().svg().unwrap();
        for text in [
            "d_model 512, warm-up 4000",
            "d_model 512, warm-up 8000",
            "d_model 256, warm-up 4000",
        ] {
            assert!(svg.contains(text), "{text}");
        }
    }
}
