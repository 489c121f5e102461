//! Line charts: title, legend, axes and lines, with nothing drawn over the data.

use std::f64::consts::TAU;

use plotters::backend::DrawingBackend;
use plotters::chart::ChartBuilder;
use plotters::coord::ranged1d::{BoldPoints, Ranged};
use plotters::element::{PathElement, Polygon, Rectangle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, TRANSPARENT};

use super::axis::{Axis, tick_label};
use super::file::{Area, Drawn, Plot};
use super::font;
use super::style::{DOWN, GRID, INK, LABEL, SHADE, TITLE, series_color};

/// A value of the x axis and one of the y axis.
pub type Point = (f64, f64);

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Text of the legend.
    pub label: String,
    /// Values in drawing order. A value that is not finite leaves a gap.
    pub points: Vec<Point>,
    /// Colour of line and markers.
    pub color: RGBColor,
    /// Width of the line in pixels.
    pub width: f64,
    /// Number of the marker at each point, so that lines can be told apart without their colours.
    pub marker: Option<usize>,
}

impl Series {
    /// Returns a line without markers, in the colour of the series with this index.
    pub fn new(index: usize, label: impl Into<String>, points: Vec<Point>) -> Self {
        Self {
            label: label.into(),
            points,
            color: series_color(index),
            width: 2.0,
            marker: None,
        }
    }
}

/// A shaded part of the x axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Text of the legend.
    pub label: String,
    /// First value of the x axis.
    pub from: f64,
    /// Last value of the x axis.
    pub to: f64,
}

/// A chart of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// Title above the legend.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Lines; later ones are drawn over earlier ones.
    pub series: Vec<Series>,
    /// Shaded part below all lines.
    pub band: Option<Band>,
}

/// Makes each line wider than those drawn over it, so that it is seen where they coincide.
pub fn widen_lower(series: &mut [Series]) {
    for (above, series) in series.iter_mut().rev().enumerate() {
        series.width += 1.6 * above.min(4) as f64;
    }
}

/// The largest number of ticks of each axis.
const X_TICKS: usize = 12;
const Y_TICKS: usize = 9;

/// Sizes in pixels.
const WIDTH: f64 = 820.0;
const PLOT_HEIGHT: f64 = 340.0;
const HEAD: f64 = 39.0;
const LEGEND_ROW: f64 = 20.0;
const KEY: f64 = 26.0;
const X_LABELS: f64 = 50.0;
const RIGHT: f64 = 28.0;
const EDGE: f64 = 8.0;

/// An entry of the legend: its left end in pixels, its row, and its label cut to what fits.
type Entry = (f64, usize, String);

impl LineChart {
    /// Returns the width of what is left of the plot area: the y axis with its labels.
    fn left(&self) -> f64 {
        let ticks = self.y.key_points(BoldPoints(Y_TICKS)).into_iter();
        let widths = ticks.map(|tick| font::width(&tick_label(tick), LABEL));
        (widths.fold(0.0, f64::max) + 42.0).ceil()
    }

    /// Places the entries of the legend in rows: the series, then the band.
    fn legend(&self) -> Vec<Entry> {
        let (left, end) = (self.left(), WIDTH - 16.0);
        let (mut x, mut row) = (left, 0);
        let series = self.series.iter().map(|series| &series.label);
        let labels = series.chain(self.band.iter().map(|band| &band.label));
        let entries = labels.map(|label| {
            let label = font::fit(label, LABEL, end - left - KEY - 8.0);
            let width = KEY + 8.0 + font::width(&label, LABEL);
            if x > left && x + width > end {
                (x, row) = (left, row + 1);
            }
            let entry = (x, row, label);
            x += width + 22.0;
            entry
        });
        entries.collect()
    }

    /// Returns the distance from the upper edge to the plot area.
    fn top(legend: &[Entry]) -> f64 {
        let rows = legend.last().map_or(0, |(_, row, _)| row + 1);
        HEAD + LEGEND_ROW * rows as f64 + 10.0
    }
}

impl Plot for LineChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn size(&self) -> (f64, f64) {
        (WIDTH, Self::top(&self.legend()) + PLOT_HEIGHT + X_LABELS)
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<B>, scale: f64) -> Drawn<B> {
        let units = |pixels: f64| (pixels * scale).round() as i32;
        let (left, legend) = (self.left(), self.legend());
        let title = font::fit(&self.title, TITLE, WIDTH - left - 12.0);
        let style = font::style(TITLE * scale, INK);
        area.draw_text(&title, &style, (units(left), units(16.0)))?;

        let labels = font::style(LABEL * scale, INK);
        let mut chart = ChartBuilder::on(area)
            .margin_top(units(Self::top(&legend)))
            .margin_right(units(RIGHT))
            .margin_left(units(EDGE))
            .margin_bottom(units(EDGE))
            .x_label_area_size(units(X_LABELS - EDGE))
            .y_label_area_size(units(left - EDGE))
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        if let Some(band) = &self.band {
            let corners = [(band.from, self.y.range.start), (band.to, self.y.range.end)];
            chart.draw_series([Rectangle::new(corners, SHADE.filled())])?;
        }
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.stroke_width(units(1.0) as u32))
            .axis_style(INK.stroke_width(units(1.0) as u32))
            .set_all_tick_mark_size(units(4.0))
            .label_style(labels.clone())
            .y_label_offset(units(DOWN))
            .x_labels(X_TICKS)
            .y_labels(Y_TICKS)
            .x_label_formatter(&|&tick| tick_label(tick))
            .y_label_formatter(&|&tick| tick_label(tick))
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .draw()?;

        for series in &self.series {
            let is_gap = |(x, y): &Point| !x.is_finite() || !y.is_finite();
            for part in series.points.split(is_gap).filter(|part| !part.is_empty()) {
                let points = part.iter().map(|point| chart.backend_coord(point));
                let points: Vec<Unit> = points.collect();
                series.draw(area, scale, &points, &points)?;
            }
        }

        // plotters draws its legend over the data with one entry per line, so this one is by hand.
        let style = labels.pos(Pos::new(HPos::Left, VPos::Center));
        for (index, (x, row, label)) in legend.into_iter().enumerate() {
            let at = |dx: f64, dy: f64| {
                let y = HEAD + LEGEND_ROW * (row as f64 + 0.5);
                (units(x + dx), units(y + dy))
            };
            if let Some(series) = self.series.get(index) {
                let line = [at(0.0, 0.0), at(KEY, 0.0)];
                series.draw(area, scale, &line, &[at(KEY / 2.0, 0.0)])?;
            } else {
                let corners = [at(0.0, -7.0), at(KEY, 7.0)];
                area.draw(&Rectangle::new(corners, SHADE.filled()))?;
            }
            area.draw_text(&label, &style, at(KEY + 8.0, DOWN))?;
        }
        Ok(())
    }
}

