//! Charts of a run as lines of text, which are printed at the end of training.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::widgets::Widget;

use super::live_run::LiveRun;
use super::quantity::Quantity;

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
    let mut quantities = vec![Quantity::Loss];
    if run.curves.loss.points().len() < MIN_VALUES {
        return Vec::new();
    }
    let has_score = run.curves.score.points().len() >= MIN_VALUES;
    if has_score && width >= MAX_WIDTH {
        quantities.push(Quantity::Score);
    }
    let count = quantities.len() as u16;
    let each = (width.saturating_sub((count - 1) * GAP) / count).min(MAX_WIDTH);
    let mut buffer = Buffer::empty(Rect::new(0, 0, count * each + (count - 1) * GAP, HEIGHT));
    for (index, quantity) in (0..).zip(quantities) {
        let area = Rect::new(index * (each + GAP), 0, each, HEIGHT);
        quantity
            .chart(run, true, has_color)
            .render(area, &mut buffer);
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
                Color::Cyan => "\x1b[36m",
                Color::Yellow => "\x1b[33m",
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
    use training::run::{Evaluation, Event, StepMetrics};

    use super::*;

    fn run(steps: usize) -> LiveRun {
        let mut run = LiveRun::new(0, steps);
        for step in 1..=steps {
            run.event(Event::Metrics(&StepMetrics {
                step,
                loss: 4.0 / step as f32,
                learning_rate: 1e-3,
                gradient_norm: 1.0,
                tokens: 10,
                padding: 0.0,
                seconds: 1.0,
                tokens_per_second: 500.0,
                skipped: false,
            }));
            if step.is_multiple_of(10) {
                run.event(Event::Evaluation(&Evaluation {
                    step,
                    seconds: 1.0,
                    valid_loss: 3.0 / step as f64,
                    token_accuracy: 0.75,
                    exact_match: Some(0.5),
                    bleu: None,
                    chrf: None,
                }));
            }
        }
        run
    }

    #[test]
    fn a_long_run_has_charts_that_fit_the_terminal() {
        let run = run(50);
        for width in [30, 60, 80, 120, 200] {
            let lines = charts(&run, width, false);
            assert!(lines.len() <= usize::from(HEIGHT), "{lines:?}");
            let widest = lines.iter().map(|line| line.chars().count()).max();
            assert!(widest.unwrap() <= usize::from(width), "{lines:?}");
            assert!(lines[0].contains("loss (log"), "{lines:?}");
            assert_eq!(
                lines[0].contains("exact match"),
                width >= MAX_WIDTH,
                "{lines:?}"
            );
            assert!(!lines.concat().contains('\x1b'), "{lines:?}");
        }
        let colored = charts(&run, 80, true).concat();
        assert!(
            colored.contains("\x1b[36m") && colored.ends_with("50"),
            "{colored:?}"
        );
    }

    #[test]
    fn a_run_without_values_has_no_chart() {
        assert_eq!(charts(&run(0), 80, true), [""; 0]);
        assert_eq!(charts(&run(50), 0, true), [""; 0]);
    }
}
