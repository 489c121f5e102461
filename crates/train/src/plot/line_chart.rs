//! Line charts: title, legend, axes and lines, with the legend above the plot area.

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, DashedPathElement, PathElement, Polygon, Rectangle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, TRANSPARENT};
use serde_json::{Value, json};
use training::run::Point;

use super::axis::Axis;
use super::file::{Area, Drawn, Plot};
use super::style::{
    FAINT, GRID, INK, LABEL, SCALE, SERIES, SHADE, TITLE, fit, font, stroke, units, width,
};
use crate::metric;

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Legend text; empty for a line without an entry.
    pub label: String,
    /// Metric that the line shows.
    pub field: &'static str,
    /// Values in drawing order. A value that is not finite leaves a gap.
    pub points: Vec<Point>,
    /// Lowest and highest y value of the pale area around each point; empty without an area.
    pub spread: Vec<(f64, f64)>,
    /// Index of the colour in [`SERIES`], modulo their number; `None` for a thin faint line.
    pub color: Option<usize>,
    /// Number of the dash pattern in [`DASHES`], counted from 1; 0 for a solid line.
    pub dash: usize,
    /// Whether the line has the raw values behind a smoothed line. It is thin and pale.
    pub is_raw: bool,
    /// Point that has a ring around it, if any.
    pub ring: Option<Point>,
}

/// A chart of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// Title above the legend; empty for none.
    pub title: String,
    /// Horizontal axis, which is linear.
    pub x: Axis,
    pub y: Axis,
    /// Lines. Later lines are drawn over earlier ones.
    pub lines: Vec<Line>,
    /// First and last value of a shaded part of the x axis, with its legend text.
    pub band: Option<(f64, f64, &'static str)>,
    /// Legend text for the rings around points; empty without rings.
    pub ring_label: String,
}

/// The x and the y coordinate of a point, in units of the drawing area.
type Unit = (i32, i32);

/// Length of the dashes and of the gaps of each dash pattern, in pixels.
pub const DASHES: [(f64, f64); 3] = [(7.0, 4.0), (2.5, 3.0), (14.0, 4.0)];

/// Maximum number of points of a line whose values a script can show.
const HOVERED: usize = 200;

/// Maximum number of points of a line with markers.
const MARKERS: usize = 60;

/// Width of a chart in pixels.
const WIDTH: f64 = 680.0;
/// Height of the plot area in pixels.
const HEIGHT: f64 = 280.0;
/// Height of the title, in pixels.
const HEAD: f64 = 31.0;
/// Height of the x axis with its labels, in pixels.
const X_LABELS: f64 = 50.0;
/// Space to the right of the plot area, in pixels.
const RIGHT: f64 = 30.0;
/// Margin at the edges of the chart, in pixels.
const EDGE: f64 = 8.0;
/// Width of a key, the piece of line before a label of the legend, and its distance from the label.
const KEY: (f64, f64) = (26.0, 8.0);
/// Height of a row of the legend, in pixels.
const ROW: f64 = 20.0;

/// What an entry of the legend shows before its label.
enum Key<'a> {
    Line(&'a Line),
    Shade,
    Ring,
}

/// An entry of the legend: what it shows, its label, its left end and the middle of its row.
type Entry<'a> = (Key<'a>, String, f64, f64);

impl LineChart {
    /// Returns the left edge of the plot area, in pixels.
    fn left(&self) -> f64 {
        let ticks = self.y.ticks.iter();
        let widths = ticks.map(|&tick| width(&self.y.tick_label(tick), LABEL));
        (widths.fold(0.0, f64::max) + 42.0).ceil()
    }

    /// Returns the entries of the legend, in as many rows as they need, and the upper edge of the
    /// plot area.
    fn legend(&self) -> (Vec<Entry<'_>>, f64) {
        let lines = self.lines.iter().filter(|line| !line.label.is_empty());
        let lines = lines.map(|line| (Key::Line(line), line.label.as_str()));
        let band = self.band.iter().map(|(_, _, label)| (Key::Shade, *label));
        let ring = Some(self.ring_label.as_str()).filter(|label| !label.is_empty());
        let ring = ring.map(|label| (Key::Ring, label));
        let keys = lines.chain(band).chain(ring);
        let (left, right) = (self.left(), WIDTH - 16.0);
        let head = if self.title.is_empty() { 0.0 } else { HEAD };
        let (mut x, mut y) = (left, head + EDGE + ROW / 2.0);
        let entry = |(key, label)| {
            let label = fit(label, LABEL, right - left - KEY.0 - KEY.1);
            let width = KEY.0 + KEY.1 + width(&label, LABEL);
            if x > left && x + width > right {
                (x, y) = (left, y + ROW);
            }
            let entry = (key, label, x, y);
            x += width + 22.0;
            entry
        };
        let entries: Vec<Entry> = keys.map(entry).collect();
        let last = entries.last();
        let below = last.map_or(head + EDGE, |entry| entry.3 + ROW / 2.0);
        (entries, below + 10.0)
    }

