//! Draws the dashboard: lines of text, as many charts as fit, and the keys.

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use training::memory::peak_rss_bytes;
use training::run::Best;

use super::super::about::About;
use super::super::chart::MIN_SIZE;
use super::super::live_run::{LiveRun, score};
use super::super::loss::measure_text;
use super::super::quantity::Quantity;
use super::controls::Controls;
use super::dialog;
use crate::number::{bytes, clock, grouped, short};

/// Minimum width of the progress bar, in columns.
const MIN_BAR: usize = 10;

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
    let [text, charts, bottom] = Layout::vertical([
        Constraint::Length(text_height),
        Constraint::Fill(1),
        Constraint::Length(keys_height),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(lines), text);
    draw_charts(frame, charts, run, controls, has_color);
    let has_dialog = controls.asks && dialog::draw(frame, &about.resume);
    frame.render_widget(Paragraph::new(keys(controls, has_dialog, width)), bottom);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Returns the first line: the task, the backend, the size of the model if there is room for it,
/// and the path of the folder, of which only the end is shown if the path is too long.
fn header(about: &About, width: usize) -> String {
    let About {
        task,
        backend,
        folder,
        ..
    } = about;
    let parameters = grouped(about.parameters);
    let long = format!("{task} on {backend}, {parameters} parameters, in ");
    let short = format!("{task} on {backend}, in ");
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
    let begin = format!("step {}/{} ", grouped(step), grouped(steps));
    let share = step.min(steps) as f64 / steps as f64;
    let elapsed = clock(now.saturating_duration_since(run.begun));
    let left = run.left(now).map_or("-".into(), clock);
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
    let number = |value: Option<f64>| value.map_or("-".into(), short);
    let metrics = run.metrics.as_ref();
    let speed = run
        .speed
        .map_or("-".into(), |speed| grouped(speed as usize));
    let training = [
        format!("loss {}", number(metrics.map(|m| m.loss.into()))),
        format!("learning rate {}", number(metrics.map(|m| m.learning_rate))),
        format!(
            "gradient norm {}",
            number(metrics.map(|m| m.gradient_norm.into()))
        ),
        format!("{speed} tokens/s"),
    ];
    let mut lines = flow("", &training, width);
    lines.extend(match &run.evaluation {
        None => vec!["no evaluation yet".into()],
        Some(evaluation) => {
            let mut items = Vec::new();
            if let Some((name, value)) = score(evaluation) {
                items.push(format!("{name} {}", short(value)));
            }
            items.push(format!("loss {}", short(evaluation.valid_loss)));
            items.push(format!(
                "token accuracy {}",
                short(evaluation.token_accuracy)
            ));
            items.extend(evaluation.chrf.map(|chrf| format!("chrF {}", short(chrf))));
            items.extend(run.best.map(|(by, Best { step, value })| {
                if step == evaluation.step {
                    "the best so far".into()
                } else {
                    format!(
                        "best: {} at step {}",
                        measure_text(by, value),
                        grouped(step)
                    )
                }
            }));
            let title = format!("evaluation at step {}: ", grouped(evaluation.step));
            flow(&title, &items, width)
        }
    });
    let mut saved = vec![match run.checkpoint {
        None => "no checkpoint yet".into(),
        Some((step, at)) => {
            let ago = clock(now.saturating_duration_since(at));
            format!("checkpoint of step {}, {ago} ago", grouped(step))
        }
    }];
    saved.extend(peak_rss_bytes().map(|peak| format!("memory at most {}", bytes(peak as usize))));
    let padding = metrics.map(|metrics| 100.0 * metrics.padding);
    saved.extend(padding.map(|padding| format!("padding {padding:.0} %")));
    lines.extend(flow("", &saved, width));
    lines
}

/// Returns lines with the items side by side, in as few lines as possible. The first line begins
/// with `title`.
fn flow(title: &str, items: &[String], width: usize) -> Vec<String> {
    let mut lines = vec![title.to_string()];
    let mut is_first = true;
    for item in items {
        let gap = if is_first { "" } else { "   " };
        let last = lines.len() - 1;
        let length = lines[last].chars().count() + gap.len() + item.chars().count();
        if length > width && !lines[last].is_empty() {
            lines.push(item.clone());
        } else {
            lines[last] += &format!("{gap}{item}");
        }
        is_first = false;
    }
    lines
}

fn draw_charts(
    frame: &mut Frame<'_>,
    area: Rect,
    run: &LiveRun,
    controls: &Controls,
    has_color: bool,
) {
    let columns = if area.width >= TWO_CHARTS.0 { 2 } else { 1 };
    let rows = if area.height >= TWO_CHARTS.1 { 2 } else { 1 };
    if area.height < MIN_SIZE.1 {
        return;
    }
    let mut quantities = Quantity::ALL.iter().cycle().skip(controls.chart);
    let split = |constraint: usize| vec![Constraint::Fill(1); constraint];
    for row in Layout::vertical(split(rows)).split(area).iter() {
        for cell in Layout::horizontal(split(columns))
            .spacing(2)
            .split(*row)
            .iter()
        {
            let quantity = quantities.next().expect("a cycle has no end");
            frame.render_widget(quantity.chart(run, controls.is_log, has_color), *cell);
        }
    }
}

/// Returns the last line: the most important keys, or that the run is stopping. It is empty while
/// the dialog shows its own keys.
fn keys(controls: &Controls, has_dialog: bool, width: usize) -> Line<'static> {
    if controls.stops {
        let text = "stopping after this step, then a checkpoint is saved; Ctrl-C stops at once";
        let short = "stopping after this step";
        return Line::styled(if width < text.len() { short } else { text }, bold());
    }
    let scale = if controls.is_log {
        "linear scale"
    } else {
        "log scale"
    };
    let keys = match (controls.asks, has_dialog) {
        (true, true) => vec![],
        (true, false) => vec![("Enter", "stop and save"), ("Esc", "cancel")],
        (false, _) => vec![("q", "stop"), ("l", scale), ("Tab", "next chart")],
    };
    let mut spans = Vec::new();
    let mut room = width;
    for (key, meaning) in keys {
        let length = key.len() + 1 + meaning.len();
        if length > room {
            break;
        }
        room = room.saturating_sub(length + 3);
        spans.push(Span::styled(key, bold()));
        spans.push(Span::raw(format!(" {meaning}   ")));
    }
    Line::from(spans)
}
