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
pub(super) const MIN_SIZE: (u16, u16) = (24, 5);

/// Charts of a run, without those that have no data yet.
pub(super) fn kinds(run: &LiveRun) -> Vec<RunPlot> {
    let has_data = |kind: &RunPlot| kind.metrics().1.iter().any(|it| !run.points(it).is_empty());
    let kinds = RunPlot::value_variants().iter().copied();
    kinds
        .filter(|kind| *kind != RunPlot::Lengths && has_data(kind))
        .collect()
}

/// A chart of a run.
#[derive(Clone, Debug)]
pub(super) struct Chart<'a> {
    pub(super) run: &'a LiveRun,
    pub(super) kind: RunPlot,
    pub(super) has_color: bool,
}

/// Returns marker, sample, form and style of a curve. They also differ for terminals without
/// colours: lines, and dots for the most important of the metrics that are measured at evaluations.
fn look(field: &str, is_last: bool, has_color: bool) -> (Marker, &'static str, GraphType, Style) {
    let (_, color) = SERIES[metric::color(field)];
    let style = Style::new();
    let style = if has_color { style.fg(color) } else { style };
    if is_last && ["valid_loss", "exact_match", "bleu"].contains(&field) {
        (Marker::Dot, "•", GraphType::Scatter, style)
    } else {
        (Marker::Braille, "⠒⠒", GraphType::Line, style)
    }
}

impl Widget for Chart<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
            return;
        }
        let (title, fields) = self.kind.metrics();
        let curves: Vec<(&str, Vec<Point>)> = fields
            .iter()
            .map(|field| (*field, smoothed(self.run.points(field))))
            .filter(|(_, points)| !points.is_empty())
            .collect();
        let points = || curves.iter().flat_map(|(_, points)| points);
        let most = (area.height / 4).clamp(2, 5).into();
        let values = points().map(|point| point.1);
        let y = self.kind.y_axis(values, most);
        let mut spans = vec![Span::raw(title)];
        spans.extend(y.is_log.then(|| Span::raw(" (log scale)")));
        let look_of = |index: usize| {
            let (field, _) = curves[index];
            look(field, index + 1 == curves.len(), self.has_color)
        };
        for (index, (field, _)) in curves.iter().enumerate().filter(|_| curves.len() > 1) {
            let (_, sample, _, style) = look_of(index);
            spans.extend([Span::raw("  "), Span::styled(sample, style)]);
            spans.push(Span::raw(format!(" {}", metric::label(field))));
        }
        spans.push(Span::raw(" "));
        let placed: Vec<Vec<Point>> = curves
            .iter()
            .map(|(_, points)| {
                points
                    .iter()
                    .map(|&(x, value)| (x, y.position(value)))
                    .collect()
            })
            .collect();
        let datasets = placed.iter().enumerate().map(|(index, points)| {
            let (marker, _, form, style) = look_of(index);
            let data = Dataset::default().data(points).marker(marker);
            data.graph_type(form).style(style)
        });
        let end = points()
            .map(|point| point.0)
            .fold(self.run.step as f64, f64::max)
            .max(1.0);
        let y_labels = y
            .ticks
            .iter()
            .map(|&tick| format!("{:>8}", y.tick_label(tick)));
        let x_labels = [0.0, end / 2.0, end].map(|x| grouped(x.round()));
        Axes::new(datasets.collect())
            .block(Block::new().borders(Borders::TOP).title(Line::from(spans)))
            .legend_position(None)
            .x_axis(Bounds::default().bounds([0.0, end]).labels(x_labels))
            .y_axis(Bounds::default().bounds([0.0, 1.0]).labels(y_labels))
            .render(area, buffer);
    }
}