    /// Returns the values that a script shows: left and right edge of the plot area as shares of the
    /// width, first and last value and label of the x axis, and label, colour and some values of
    /// each line.
    pub fn hover(&self) -> Value {
        let line = |line: &Line| {
            let every = line.points.len().div_ceil(HOVERED).max(1);
            let points = line.points.iter().step_by(every);
            let points = points.map(|(x, y)| (*x, metric::text(line.field, *y)));
            let (x, y): (Vec<f64>, Vec<String>) = points.unzip();
            // What follows the name says how the line is drawn.
            let label = line.label.split(", ").next();
            let color = line.color.map(|color| color % SERIES.len());
            json!({ "label": label, "color": color, "x": x, "y": y })
        };
        let named = self.lines.iter().filter(|line| !line.label.is_empty());
        json!({
            "edges": [self.left() / WIDTH, 1.0 - RIGHT / WIDTH],
            "range": [self.x.range.start, self.x.range.end],
            "x_label": self.x.label,
            "lines": named.map(line).collect::<Value>(),
        })
    }
}

impl Plot for LineChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn size(&self) -> (f64, f64) {
        let (_, top) = self.legend();
        (WIDTH, top + HEIGHT + X_LABELS)
    }

    fn draw(&self, area: &Area) -> Drawn {
        let left = self.left();
        let (entries, top) = self.legend();
        // A long title is smaller, and cut only where it would be smaller than the labels.
        let room = WIDTH - left - 12.0;
        let size = (TITLE * room / width(&self.title, TITLE)).clamp(LABEL, TITLE);
        let title = fit(&self.title, size, room);
        area.draw_text(&title, &font(size, INK), (units(left), units(14.0)))?;
        let labels = font(LABEL, INK);
        let mut chart = ChartBuilder::on(area)
            .margin_top(units(top))
            .margin_right(units(RIGHT))
            .margin_left(units(EDGE))
            .margin_bottom(units(EDGE))
            .x_label_area_size(units(X_LABELS - EDGE))
            .y_label_area_size(units(left - EDGE))
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        if let Some((from, to, _)) = self.band {
            let corners = [(from, self.y.range.start), (to, self.y.range.end)];
            chart.draw_series([Rectangle::new(corners, SHADE.filled())])?;
        }
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(stroke(GRID, 1.0))
            .axis_style(stroke(INK, 1.0))
            .set_all_tick_mark_size(units(4.0))
            .label_style(labels.clone())
            .x_label_formatter(&|&tick| self.x.tick_label(tick))
            .y_label_formatter(&|&tick| self.y.tick_label(tick))
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .draw()?;
        let place = |x, y| chart.backend_coord(&(x, y));
        for line in self.lines.iter().filter(|line| !line.spread.is_empty()) {
            let bounds: Vec<_> = line.points.iter().zip(&line.spread).collect();
            for part in bounds.split(|(point, _)| !point.1.is_finite()) {
                let low = part.iter().map(|(point, (low, _))| place(point.0, *low));
                let high = part.iter().rev();
                let high = high.map(|(point, (_, high))| place(point.0, *high));
                let outline: Vec<Unit> = low.chain(high).collect();
                area.draw(&Polygon::new(outline, line.rgb().mix(0.18).filled()))?;
            }
        }
        for line in &self.lines {
            let is_gap = |(x, y): &Point| !x.is_finite() || !y.is_finite();
            for part in line.points.split(is_gap).filter(|part| !part.is_empty()) {
                let points = part.iter().map(|&(x, y)| place(x, y)).collect();
                line.draw(area, points)?;
            }
        }
        for &(x, y) in self.lines.iter().filter_map(|line| line.ring.as_ref()) {
            draw_ring(area, place(x, y))?;
        }
        // plotters would draw a legend over the data, with one entry in each row. So the legend is
        // drawn here instead.
        let style = labels.pos(Pos::new(HPos::Left, VPos::Center));
        for (key, label, x, y) in entries {
            let at = |dx: f64, dy: f64| (units(x + dx), units(y + dy));
            match key {
                Key::Line(line) => line.draw(area, vec![at(0.0, 0.0), at(KEY.0, 0.0)])?,
                Key::Shade => {
                    let corners = [at(0.0, -7.0), at(KEY.0, 7.0)];
                    area.draw(&Rectangle::new(corners, SHADE.filled()))?;
                }
                Key::Ring => draw_ring(area, at(KEY.0 / 2.0, 0.0))?,
            }
            area.draw_text(&label, &style, at(KEY.0 + KEY.1, 1.0))?;
        }
        Ok(())
    }
}

fn draw_ring(area: &Area, at: Unit) -> Drawn {
    area.draw(&Circle::new(at, units(7.0), stroke(INK, 1.5)))
}

impl Line {
    /// Returns the heights of the points and of the upper ends of the spread.
    pub fn heights(&self) -> impl Iterator<Item = f64> {
        self.points.iter().chain(&self.spread).map(|point| point.1)
    }

