//! The sinusoidal positional encoding of the paper (section 3.5), some of its dimensions by
//! position.

use burn::tensor::Device;
use transformer::position::SinusoidalEncoding;

use super::axis::Axis;
use super::drawing::{Drawing, Point};
use super::line_chart::{LineChart, Series};
use super::marker::Marker;
use super::style;

/// Width of the encoding.
const D_MODEL: usize = 20;
/// Positions that are shown.
const POSITIONS: usize = 100;
/// Dimensions that are shown: two frequencies, a sine and a cosine of each.
const DIMENSIONS: std::ops::Range<usize> = 4..8;

/// Draws dimensions 4 to 7 of an encoding of 20 dimensions, over 100 positions, as the model
/// computes them.
pub fn positional_encoding(device: &Device) -> Drawing {
    let series = DIMENSIONS
        .zip(curves(device))
        .enumerate()
        .map(|(index, (dimension, points))| {
            let function = if dimension % 2 == 0 { "sin" } else { "cos" };
            let pair = 2 * (dimension / 2);
            Series {
                label: format!("dimension {dimension}: {function}(p / 10000^({pair}/{D_MODEL}))"),
                points,
                color: style::series_color(index),
                width: 2.0,
                marker: Marker::None,
            }
        });
    let chart = LineChart {
        title: format!(
            "Sinusoidal positional encoding, dimensions {} to {} of {D_MODEL}",
            DIMENSIONS.start,
            DIMENSIONS.end - 1
        ),
        width: 820.0,
        plot_height: 300.0,
        series: series.collect(),
        x: Axis::linear("position p (tokens)", 0.0, POSITIONS as f64, 10),
        y: Axis::linear("encoding (no unit)", -1.0, 1.0, 4),
        band: None,
    };
    chart.draw()
}

/// Each dimension's values by position.
fn curves(device: &Device) -> Vec<Vec<Point>> {
    let table = SinusoidalEncoding::new(POSITIONS, D_MODEL, device).forward(0, POSITIONS);
    let values: Vec<f64> = table.into_data().iter::<f64>().collect();
    let curve = |dimension| {
        let points = values.chunks(D_MODEL).enumerate();
        points
            .map(|(position, row)| (position as f64, row[dimension]))
            .collect()
    };
    DIMENSIONS.map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceName;

    #[test]
    fn the_curves_are_the_papers() {
        let device = DeviceName::choose(None).unwrap().open().unwrap();
        let curves = curves(&device);
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
}
