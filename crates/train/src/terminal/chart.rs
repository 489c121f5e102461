//! Charts of curves for the terminal, drawn with characters.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Axis, Block, Borders, Chart as Axes, Dataset, GraphType, Paragraph, Widget,
};

use crate::number::{grouped, short};

/// Minimum width and height of a chart, in columns and rows. A smaller area has no room for axes
/// and a curve.
pub(super) const MIN_SIZE: (u16, u16) = (24, 5);

/// A curve of a chart.
#[derive(Clone, Debug)]
pub(super) struct Curve<'a> {
    /// Name in the title; empty if the title names the curve already.
    pub(super) name: &'static str,
    /// Points, each a step and its value.
    pub(super) points: &'a [(f64, f64)],
    pub(super) look: Look,
}

/// Style of a curve. The styles also differ in shape, for terminals without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A thin line, for values of training steps.
    Line,
    /// A dot for each value, for values at evaluations only.
    Dots,
}

impl Look {
    fn marker(self) -> Marker {
        match self {
            Self::Line => Marker::Braille,
            Self::Dots => Marker::Dot,
        }
    }

    /// Returns the characters that stand for the curve in the title.
    fn sample(self) -> &'static str {
        match self {
            Self::Line => "⠒⠒",
            Self::Dots => "•",
        }
    }

    fn style(self, has_color: bool) -> Style {
        match self {
            _ if !has_color => Style::new(),
            Self::Line => Style::new().fg(Color::Cyan),
            Self::Dots => Style::new().fg(Color::Yellow),
        }
    }
}

/// Curves over steps, below a title.
#[derive(Clone, Debug)]
pub(super) struct Chart<'a> {
    pub(super) title: String,
    pub(super) curves: Vec<Curve<'a>>,
    /// Whether the vertical axis is logarithmic, provided that all values are positive.
    pub(super) is_log: bool,
    /// First and last step that the horizontal axis must show.
    pub(super) steps: [f64; 2],
    /// Lowest and highest value that the vertical axis must show, if any.
    pub(super) range: Option<[f64; 2]>,
    pub(super) has_color: bool,
    /// Text that the chart shows if no curve has points.
    pub(super) empty: &'static str,
}

impl Chart<'_> {
    fn title(&self, is_log: bool, width: u16) -> Line<'static> {
        let scale = match (is_log, width < 44) {
            (true, true) => " (log)",
            (true, false) => " (log scale)",
            (false, _) => "",
        };
        let mut spans = vec![Span::raw(format!("{}{scale}", self.title))];
        for curve in self.curves.iter().filter(|curve| !curve.name.is_empty()) {
            let style = curve.look.style(self.has_color);
            spans.push(Span::raw("  "));
            spans.push(Span::styled(curve.look.sample(), style));
            spans.push(Span::raw(format!(" {}", curve.name)));
        }
        spans.push(Span::raw(" "));
        Line::from(spans)
    }
}

impl Widget for Chart<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
            return;
        }
        let values = || self.curves.iter().flat_map(|curve| curve.points);
        let is_log = self.is_log && values().all(|&(_, y)| y > 0.0);
        let block = Block::new()
            .borders(Borders::TOP)
            .title(self.title(is_log, area.width));
        let y_count = match area.height {
            ..8 => 2,
            8..14 => 3,
            _ => 5,
        };
        let Some(mut bounds) = Bounds::of(values(), self.steps, self.range, is_log) else {
            let inner = block.inner(area);
            block.render(area, buffer);
            Paragraph::new(self.empty).centered().render(inner, buffer);
            return;
        };
        if !is_log {
            bounds.y = round_outwards(bounds.y, y_count - 1);
        }
        let scaled: Vec<Vec<(f64, f64)>> = self
            .curves
            .iter()
            .map(|curve| {
                curve
                    .points
                    .iter()
                    .map(|&(x, y)| (x, scale(y, is_log)))
                    .collect()
            })
            .collect();
        let datasets = self.curves.iter().zip(&scaled).map(|(curve, points)| {
            let kind = match curve.look {
                Look::Line => GraphType::Line,
                Look::Dots => GraphType::Scatter,
            };
            Dataset::default()
                .data(points)
                .marker(curve.look.marker())
                .graph_type(kind)
                .style(curve.look.style(self.has_color))
        });
        let x_labels = labels(bounds.x, if area.width < 60 { 2 } else { 3 }, |x| {
            grouped(x.round().max(0.0) as usize)
        });
        let y_labels = labels(bounds.y, y_count, |y| {
            let label = short(if is_log { 10_f64.powf(y) } else { y });
            format!("{label:>8}")
        });
        Axes::new(datasets.collect())
            .block(block)
            .legend_position(None)
            .x_axis(Axis::default().bounds(bounds.x).labels(x_labels))
            .y_axis(Axis::default().bounds(bounds.y).labels(y_labels))
            .render(area, buffer);
    }
}

/// Bounds of both axes. The bounds of a logarithmic axis are logarithms to base 10.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    x: [f64; 2],
    y: [f64; 2],
}