    fn rgb(&self) -> RGBColor {
        self.color.map_or(FAINT, |it| SERIES[it % SERIES.len()].0)
    }

    /// Draws the line through some points, with markers if its metric is known at few points only.
    fn draw(&self, area: &Area, line: Vec<Unit>) -> Drawn {
        let is_thin = self.is_raw || self.color.is_none();
        let width = if is_thin { 1.0 } else { 2.0 };
        let opacity = if self.is_raw { 0.38 } else { 1.0 };
        let style = self.rgb().mix(opacity).stroke_width(units(width) as u32);
        let is_few = self.points.len() <= MARKERS && !is_thin;
        for &at in line.iter().filter(|_| is_few) {
            area.draw(&Circle::new(at, units(3.0), self.rgb().filled()))?;
        }
        let line = thin_out(&line, 2 * SCALE as i32);
        if self.dash == 0 {
            area.draw(&PathElement::new(line, style))
        } else {
            let (length, gap) = DASHES[(self.dash - 1) % DASHES.len()];
            let dashes = DashedPathElement::new(line, units(length), units(gap), style);
            area.draw(&dashes)
        }
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
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::file::tests::{is_inside, lines};

    fn line(index: usize, points: Vec<Point>) -> Line {
        Line {
            label: format!("a run with a rather long name, number {index}"),
            field: "loss",
            points,
            spread: Vec::new(),
            color: Some(index),
            dash: index / 7,
            is_raw: false,
            ring: None,
        }
    }

    fn chart(lines: Vec<Line>) -> LineChart {
        LineChart {
            title: "A chart".into(),
            x: Axis::within("across (steps)", 0.0..10.0, 5, 0.0),
            y: Axis::around("upwards (nats)", 0.0, 1.0, 5),
            lines,
            band: Some((2.0, 3.0, "a band")),
            ring_label: String::new(),
        }
    }

    #[test]
    fn points_lie_where_their_values_are() {
        let svg = chart(vec![line(0, vec![(0.0, 0.0), (5.0, 0.5), (10.0, 1.0)])]);
        let svg = svg.svg();
        let lines = lines(&svg, SERIES[0].0);
        // The second line is the key in the legend.
        let [line, key] = &lines[..] else {
            panic!("{lines:?}");
        };
        let [a, b, c] = line[..] else {
            panic!("{line:?}");
        };
        assert!((b.0 - (a.0 + c.0) / 2.0).abs() <= 0.25, "{line:?}");
        assert!((b.1 - (a.1 + c.1) / 2.0).abs() <= 0.25, "{line:?}");
        assert!((a.1 - c.1 - HEIGHT).abs() <= 0.5, "{line:?}");
        assert!((c.0 - (WIDTH - RIGHT)).abs() <= 0.25, "{line:?}");
        assert!(key[0].1 < c.1, "the legend is above the data");
    }

    #[test]
    fn values_that_are_not_finite_leave_gaps() {
        let points = [0.1, 0.1, f64::NAN, 0.2, f64::INFINITY, 0.3, 0.4];
        let points = (0..).map(f64::from).zip(points).collect();
        let svg = chart(vec![line(0, points)]).svg();
        let lengths: Vec<usize> = lines(&svg, SERIES[0].0).iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 1, 2, 2]);
        assert_eq!(svg.matches("<circle").count(), 5 + 2);
    }

    #[test]
    fn everything_is_drawn_inside_the_borders() {
        let chart = chart(
            (0..20)
                .map(|i| line(i, vec![(1.0, 0.5), (2.0, 7.0)]))
                .collect(),
        );
        let svg = chart.svg();
        assert!(is_inside(&svg));
        for text in ["A chart", "across (steps)", "0.8", "a band", "number 19"] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn many_points_keep_their_extremes() {
        let mut points: Vec<Unit> = (0..100_000).map(|i| (i / 250, 8 * (i % 7))).collect();
        points[54_321].1 = 99;
        let thin = thin_out(&points, 4);
        assert!(thin.len() <= 400, "{}", thin.len());
        assert!(thin.contains(&(217, 99)));
        assert_eq!((thin[0], thin[thin.len() - 1]), (points[0], points[99_999]));
    }

    #[test]
    fn a_script_gets_few_values() {
        let points = (0..100_000).map(|i| (f64::from(i), 0.25)).collect();
        let hover = chart(vec![line(9, points)]).hover();
        let line = &hover["lines"][0];
        assert_eq!(line["color"], 2);
        assert_eq!(line["y"][7], "0.2500");
        assert_eq!(line["x"].as_array().unwrap().len(), HOVERED);
        assert_eq!(hover["range"], json!([0.0, 10.0]));
        let edges: [f64; 2] = serde_json::from_value(hover["edges"].clone()).unwrap();
        assert!(0.0 < edges[0] && edges[0] < edges[1] && edges[1] < 1.0);
    }
}
