//! Line charts: title, legend, axes and lines, with the legend outside the plot area.

use plotters::backend::DrawingBackend;
use plotters::chart::ChartBuilder;
use plotters::element::{Circle, DashedPathElement, Polygon, Rectangle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, TRANSPARENT};

use super::axis::Axis;
use super::file::{Area, Drawn, Plot};
use super::font;
use super::legend::{self, BESIDE_ROW, Entry, KEY, KEY_GAP, ROW};
use super::series::{Point, Series, Unit};
use super::style::{DOWN, GRID, INK, LABEL, LEADER, SHADE, TITLE};

/// A shaded part of the x axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Legend text.
    pub label: String,
    /// First shaded value of the x axis.
    pub from: f64,
    /// Last shaded value of the x axis.
    pub to: f64,
}

/// A chart of lines. The chart has a legend above it or, if there are many lines, labels at the
/// ends of the lines.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// Title above the legend.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Lines. Later lines are drawn over earlier lines, and dashed lines over solid lines.
    pub series: Vec<Series>,
    /// Shaded part of the x axis, drawn behind all lines.
    pub band: Option<Band>,
    /// Legend text for the rings around points; empty without rings.
    pub ring_label: String,
}

/// Maximum number of lines in a legend. More lines are hard to match by their colours, so they have
/// labels at their ends instead.
const MAX_LEGEND: usize = 8;

/// Width of a chart without labels beside the plot area, in pixels.
const WIDTH: f64 = 820.0;
/// Minimum height of the plot area, in pixels.
const PLOT_HEIGHT: f64 = 340.0;
/// Height of the title, in pixels.
const HEAD: f64 = 39.0;
/// Height of the x axis with its labels, in pixels.
const X_LABELS: f64 = 50.0;
/// Space to the right of a plot area without labels beside it, in pixels.
const RIGHT: f64 = 34.0;
/// Margin at the edges of the chart, in pixels.
const EDGE: f64 = 8.0;
/// Distance between the plot area and the labels beside it, in pixels.
const BESIDE_GAP: f64 = 14.0;
/// Maximum width of the labels beside the plot area, in pixels.
const BESIDE: f64 = 270.0;

/// What an entry of the legend shows before its label.
#[derive(Clone, Copy)]
enum Key<'a> {
    Line(&'a Series),
    Shade,
    Ring,
}

/// Positions and sizes of the parts of a chart, in pixels.
struct Layout<'a> {
    /// Width of the y axis with its labels.
    left: f64,
    /// Width of the part to the right of the plot area.
    right: f64,
    /// Upper edge of the plot area.
    top: f64,
    /// Height of the plot area.
    height: f64,
    /// Width of the whole chart.
    width: f64,
    /// Keys and labels of the legend.
    entries: Vec<(Key<'a>, Entry)>,
    /// Lines that have a label at their end.
    beside: Vec<&'a Series>,
}

impl LineChart {
    fn layout(&self) -> Layout<'_> {
        let ticks = self.y.ticks().iter();
        let widths = ticks.map(|&tick| font::width(&self.y.tick_label(tick), LABEL));
        let left = (widths.fold(0.0, f64::max) + 42.0).ceil();
        let labelled = self.series.iter().filter(|series| !series.label.is_empty());
        let mut beside: Vec<&Series> = labelled.collect();
        let mut keys: Vec<(Key, &str)> = Vec::new();
        let mut right = RIGHT;
        if beside.len() <= MAX_LEGEND {
            let lines = beside.drain(..);
            keys.extend(lines.map(|series| (Key::Line(series), series.label.as_str())));
        } else {
            let widths = beside.iter().map(|line| font::width(&line.label, LABEL));
            right = BESIDE_GAP + KEY + KEY_GAP + widths.fold(0.0, f64::max).min(BESIDE) + EDGE;
        }
        keys.extend(
            self.band
                .iter()
                .map(|band| (Key::Shade, band.label.as_str())),
        );
        let ring = Some(self.ring_label.as_str()).filter(|label| !label.is_empty());
        keys.extend(ring.map(|label| (Key::Ring, label)));
        let (keys, labels): (Vec<_>, Vec<_>) = keys.into_iter().unzip();
        let mut entries = legend::rows(&labels, left, WIDTH - 16.0);
        entries.iter_mut().for_each(|entry| entry.y += HEAD);
        let below = entries.last().map_or(HEAD, |entry| entry.y + ROW / 2.0);
        Layout {
            left,
            right,
            top: below + 10.0,
            height: PLOT_HEIGHT.max(BESIDE_ROW * beside.len() as f64),
            width: WIDTH - RIGHT + right,
            entries: keys.into_iter().zip(entries).collect(),
            beside,
        }
    }
}

