//! Draws the dashboard: lines of text, as many charts as fit, and the keys.

use std::time::Instant;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use training::memory::peak_rss_bytes;

use super::super::about::About;
use super::super::chart::{self, kinds};
use super::super::live_run::LiveRun;
use super::controls::Controls;
use crate::metric;
use crate::number::{bytes, grouped, seconds};

/// Minimum width of the progress bar, in columns.
const MIN_BAR: usize = 10;

/// Minimum width for the epoch beside the step, in columns.
const MIN_EPOCH: usize = 60;

/// Minimum width for two charts side by side, in columns, and minimum height for two rows of
/// charts, in rows.
const TWO_CHARTS: (u16, u16) = (140, 24);

/// Draws the dashboard. If there is too little room, skips the charts first, and then the lower
/// lines of text.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    run: &LiveRun,
    about: &About,
    controls: &Controls,
    has_color: bool,
    now: Instant,
) {
    let area = frame.area();
    let width = usize::from(area.width);
    let mut lines = vec![
        Line::styled(header(about, width), bold()),
        Line::from(progress(run, width, now)),
    ];
    lines.extend(values(run, width, now).into_iter().map(Line::from));
    let keys_height = u16::from(area.height > 2);
    let text_height = (lines.len() as u16).min(area.height - keys_height);
    let [above, below] = [text_height, keys_height].map(Constraint::Length);
    let rows = Layout::vertical([above, Constraint::Fill(1), below]);
    let [text, charts, bottom] = rows.areas(area);
    frame.render_widget(Paragraph::new(lines), text);
    draw_charts(frame.buffer_mut(), charts, run, controls);
    frame.render_widget(Paragraph::new(keys(controls, width)), bottom);
    if !has_color {
        frame.buffer_mut().set_style(area, Color::Reset);
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Returns the first line: the task, the backend, the size of the model if there is room for it,
/// and the path of the folder, of which only the end is shown if the path is too long.
fn header(about: &About, width: usize) -> String {
    let (title, folder) = (&about.title, &about.folder);
    let parameters = grouped(about.parameters);
    let long = format!("{title}, {parameters} parameters, in ");
    let short = format!("{title}, in ");
    let columns = |text: &str| Span::raw(text).width();
    let is_wide = columns(&long) + columns(folder).min(width / 3) <= width;
    let text = if is_wide { long } else { short };
    let room = width.saturating_sub(columns(&text));
    if columns(folder) <= room {
        return text + folder;
    }
    let mut end = folder.chars();
    while columns(end.as_str()) + 1 > room && end.next().is_some() {}
    format!("{text}…{}", end.as_str())
}

/// Returns the line of progress: steps, a bar if there is room for it, and times.
fn progress(run: &LiveRun, width: usize, now: Instant) -> String {
    let (step, steps) = (run.step, run.steps.max(1));
    let mut begin = format!("step {}/{} ", grouped(step), grouped(steps));
    if let Some((epoch, epochs)) = run.epochs().filter(|_| width >= MIN_EPOCH) {
        begin = format!("epoch {}/{}, {begin}", grouped(epoch), grouped(epochs));
    }
    let share = step.min(steps) as f64 / steps as f64;
    let elapsed = seconds((now - run.begun).as_secs_f64());
    let left = run.time_left(now);
    let short = format!("{:.0} %, {left} left", 100.0 * share);
    let long = format!("{:.0} %, {elapsed} elapsed, {left} left", 100.0 * share);
    if begin.len() + long.len() > width {
        return begin + &short;
    }
    let room = width.saturating_sub(begin.len() + long.len() + 3);
    if room < MIN_BAR {
        return begin + &long;
    }
    let filled = (share * room as f64).round() as usize;
    let (done, rest) = ("█".repeat(filled), "░".repeat(room - filled));
    format!("{begin} {done}{rest}  {long}")
}

/// Returns lines with the newest metrics, the last evaluation and the last checkpoint.
fn values(run: &LiveRun, width: usize, now: Instant) -> Vec<String> {
    let metrics = run.metrics.as_ref();
    let training = [
        format!("loss {}", run.newest("loss")),
        format!("learning rate {}", run.newest("learning_rate")),
        format!("gradient norm {}", run.newest("gradient_norm")),
        format!("{} tokens/s", run.newest("tokens_per_second")),
    ];
    let mut lines = flow("", &training, width);
    let next = run.next_evaluation().map(grouped);
    lines.extend(match &run.evaluation {
        None => vec![next.map_or("no evaluation yet".into(), |step| {
            format!("next evaluation at step {step}")
        })],
        Some(line) => {
            let fields = "exact_match bleu valid_loss token_accuracy chrf".split(' ');
            let named = |field| Some(metric::named(field, line.number(field)?));
            let mut items: Vec<String> = fields.filter_map(named).collect();
            items.extend(run.best.map(|best| {
                if best.step == line.step {
                    "the best so far".into()
                } else {
                    let value = metric::named(best.field(), best.value);
                    format!("best: {value} at step {}", grouped(best.step))
                }
            }));
            items.extend(next.map(|step| format!("next at step {step}")));
            let title = format!("evaluation at step {}: ", grouped(line.step));
            flow(&title, &items, width)
        }
    });
    let mut saved = vec![match run.checkpoint {
        None if run.first > 0 => format!("checkpoint of step {}", grouped(run.first)),
        None => "no checkpoint yet".into(),
        Some((step, at)) => {
            let ago = seconds((now - at).as_secs_f64());
            format!("checkpoint of step {}, {ago} ago", grouped(step))
        }
    }];
    saved.extend(peak_rss_bytes().map(|peak| format!("memory at most {}", bytes(peak as usize))));
    let padding = metrics.and_then(|line| line.number("padding"));
    saved.extend(padding.map(|padding| format!("padding {:.0} %", 100.0 * padding)));
    lines.extend(flow("", &saved, width));
    lines
}

/// Returns lines with the items side by side, in as few lines as possible. The first line begins
/// with `title`.
fn flow(title: &str, items: &[String], width: usize) -> Vec<String> {
    let mut lines = vec![title.to_string()];
    for (index, item) in items.iter().enumerate() {
        let gap = if index == 0 { "" } else { "   " };
        let last = lines.len() - 1;
        let length = lines[last].chars().count() + gap.len() + item.chars().count();
        if length > width && !lines[last].is_empty() {
            lines.push(item.clone());
        } else {
            lines[last] += &format!("{gap}{item}");
        }
    }
    lines
}

fn draw_charts(buffer: &mut Buffer, area: Rect, run: &LiveRun, controls: &Controls) {
    let kinds = kinds(run);
    if kinds.is_empty() {
        return;
    }
    let columns = if area.width >= TWO_CHARTS.0 { 2 } else { 1 };
    let rows = if area.height >= TWO_CHARTS.1 { 2 } else { 1 };
    let rows = rows.min(kinds.len().div_ceil(columns));
    let split = |count: usize| vec![Constraint::Fill(1); count];
    let rows = Layout::vertical(split(rows)).split(area);
    let row = Layout::horizontal(split(columns)).spacing(2);
    let cells = rows.iter().flat_map(|area| row.split(*area).to_vec());
    let first = controls.chart % kinds.len();
    let kinds = kinds.iter().cycle().skip(first).take(kinds.len());
    for (cell, &kind) in cells.zip(kinds) {
        chart::draw(kind, run, cell, buffer);
    }
}

/// Returns the last line: the most important keys, the question whether training should stop, or
/// that the run is stopping.
fn keys(controls: &Controls, width: usize) -> Line<'static> {
    if controls.stops {
        let text = "stopping after this step, then a checkpoint is saved; Ctrl-C stops at once";
        let short = "stopping after this step";
        return Line::styled(if width < text.len() { short } else { text }, bold());
    }
    let keys = if controls.asks {
        vec![("Enter", "stop and save"), ("Esc", "cancel")]
    } else {
        vec![("q", "stop"), ("Tab", "next chart")]
    };
    let spans = keys.into_iter().flat_map(|(key, meaning)| {
        let meaning = Span::raw(format!(" {meaning}   "));
        [Span::styled(key, bold()), meaning]
    });
    Line::from_iter(spans)
}
