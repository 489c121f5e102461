//! A line of a chart: how it looks, and how it is drawn.

use std::f64::consts::TAU;

use plotters::backend::DrawingBackend;
use plotters::element::{DashedPathElement, PathElement, Polygon};
use plotters::style::{Color, RGBColor};

use super::file::{Area, Drawn};
use super::style::series_color;

/// A point: a value of the x axis and a value of the y axis.
pub type Point = (f64, f64);

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Legend text; empty for a line without an entry.
    pub label: String,
    /// Values in drawing order. A value that is not finite leaves a gap.
    pub points: Vec<Point>,
    /// Lowest and highest y value of the pale area around each point; empty without an area.
    pub spread: Vec<(f64, f64)>,
    /// Colour of line and markers.
    pub color: RGBColor,
    /// Width of the line in pixels.
    pub width: f64,
    /// Number of the dash pattern in [`DASHES`], counted from 1; 0 for a solid line.
    pub dash: usize,
    /// Index of the shape that is drawn at each point, modulo the number of [`MARKERS`]; `None` for
    /// no markers. Markers tell lines apart without colours.
    pub marker: Option<usize>,
    /// Point that has a ring around it, if any.
    pub ring: Option<Point>,
}

impl Series {
    /// Returns a line without markers. `index` decides its colour and its dashes.
    pub fn new(index: usize, label: impl Into<String>, points: Vec<Point>) -> Self {
        Self {
            label: label.into(),
            points,
            spread: Vec::new(),
            color: series_color(index),
            width: 2.0,
            dash: index % (DASHES.len() + 1),
            marker: None,
            ring: None,
        }
    }

    /// Returns whether another line has the same points and the same spread.
    pub fn is_same(&self, other: &Self) -> bool {
        self.points == other.points && self.spread == other.spread
    }
}

/// The x and the y coordinate of a point, in units of the drawing area.
pub type Unit = (i32, i32);

/// Number of corners and rotation, as a fraction of a full turn, of each marker: circle, square,
/// triangle, diamond, and a triangle on its tip.
const MARKERS: [(u32, f64); 5] = [(24, 0.0), (4, 0.125), (3, 0.75), (4, 0.0), (3, 0.25)];

/// Length of the dashes and of the gaps of each dash pattern, in pixels.
const DASHES: [(f64, f64); 3] = [(7.0, 4.0), (2.5, 3.0), (14.0, 4.0)];

impl Series {
    /// Draws a line through the points `line` and, if the line has markers, a marker at each point
    /// of `marked`.
    ///
    /// # Errors
    ///
    /// The errors of the backend.
    pub fn draw<B: DrawingBackend>(
        &self,
        area: &Area<B>,
        scale: f64,
        line: &[Unit],
        marked: &[Unit],
    ) -> Drawn<B> {
        let line = match *line {
            // A single point is drawn as a short line, so that it is visible.
            [(x, y)] => vec![(x - scale as i32, y), (x + scale as i32, y)],
            _ => thin_out(line, scale as i32),
        };
        let style = self.color.stroke_width((self.width * scale).round() as u32);
        if self.dash == 0 {
            area.draw(&PathElement::new(line, style))?;
        } else {
            let (length, distance) = DASHES[self.dash - 1];
            let units = |pixels: f64| (pixels * scale).round() as i32;
            let dashes = (units(length), units(distance));
            area.draw(&DashedPathElement::new(line, dashes.0, dashes.1, style))?;
        }
        let Some(marker) = self.marker else {
            return Ok(());
        };
        let (corners, turn) = MARKERS[marker % MARKERS.len()];
        // A polygon with few corners needs a larger radius for the same area.
        let radius = (3.0 + self.width / 2.0) * scale * (1.0 + 1.0 / f64::from(corners));
        for &(x, y) in marked {
            let corners = (0..corners).map(|corner| {
                let angle = TAU * (turn + f64::from(corner) / f64::from(corners));
                let (dx, dy) = (radius * angle.cos(), radius * angle.sin());
                (x + dx.round() as i32, y + dy.round() as i32)
            });
            let corners: Vec<Unit> = corners.collect();
            area.draw(&Polygon::new(corners, self.color.filled()))?;
        }
        Ok(())
    }
}

/// Removes points that do not change how the line looks.
///
/// Divides the x axis into columns that are `column` units wide, and keeps the first, lowest,
/// highest and last point in each column.
fn thin_out(points: &[Unit], column: i32) -> Vec<Unit> {
    let columns = points.chunk_by(|a, b| a.0.div_euclid(column) == b.0.div_euclid(column));
    let kept = columns.flat_map(|points| {
        let height = |&i: &usize| points[i].1;
        let lowest = (0..points.len()).max_by_key(height).unwrap_or(0);
        let highest = (0..points.len()).min_by_key(height).unwrap_or(0);
        let mut kept = vec![0, lowest, highest, points.len() - 1];
        kept.sort_unstable();
        kept.dedup();
        kept.into_iter().map(|i| points[i])
    });
    let mut kept: Vec<Unit> = kept.collect();
    kept.dedup();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_points_keep_their_extremes() {
        let mut points: Vec<Unit> = (0..100_000).map(|i| (i / 250, 8 * (i % 7))).collect();
        points[54_321].1 = 99;
        let thin = thin_out(&points, 4);
        assert!(thin.len() <= 400, "{}", thin.len());
        assert!(thin.contains(&(217, 99)));
        assert_eq!((thin[0], thin[thin.len() - 1]), (points[0], points[99_999]));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
        let few = [(0, 1), (5, 2), (9, 0)];
        assert_eq!(thin_out(&few, 4), few);
    }
}