impl Plot for LineChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn size(&self) -> (f64, f64) {
        let layout = self.layout();
        (layout.width, layout.top + layout.height + X_LABELS)
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<B>, scale: f64) -> Drawn<B> {
        let units = |pixels: f64| (pixels * scale).round() as i32;
        let layout = self.layout();
        let title = font::fit(&self.title, TITLE, layout.width - layout.left - 12.0);
        let style = font::style(TITLE * scale, INK);
        area.draw_text(&title, &style, (units(layout.left), units(16.0)))?;

        let labels = font::style(LABEL * scale, INK);
        let mut chart = ChartBuilder::on(area)
            .margin_top(units(layout.top))
            .margin_right(units(layout.right))
            .margin_left(units(EDGE))
            .margin_bottom(units(EDGE))
            .x_label_area_size(units(X_LABELS - EDGE))
            .y_label_area_size(units(layout.left - EDGE))
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
            .x_label_formatter(&|&tick| self.x.tick_label(tick))
            .y_label_formatter(&|&tick| self.y.tick_label(tick))
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .draw()?;

        let (dashed, solid): (Vec<_>, Vec<_>) = self.series.iter().partition(|line| line.dash > 0);
        let lines = solid.iter().chain(&dashed);
        for series in lines.clone() {
            let bounds: Vec<_> = series.points.iter().zip(&series.spread).collect();
            let parts = bounds.split(|(point, _)| !point.1.is_finite());
            for part in parts.filter(|part| !part.is_empty()) {
                let place = |x, y| chart.backend_coord(&(x, y));
                let low = part.iter().map(|(point, (low, _))| place(point.0, *low));
                let high = part
                    .iter()
                    .rev()
                    .map(|(point, (_, high))| place(point.0, *high));
                let outline: Vec<Unit> = low.chain(high).collect();
                area.draw(&Polygon::new(outline, series.color.mix(0.18).filled()))?;
            }
        }
        for series in lines.clone() {
            let is_gap = |(x, y): &Point| !x.is_finite() || !y.is_finite();
            for part in series.points.split(is_gap).filter(|part| !part.is_empty()) {
                let points = part.iter().map(|point| chart.backend_coord(point));
                let points: Vec<Unit> = points.collect();
                series.draw(area, scale, &points, &points)?;
            }
        }
        for ring in lines.filter_map(|series| series.ring.as_ref()) {
            draw_ring(area, scale, chart.backend_coord(ring))?;
        }

        // plotters would draw a legend over the data, with one entry in each row. So the legend is
        // drawn here instead.
        let style = labels.pos(Pos::new(HPos::Left, VPos::Center));
        let ends = layout.beside.iter().map(|series| {
            let end = series.points.iter().rfind(|point| point.1.is_finite());
            chart.backend_coord(end.unwrap_or(&(self.x.range.end, self.y.range.end)))
        });
        let ends: Vec<Unit> = ends.collect();
        let heights: Vec<f64> = ends.iter().map(|end| f64::from(end.1) / scale).collect();
        let heights = legend::apart(&heights, layout.top, layout.top + layout.height);
        let x = layout.width - layout.right + BESIDE_GAP;
        let beside = layout.beside.iter().zip(heights).map(|(&series, y)| {
            let label = font::fit(&series.label, LABEL, BESIDE);
            (Key::Line(series), Entry { x, y, label })
        });
        for (end, (_, entry)) in ends.into_iter().zip(beside.clone()) {
            let leader = [end, (units(entry.x), units(entry.y))];
            // The line from a curve to its label is dotted and grey, so that it does not look like
            // a part of the curve.
            let style = LEADER.stroke_width(units(1.0) as u32);
            area.draw(&DashedPathElement::new(
                leader,
                units(1.5),
                units(4.0),
                style,
            ))?;
        }
        for (key, entry) in layout.entries.iter().cloned().chain(beside) {
            let at = |dx: f64, dy: f64| (units(entry.x + dx), units(entry.y + dy));
            match key {
                Key::Line(series) => {
                    let line = [at(0.0, 0.0), at(KEY, 0.0)];
                    series.draw(area, scale, &line, &[at(KEY / 2.0, 0.0)])?;
                }
                Key::Shade => {
                    let corners = [at(0.0, -7.0), at(KEY, 7.0)];
                    area.draw(&Rectangle::new(corners, SHADE.filled()))?;
                }
                Key::Ring => draw_ring(area, scale, at(KEY / 2.0, 0.0))?,
            }
            area.draw_text(&entry.label, &style, at(KEY + KEY_GAP, DOWN))?;
        }
        Ok(())
    }
}

