//! Charts of a run for the terminal, drawn with characters. Their curves, axes and colours are those
//! of plots.

use clap::ValueEnum;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis as Bounds, Block, Borders, Chart as Axes, Dataset, GraphType, Widget};
use training::run::Point;

use super::live_run::LiveRun;
use crate::metric;
use crate::number::grouped;
use crate::plot::{RunPlot, SERIES, smoothed};

/// Minimum width and height of a chart, in columns and rows. A smaller area has no room for axes
/// and a curve.
const MIN_SIZE: (u16, u16) = (24, 5);

/// Charts of a run, without those that have no data yet.
pub(super) fn kinds(run: &LiveRun) -> Vec<RunPlot> {
    let is_shown = |kind: &RunPlot| {
        let mut fields = kind.metrics().1.iter();
        *kind != RunPlot::Lengths && fields.any(|field| !run.points(field).is_empty())
    };
    let kinds = RunPlot::value_variants().iter().copied();
    kinds.filter(is_shown).collect()
}

/// Returns marker, sample, form and style of a curve. They also differ for terminals without
/// colours: lines, and dots for the most important of the metrics that are measured at evaluations.
fn look(field: &str) -> (Marker, &'static str, GraphType, Style) {
    let (_, color) = SERIES[metric::color(field)];
    if ["valid_loss", "exact_match", "bleu"].contains(&field) {
        (Marker::Dot, "•", GraphType::Scatter, color.into())
    } else {
        (Marker::Braille, "⠒⠒", GraphType::Line, color.into())
    }
}

/// Draws a chart of a run, if the area is large enough.
pub(super) fn draw(kind: RunPlot, run: &LiveRun, area: Rect, buffer: &mut Buffer) {
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        return;
    }
    let (title, fields) = kind.metrics();
    let has_data = |field: &&&str| !run.points(field).is_empty();
    let fields: Vec<&str> = fields.iter().filter(has_data).copied().collect();
    let curves = Vec::from_iter(fields.iter().map(|field| smoothed(run.points(field))));
    let points = curves.iter().flatten();
    let most = (area.height / 4).clamp(2, 5).into();
    let y = kind.y_axis(points.clone().map(|point| point.1), most);
    let scale = if y.is_log { " (log scale)" } else { "" };
    let mut spans = vec![Span::raw(title), Span::raw(scale)];
    for field in fields.iter().filter(|_| fields.len() > 1) {
        let (_, sample, _, style) = look(field);
        spans.extend([Span::raw("  "), Span::styled(sample, style)]);
        spans.push(Span::raw(format!(" {}", metric::label(field))));
    }
    spans.push(Span::raw(" "));
    let placed = |&(x, value): &Point| (x, y.position(value));
    let curve = |points: &Vec<Point>| points.iter().map(placed).collect();
    let placed: Vec<Vec<Point>> = curves.iter().map(curve).collect();
    let datasets = placed.iter().zip(&fields).map(|(points, field)| {
        let (marker, _, form, style) = look(field);
        let data = Dataset::default().data(points).marker(marker);
        data.graph_type(form).style(style)
    });
    let steps = points.map(|point| point.0).chain([run.step as f64, 1.0]);
    let end = steps.fold(0.0, f64::max);
    let y_labels = y.ticks.iter().map(|&tick| y.tick_label(tick));
    let y_labels = y_labels.map(|label| format!("{label:>8}"));
    let x_labels = [0.0, end / 2.0, end].map(|x| grouped(x.round()));
    Axes::new(datasets.collect())
        .block(Block::new().borders(Borders::TOP).title(Line::from(spans)))
        .legend_position(None)
        .x_axis(Bounds::default().bounds([0.0, end]).labels(x_labels))
        .y_axis(Bounds::default().bounds([0.0, 1.0]).labels(y_labels))
        .render(area, buffer);
}
