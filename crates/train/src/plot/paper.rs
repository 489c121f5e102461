//! Two figures that need no run: the positional encoding (section 3.5) and the learning rate
//! (section 5.3) of the paper "Attention Is All You Need".

use std::ops::Range;

use burn::tensor::Device;
use transformer::position::SinusoidalEncoding;

use super::axis::Axis;
use super::line_chart::LineChart;
use super::series::{Point, Series};
use training::config::Schedule;

/// Number of dimensions of the sinusoidal positional encoding.
const D_MODEL: usize = 20;
/// Number of positions that are drawn.
const POSITIONS: usize = 100;
/// Dimensions that are drawn: sine and cosine of two frequencies.
const DIMENSIONS: Range<usize> = 4..8;

/// `d_model` and warm-up steps of each drawn learning rate. The factor of the schedule is 1.
const WARMUPS: [(usize, usize); 3] = [(512, 8000), (512, 4000), (256, 4000)];
/// Number of steps that are drawn.
const STEPS: usize = 20_000;
/// Number of steps between two points. All numbers of warm-up steps are multiples of it, so that
/// each curve has a point at its peak.
const STRIDE: usize = 20;

/// Draws dimensions 4 to 7 of a sinusoidal encoding with 20 dimensions over 100 positions. The
/// values come from the implementation that models use.
pub fn positional_encoding(device: &Device) -> LineChart {
    let curves = DIMENSIONS.zip(encoding_curves(device));
    let series = curves.enumerate().map(|(index, (dimension, points))| {
        let function = if dimension % 2 == 0 { "sin" } else { "cos" };
        let pair = 2 * (dimension / 2);
        let label = format!("dimension {dimension}: {function}(p / 10000^({pair}/{D_MODEL}))");
        Series::new(index, label, points)
    });
    let (first, last) = (DIMENSIONS.start, DIMENSIONS.end - 1);
    LineChart {
        title: format!("Sinusoidal positional encoding, dimensions {first} to {last} of {D_MODEL}"),
        series: series.collect(),
        x: Axis::whole("position p (tokens)", 0.0..POSITIONS as f64),
        y: Axis::linear("encoding (no unit)", -1.0..1.0),
        band: None,
        ring_label: String::new(),
    }
}

/// Draws the learning rate of the paper over 20,000 steps for three pairs of model width and
/// warm-up, as in the Annotated Transformer.
pub fn warmup() -> LineChart {
    let series = WARMUPS.into_iter().enumerate();
    let series = series.map(|(index, (d_model, warmup))| {
        let label = format!("d_model {d_model}, warm-up {warmup} steps");
        Series::new(index, label, warmup_curve(d_model, warmup))
    });
    let series: Vec<Series> = series.collect();
    let points = series.iter().flat_map(|series| &series.points);
    let largest = points.map(|point| point.1).fold(0.0, f64::max);
    LineChart {
        title: "Warm-up: min(step^-0.5, step · warmup^-1.5) / √d_model".into(),
        x: Axis::whole("training step", 0.0..STEPS as f64),
        y: Axis::from_zero("learning rate", largest),
        series,
        band: None,
        ring_label: String::new(),
    }
}

/// Returns a curve for each drawn dimension: its values by position.
fn encoding_curves(device: &Device) -> Vec<Vec<Point>> {
    let table = SinusoidalEncoding::new(POSITIONS, D_MODEL, device).forward(0, POSITIONS);
    let values: Vec<f64> = table.into_data().iter::<f64>().collect();
    let curve = |dimension| {
        let rows = values.chunks(D_MODEL).enumerate();
        let points = rows.map(|(position, row)| (position as f64, row[dimension]));
        points.collect()
    };
    DIMENSIONS.map(curve).collect()
}

fn warmup_curve(d_model: usize, warmup: usize) -> Vec<Point> {
    let noam = Schedule::noam(1.0, warmup);
    let steps = std::iter::once(1).chain((STRIDE..=STEPS).step_by(STRIDE));
    let point = |step| (step as f64, noam.rate(step, STEPS, d_model));
    steps.map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceName;
    use crate::plot::file::Plot;

    #[test]
    fn the_encoding_follows_the_papers_formula() {
        let device = DeviceName::choose(None).unwrap().open().unwrap();
        let curves = encoding_curves(&device);
        assert_eq!(curves.len(), 4);
        for (dimension, curve) in (4..).zip(&curves) {
            assert_eq!(curve.len(), 100);
            for &(p, value) in curve {
                let angle = p / 10_000f64.powf(f64::from(dimension / 2 * 2) / 20.0);
                let expected = if dimension % 2 == 0 {
                    angle.sin()
                } else {
                    angle.cos()
                };
                assert!(
                    (value - expected).abs() < 1e-6,
                    "{dimension} at {p}: {value}"
                );
            }
        }
        let svg = positional_encoding(&device).svg().unwrap();
        for dimension in 4..8 {
            assert!(
                svg.contains(&format!("dimension {dimension}: ")),
                "{dimension}"
            );
        }
        assert!(svg.contains("position p (tokens)"));
    }

    #[test]
    fn each_learning_rate_has_its_peak_at_the_end_of_its_warm_up() {
        for (d_model, warmup) in WARMUPS {
            let points = warmup_curve(d_model, warmup);
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