/// A point of the drawing area, in its units.
type Unit = (i32, i32);

/// Number of corners and turn of each marker: circle, square, triangle, diamond, and a triangle on
/// its tip.
const MARKERS: [(u32, f64); 5] = [(24, 0.0), (4, 0.125), (3, 0.75), (4, 0.0), (3, 0.25)];

impl Series {
    /// Draws a line through some points, and the series' marker at others.
    fn draw<B: DrawingBackend>(
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
        area.draw(&PathElement::new(line, style))?;
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

/// Keeps the first, lowest, highest and last point in each column of `column` units, which look the
/// same as all points.
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
    use crate::plot::axis::Spacing;
    use crate::plot::file::tests::{is_inside, lines, texts};

    const COLOR: RGBColor = RGBColor(1, 2, 3);

    fn series(points: Vec<Point>, marker: Option<usize>) -> Series {
        Series {
            label: "one".into(),
            points,
            color: COLOR,
            width: 2.0,
            marker,
        }
    }

    fn chart(series: Vec<Series>) -> LineChart {
        LineChart {
            title: "A chart".into(),
            x: Axis::new("across (steps)", 0.0..10.0, Spacing::Linear),
            y: Axis::new("upwards (nats)", 0.0..1.0, Spacing::Linear),
            series,
            band: None,
        }
    }

    #[test]
    fn points_lie_where_their_values_are() {
        let points = vec![(0.0, 0.0), (5.0, 0.5), (10.0, 1.0)];
        let svg = chart(vec![series(points, None)]).svg().unwrap();
        let lines = lines(&svg, COLOR);
        // One of the lines is the key in the legend.
        let [line, key] = &lines[..] else {
            panic!("{lines:?}");
        };
        let [a, b, c] = line[..] else {
            panic!("{line:?}");
        };
        assert!((b.0 - (a.0 + c.0) / 2.0).abs() <= 0.25, "{line:?}");
        assert!((b.1 - (a.1 + c.1) / 2.0).abs() <= 0.25, "{line:?}");
        assert!((a.1 - c.1 - PLOT_HEIGHT).abs() <= 0.25, "{line:?}");
        assert!((c.0 - (WIDTH - RIGHT)).abs() <= 0.25, "{line:?}");
        assert_eq!(key.len(), 2);
        assert!(key[0].1 < c.1, "the legend is above the data");
    }

    #[test]
    fn values_that_are_not_finite_leave_gaps_and_single_points_are_seen() {
        let points = vec![
            (0.0, 0.1),
            (1.0, 0.1),
            (2.0, f64::NAN),
            (3.0, 0.2),
            (4.0, f64::INFINITY),
        ];
        let svg = chart(vec![series(points, Some(0))]).svg().unwrap();
        let lines = lines(&svg, COLOR);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[1].len(), 2);
        assert!(lines[1][0].0 < lines[1][1].0, "{lines:?}");
        assert_eq!(svg.matches("<polygon").count(), 3 + 1);
    }

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

    #[test]
    fn title_axes_and_legend_are_drawn_inside_the_borders() {
        let many = (0..9).map(|i| {
            let mut series = series(vec![(1.0, 0.5)], Some(i));
            series.label = format!("a run with a rather long name, number {i}");
            series
        });
        let chart = chart(many.collect());
        let svg = chart.svg().unwrap();
        assert!(is_inside(&svg));
        let (width, height) = chart.size();
        let texts = texts(&svg);
        for text in texts.iter().filter(|text| !text.is_upward) {
            let length = font::width(&text.text, text.size);
            let left = match text.anchor.as_str() {
                "start" => text.at.0,
                "middle" => text.at.0 - length / 2.0,
                _ => text.at.0 - length,
            };
            assert!(left >= 0.0 && left + length <= width, "{text:?}");
            assert!(
                text.at.1 > 0.0 && text.at.1 + text.size * 0.2 < height,
                "{text:?}"
            );
        }
        for expected in [
            "A chart",
            "across (steps)",
            "upwards (nats)",
            "10",
            "0.8",
            "a run with a rather long name, number 8",
        ] {
            assert!(
                texts.iter().any(|text| text.text == expected),
                "{expected}: {texts:?}"
            );
        }
    }
}