fn draw_ring<B: DrawingBackend>(area: &Area<B>, scale: f64, at: Unit) -> Drawn<B> {
    let style = INK.stroke_width((1.5 * scale) as u32);
    area.draw(&Circle::new(at, (7.0 * scale) as i32, style))
}

#[cfg(test)]
mod tests {
    use plotters::style::RGBColor;

    use super::*;
    use crate::plot::file::tests::{is_inside, lines, texts};

    const COLOR: RGBColor = RGBColor(1, 2, 3);

    fn series(points: Vec<Point>, marker: Option<usize>) -> Series {
        Series {
            color: COLOR,
            marker,
            ..Series::new(0, "one", points)
        }
    }

    fn chart(series: Vec<Series>) -> LineChart {
        LineChart {
            title: "A chart".into(),
            x: Axis::linear("across (steps)", 0.0..10.0),
            y: Axis::linear("upwards (nats)", 0.0..1.0),
            series,
            band: None,
            ring_label: String::new(),
        }
    }

    #[test]
    fn points_lie_where_their_values_are() {
        let points = vec![(0.0, 0.0), (5.0, 0.5), (10.0, 1.0)];
        let svg = chart(vec![series(points, None)]).svg().unwrap();
        let lines = lines(&svg, COLOR);
        // The second line is the key in the legend.
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
    fn many_lines_have_their_labels_at_their_ends() {
        let line = |i: usize| {
            let mut series = Series::new(i, format!("run {i}"), vec![(0.0, 0.1), (10.0, 0.5)]);
            series.points[1].1 += i as f64 / 100.0;
            series
        };
        let svg = chart((0..10).map(line).collect()).svg().unwrap();
        let texts = texts(&svg);
        let labels: Vec<_> = (0..10)
            .map(|i| {
                texts
                    .iter()
                    .find(|text| text.text == format!("run {i}"))
                    .unwrap()
            })
            .collect();
        assert!(labels.iter().all(|label| label.at.0 > WIDTH - RIGHT));
        // Labels are in the order of the lines, and at least `BESIDE_ROW` apart, up to rounding.
        for pair in labels.windows(2) {
            assert!(pair[0].at.1 >= pair[1].at.1 + BESIDE_ROW - 0.5, "{pair:?}");
        }
        assert!(is_inside(&svg));
        let few = chart((0..8).map(line).collect());
        let labels = texts_above(&few);
        assert_eq!(labels, 8);
    }

    /// Returns the number of labels of runs above the plot area.
    fn texts_above(chart: &LineChart) -> usize {
        let top = chart.layout().top;
        let texts = texts(&chart.svg().unwrap());
        let labels = texts.iter().filter(|text| text.text.starts_with("run "));
        labels.filter(|text| text.at.1 < top).count()
    }

    #[test]
    fn title_axes_and_legend_are_drawn_inside_the_borders() {
        let many = (0..8).map(|i| {
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
            "a run with a rather long name, number 7",
        ] {
            assert!(
                texts.iter().any(|text| text.text == expected),
                "{expected}: {texts:?}"
            );
        }
    }
}
