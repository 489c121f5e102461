//! Charts of lines: title, legend, axes, and no mark over another one's words.

use super::axis::Axis;
use super::drawing::{Anchor, Color, Drawing, Mark, Point};
use super::font;
use super::marker::Marker;
use super::style::{self, GRID, INK, LABEL, SHADE};

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// In the legend.
    pub label: String,
    /// Values of both axes, in their order; one that is no number leaves a gap.
    pub points: Vec<Point>,
    /// Of the line.
    pub color: Color,
    /// Of the line.
    pub width: f64,
    /// Of each point.
    pub marker: Marker,
}

/// A part of the x axis that is shaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// What it is.
    pub label: String,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

/// A chart of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// Above all.
    pub title: String,
    /// Width of the picture.
    pub width: f64,
    /// Height of the plot, without what stands around it.
    pub plot_height: f64,
    /// Across.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// Later ones are drawn over earlier ones.
    pub series: Vec<Series>,
    /// Below all lines.
    pub band: Option<Band>,
}

/// Makes each line wider than those over it, so that it is seen where they coincide.
pub fn widen_lower(series: &mut [Series]) {
    for (above, series) in series.iter_mut().rev().enumerate() {
        series.width += 1.6 * above.min(4) as f64;
    }
}

const LEGEND_ROW: f64 = 20.0;
const KEY: f64 = 26.0;

/// Where the plot is.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl LineChart {
    /// Draws it.
    pub fn draw(&self) -> Drawing {
        let labels = self.y.ticks.iter().map(|&tick| self.y.tick_label(tick));
        let widest = labels
            .map(|label| font::width(&label, LABEL))
            .fold(0.0, f64::max);
        let left = (widest + 42.0).ceil();
        let width = self.width - left - 28.0;

        let mut drawing = Drawing::new(&self.title, self.width, 0.0);
        let mut top = style::head(&mut drawing, left, None);
        top = self.legend(&mut drawing, left, top) + 10.0;
        let frame = Frame {
            left,
            top,
            width,
            height: self.plot_height,
        };
        drawing.height = top + frame.height + 54.0;
        self.background(&mut drawing, &frame);
        self.axes(&mut drawing, &frame);
        for series in &self.series {
            frame.line(&mut drawing, self, series);
        }
        drawing
    }

    /// Below the title, in as many rows as it needs. Returns where it ends.
    fn legend(&self, drawing: &mut Drawing, left: f64, top: f64) -> f64 {
        let end = self.width - 16.0;
        let (mut x, mut y) = (left, top + LEGEND_ROW / 2.0);
        let band = self.band.iter().map(|band| (&band.label, None));
        let series = self
            .series
            .iter()
            .map(|series| (&series.label, Some(series)));
        for (label, series) in series.chain(band) {
            let label = font::fit(label, LABEL, end - left - KEY - 8.0);
            let width = KEY + 8.0 + font::width(&label, LABEL);
            if x > left && x + width > end {
                (x, y) = (left, y + LEGEND_ROW);
            }
            match series {
                Some(series) => {
                    drawing.marks.push(Mark::Line {
                        points: vec![(x, y), (x + KEY, y)],
                        color: series.color,
                        width: series.width,
                    });
                    let center = (x + KEY / 2.0, y);
                    drawing
                        .marks
                        .extend(series.marker.mark(center, series.width, series.color));
                }
                None => drawing.marks.push(Mark::Rectangle {
                    corner: (x, y - 7.0),
                    size: (KEY, 14.0),
                    color: SHADE,
                }),
            }
            let at = (x + KEY + 8.0, y + 0.36 * LABEL);
            drawing
                .marks
                .push(style::text(label, at, LABEL, INK, Anchor::Start));
            x += width + 22.0;
        }
        y + LEGEND_ROW / 2.0
    }

    fn background(&self, drawing: &mut Drawing, frame: &Frame) {
        let bottom = frame.top + frame.height;
        if let Some(band) = &self.band {
            let from = frame.left + frame.width * self.x.place(band.from);
            let to = frame.left + frame.width * self.x.place(band.to);
            drawing.marks.push(Mark::Rectangle {
                corner: (from, frame.top),
                size: (to - from, frame.height),
                color: SHADE,
            });
        }
        for &tick in &self.y.ticks {
            let y = bottom - frame.height * self.y.place(tick);
            drawing.marks.push(Mark::Line {
                points: vec![(frame.left, y), (frame.left + frame.width, y)],
                color: GRID,
                width: 1.0,
            });
        }
    }

    fn axes(&self, drawing: &mut Drawing, frame: &Frame) {
        let (left, top) = (frame.left, frame.top);
        let (right, bottom) = (left + frame.width, top + frame.height);
        let mut line = |points: Vec<Point>| {
            drawing.marks.push(Mark::Line {
                points,
                color: INK,
                width: 1.0,
            });
        };
        line(vec![(left, top), (left, bottom), (right, bottom)]);
        let ticks = |axis: &Axis| {
            let places = axis
                .ticks
                .iter()
                .map(|&tick| (axis.place(tick), axis.tick_label(tick)));
            places.collect::<Vec<_>>()
        };
        let (x_ticks, y_ticks) = (ticks(&self.x), ticks(&self.y));
        for (place, _) in &x_ticks {
            let x = left + frame.width * place;
            line(vec![(x, bottom), (x, bottom + 5.0)]);
        }
        for (place, _) in &y_ticks {
            let y = bottom - frame.height * place;
            line(vec![(left - 5.0, y), (left, y)]);
        }
        for (place, label) in x_ticks {
            let at = (left + frame.width * place, bottom + 19.0);
            drawing
                .marks
                .push(style::text(label, at, LABEL, INK, Anchor::Middle));
        }
        for (place, label) in y_ticks {
            let at = (left - 9.0, bottom - frame.height * place + 0.36 * LABEL);
            drawing
                .marks
                .push(style::text(label, at, LABEL, INK, Anchor::End));
        }
        let at = (left + frame.width / 2.0, bottom + 42.0);
        drawing
            .marks
            .push(style::text(&self.x.label, at, LABEL, INK, Anchor::Middle));
        let at = (19.0, top + frame.height / 2.0);
        drawing
            .marks
            .push(style::upwards(&self.y.label, at, LABEL, Anchor::Middle));
    }
}

