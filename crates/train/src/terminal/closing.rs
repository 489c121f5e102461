//! Charts of a run as lines of text, which are printed at the end of training.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::widgets::Widget;

use super::chart::{self, Chart};
use super::live_run::LiveRun;
use crate::plot::RunPlot;

/// Height of the charts in lines, including title and axis.
const HEIGHT: u16 = 8;

/// Maximum width of a chart, in columns.
const MAX_WIDTH: u16 = 60;
/// Width of the gap between two charts, in columns.
const GAP: u16 = 2;

/// Minimum number of values for a chart.
const MIN_VALUES: usize = 3;

/// Returns charts of the loss and of the task's score, side by side, as lines for a terminal of
/// `width` columns.
///
/// Fewer than [`MIN_VALUES`] losses are not drawn, and the result is then empty. The chart of the
/// score is left out if there are fewer scores, or if the terminal is narrower than [`MAX_WIDTH`].
pub(super) fn charts(run: &LiveRun, width: u16, has_color: bool) -> Vec<String> {
    let has_enough = |field: &&&str| run.points(field).len() >= MIN_VALUES;
    let mut kinds = chart::kinds(run);
    kinds.retain(|kind| match kind {
        RunPlot::Loss => true,
        RunPlot::Accuracy | RunPlot::Bleu => width >= MAX_WIDTH,
        _ => false,
    });
    kinds.retain(|kind| kind.metrics().1.iter().any(|field| has_enough(&field)));
    if kinds.first() != Some(&RunPlot::Loss) {
        return Vec::new();
    }
    let count = kinds.len() as u16;
    let each = (width.saturating_sub((count - 1) * GAP) / count).min(MAX_WIDTH);
    let mut buffer = Buffer::empty(Rect::new(0, 0, count * each + (count - 1) * GAP, HEIGHT));
    for (index, kind) in (0..).zip(kinds) {
        let area = Rect::new(index * (each + GAP), 0, each, HEIGHT);
        let chart = Chart {
            run,
            kind,
            has_color,
        };
        chart.render(area, &mut buffer);
    }
    let rows = buffer
        .content()
        .chunks(usize::from(buffer.area.width).max(1));
    rows.map(text).filter(|line| !line.is_empty()).collect()
}

/// Returns the text of a row of cells, with escape sequences for the colours of the cells.
fn text(cells: &[Cell]) -> String {
    let blank = |cell: &&Cell| cell.symbol() == " ";
    let length = cells.len() - cells.iter().rev().take_while(blank).count();
    let mut text = String::new();
    let mut color = Color::Reset;
    for cell in &cells[..length] {
        if cell.fg != color && cell.symbol() != " " {
            color = cell.fg;
            text += match color {
                Color::Green => "\x1b[32m",
                Color::Yellow => "\x1b[33m",
                Color::Magenta => "\x1b[35m",
                Color::Cyan => "\x1b[36m",
                _ => "\x1b[0m",
            };
        }
        text += cell.symbol();
    }
    if color != Color::Reset {
        text += "\x1b[0m";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::dashboard::tests::run;
    use super::*;

    #[test]
    fn a_long_run_has_charts_that_fit_the_terminal() {
        let run = run(420);
        for width in [30, 60, 80, 120, 200] {
            let lines = charts(&run, width, false);
            assert!(lines.len() <= usize::from(HEIGHT), "{lines:?}");
            let widest = lines.iter().map(|line| line.chars().count()).max();
            assert!(widest.unwrap() <= usize::from(width), "{lines:?}");
            assert!(lines[0].contains("Loss (log"), "{lines:?}");
            let has_score = lines[0].contains("Accuracy");
            assert_eq!(has_score, width >= MAX_WIDTH, "{lines:?}");
            assert!(!lines.concat().contains('\x1b'), "{lines:?}");
        }
        assert!(charts(&run, 80, true).concat().contains("\x1b[36m"));
        assert_eq!(charts(&run, 0, true), [""; 0]);
    }

    #[test]
    fn a_run_without_values_has_no_chart() {
        assert_eq!(charts(&run(0), 80, true), [""; 0]);
    }
}