impl Bounds {
    /// Returns bounds that contain all points, `steps` and `range`; `None` without points.
    fn of<'a>(
        points: impl Iterator<Item = &'a (f64, f64)>,
        steps: [f64; 2],
        range: Option<[f64; 2]>,
        is_log: bool,
    ) -> Option<Self> {
        let (mut x, mut y) = (
            [f64::INFINITY, f64::NEG_INFINITY],
            [f64::INFINITY, f64::NEG_INFINITY],
        );
        let widen = |bounds: &mut [f64; 2], value: f64| {
            *bounds = [bounds[0].min(value), bounds[1].max(value)];
        };
        for &(step, value) in points {
            widen(&mut x, step);
            widen(&mut y, scale(value, is_log));
        }
        if x[0] > x[1] {
            return None;
        }
        steps.into_iter().for_each(|step| widen(&mut x, step));
        range
            .into_iter()
            .flatten()
            .for_each(|value| widen(&mut y, value));
        // If the values are equal or almost equal, the bounds are widened. The curve is then a
        // horizontal line between them.
        let room = if is_log {
            0.02
        } else {
            0.02 * y[1].abs().max(1e-9)
        };
        if y[1] - y[0] < room {
            y = [y[0] - room, y[1] + room];
        }
        if x[0] == x[1] {
            x[1] += 1.0;
        }
        Some(Self { x, y })
    }
}

fn scale(value: f64, is_log: bool) -> f64 {
    if is_log { value.log10() } else { value }
}

/// Returns the narrowest bounds that contain `bounds` and give round labels.
///
/// The bounds are divided into `intervals` intervals, whose width is 1, 2, 2.5 or 5 times a power
/// of ten. The lower bound is a multiple of half an interval.
fn round_outwards(bounds: [f64; 2], intervals: usize) -> [f64; 2] {
    let (low, high, n) = (bounds[0], bounds[1], intervals as f64);
    let power = 10_f64.powf(((high - low) / n).log10().floor());
    let distances = [1.0, 2.0, 2.5, 5.0, 10.0, 20.0].map(|multiple| multiple * power);
    let around = |distance: f64| {
        // Rounding errors must not add an interval to bounds that are round already.
        let begin = (2.0 * low / distance + 1e-9).floor() * distance / 2.0;
        let end = begin + n * distance;
        (high <= end + 1e-9 * distance).then_some([begin, end])
    };
    distances.into_iter().find_map(around).unwrap_or(bounds)
}

/// Returns `count` labels at equal distances. The first and the last label are at the bounds.
fn labels(bounds: [f64; 2], count: usize, label: impl Fn(f64) -> String) -> Vec<String> {
    let [low, high] = bounds;
    let last = (count - 1) as f64;
    let at = |index| low + (high - low) * index as f64 / last;
    (0..count).map(|index| label(at(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_all_points_and_the_range() {
        let points = [(1.0, 0.1), (5.0, 10.0)];
        let bounds = Bounds::of(points.iter(), [2.0, 5.0], None, true).unwrap();
        assert_eq!(bounds.x, [1.0, 5.0]);
        assert_eq!(bounds.y, [-1.0, 1.0]);
        let bounds = Bounds::of(points.iter(), [1.0, 7.0], Some([0.0, 20.0]), false).unwrap();
        assert_eq!((bounds.x, bounds.y), ([1.0, 7.0], [0.0, 20.0]));
        assert_eq!(
            Bounds::of([].iter(), [0.0, 9.0], Some([0.0, 1.0]), false),
            None
        );
    }

    #[test]
    fn one_point_has_bounds_around_it() {
        for is_log in [true, false] {
            let bounds = Bounds::of([(3.0, 2.0)].iter(), [3.0, 3.0], None, is_log).unwrap();
            let value = scale(2.0, is_log);
            assert!(bounds.x[0] < bounds.x[1]);
            assert!(bounds.y[0] < value && value < bounds.y[1]);
        }
    }

    #[test]
    fn round_bounds_are_the_narrowest_ones() {
        for (bounds, intervals, round) in [
            ([0.0, 1.0], 4, [0.0, 1.0]),
            ([0.0, 1.0], 1, [0.0, 1.0]),
            ([0.0, 0.001_49], 2, [0.0, 0.002]),
            ([0.0, 13_420.0], 4, [0.0, 20_000.0]),
            ([31.2, 48.7], 2, [30.0, 50.0]),
            ([-0.3, 0.3], 2, [-0.5, 0.5]),
            ([97.0, 103.0], 1, [95.0, 105.0]),
            ([99.0, 101.0], 1, [99.0, 101.0]),
        ] {
            let found = round_outwards(bounds, intervals);
            let close = |i: usize| (found[i] - round[i]).abs() < 1e-9 * round[1].abs();
            assert!(close(0) && close(1), "{bounds:?}: {found:?}");
        }
    }

    #[test]
    fn labels_have_equal_distances() {
        let text = |value: f64| format!("{value}");
        assert_eq!(labels([0.0, 8.0], 3, text), ["0", "4", "8"]);
    }
}