impl Frame {
    fn line(&self, drawing: &mut Drawing, chart: &LineChart, series: &Series) {
        let pixel = |&(x, y): &Point| {
            let right = self.left + self.width * chart.x.place(x);
            (right, self.top + self.height * (1.0 - chart.y.place(y)))
        };
        let unbroken = series
            .points
            .split(|(x, y)| !x.is_finite() || !y.is_finite());
        for part in unbroken.filter(|part| !part.is_empty()) {
            let points: Vec<Point> = part.iter().map(pixel).collect();
            let markers = points
                .iter()
                .flat_map(|&at| series.marker.mark(at, series.width, series.color));
            let markers: Vec<Mark> = markers.collect();
            drawing.marks.push(Mark::Line {
                // A point alone is a line of its own width, so that it is seen.
                points: match points[..] {
                    [(x, y)] => vec![(x - 1.0, y), (x + 1.0, y)],
                    _ => thin_out(&points),
                },
                color: series.color,
                width: series.width,
            });
            drawing.marks.extend(markers);
        }
    }
}

/// Of many points in one column of pixels, the first, the lowest, the highest and the last: what
/// is seen is the same.
fn thin_out(points: &[Point]) -> Vec<Point> {
    let columns = points.chunk_by(|a, b| a.0.floor() == b.0.floor());
    let kept = columns.flat_map(|column| {
        let indices = 0..column.len();
        let height = |&i: &usize, &j: &usize| column[i].1.total_cmp(&column[j].1);
        let lowest = indices.clone().min_by(height).unwrap_or(0);
        let highest = indices.max_by(height).unwrap_or(0);
        let mut kept = vec![0, lowest, highest, column.len() - 1];
        kept.sort_unstable();
        kept.dedup();
        kept.into_iter().map(|i| column[i])
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(points: Vec<Point>, marker: Marker) -> Series {
        Series {
            label: "one".into(),
            points,
            color: Color(1, 2, 3),
            width: 2.0,
            marker,
        }
    }

    fn chart(series: Vec<Series>) -> LineChart {
        LineChart {
            title: "A chart".into(),
            width: 400.0,
            plot_height: 200.0,
            x: Axis::linear("across (steps)", 0.0, 10.0, 5),
            y: Axis::linear("upwards (nats)", 0.0, 1.0, 5),
            series,
            band: None,
        }
    }

    fn lines(drawing: &Drawing) -> Vec<&[Point]> {
        let lines = drawing.marks.iter().filter_map(|mark| match mark {
            Mark::Line { points, color, .. } if *color == Color(1, 2, 3) => Some(&points[..]),
            _ => None,
        });
        lines.collect()
    }

    #[test]
    fn points_stand_where_their_values_are() {
        let drawing = chart(vec![series(
            vec![(0.0, 0.0), (5.0, 0.5), (10.0, 1.0)],
            Marker::None,
        )])
        .draw();
        let lines = lines(&drawing);
        // The legend's key, and the line.
        let [[_, _], [a, b, c]] = lines[..] else {
            panic!("{lines:?}");
        };
        assert_eq!((b.0, b.1), ((a.0 + c.0) / 2.0, (a.1 + c.1) / 2.0));
        assert_eq!((a.1 - c.1, c.0), (200.0, 372.0));
    }

    #[test]
    fn numbers_that_are_none_leave_gaps_and_single_points_are_seen() {
        let points = vec![
            (0.0, 0.1),
            (1.0, 0.1),
            (2.0, f64::NAN),
            (3.0, 0.2),
            (4.0, f64::INFINITY),
        ];
        let drawing = chart(vec![series(points, Marker::Circle)]).draw();
        let lines = lines(&drawing);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[2].len(), 2);
        let dots = drawing
            .marks
            .iter()
            .filter(|mark| matches!(mark, Mark::Dot { .. }));
        assert_eq!(dots.count(), 1 + 3);
    }

    #[test]
    fn many_points_keep_their_extremes() {
        let mut points: Vec<Point> = (0..100_000)
            .map(|i| (f64::from(i) / 1000.0, f64::from(i % 7)))
            .collect();
        points[54_321].1 = 99.0;
        let thin = thin_out(&points);
        assert!(thin.len() <= 400, "{}", thin.len());
        assert!(thin.contains(&(54.321, 99.0)));
        assert_eq!((thin[0], thin[thin.len() - 1]), (points[0], points[99_999]));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0));
        let few = [(0.0, 1.0), (5.0, 2.0), (9.0, 0.0)];
        assert_eq!(thin_out(&few), few);
    }

    #[test]
    fn title_axes_and_legend_are_written_and_inside() {
        let many = (0..9).map(|i| {
            let mut series = series(vec![(1.0, 0.5)], Marker::of(i));
            series.label = format!("a run with a rather long name, number {i}");
            series
        });
        let drawing = chart(many.collect()).draw();
        let mut texts = Vec::new();
        for mark in &drawing.marks {
            let Mark::Text {
                text,
                at,
                size,
                anchor,
                upwards: false,
                ..
            } = mark
            else {
                continue;
            };
            texts.push(text.as_str());
            let width = font::width(text, *size);
            let left = match anchor {
                Anchor::Start => at.0,
                Anchor::Middle => at.0 - width / 2.0,
                Anchor::End => at.0 - width,
            };
            assert!(
                left >= 0.0 && left + width <= drawing.width,
                "{text} at {at:?}"
            );
            assert!(
                at.1 > size * 0.8 && at.1 < drawing.height - 3.0,
                "{text} at {at:?}"
            );
        }
        for expected in [
            "A chart",
            "across (steps)",
            "10",
            "0.8",
            "a run with a rather long name, number 8",
        ] {
            assert!(texts.contains(&expected), "{expected}: {texts:?}");
        }
        assert!(drawing.svg().unwrap().contains("upwards (nats)"));
    }
}
