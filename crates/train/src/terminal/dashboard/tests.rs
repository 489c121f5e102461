use std::time::Instant;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use training::config::{BestBy, RunConfig};
use training::run::{
    Best, CURVES, Curves, Evaluation, Event, Observer, RunData, RunFolder, StepMetrics,
};

use super::super::about::About;
use super::super::live_run::LiveRun;
use super::controls::Controls;
use super::view;
use crate::metric;

/// Sizes of small and large terminals, in columns and rows.
const SIZES: [(u16, u16); 4] = [(40, 10), (80, 24), (120, 40), (200, 50)];

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

fn about() -> About {
    About {
        title: "copy on flex".into(),
        parameters: 123_940,
        folder: "runs/copy-1".into(),
        table: Vec::new(),
    }
}

/// Sends the events of a run that has taken `last` of 1,000 steps.
fn events(last: usize, mut send: impl FnMut(Event<'_>)) {
    for step in 1..=last {
        send(Event::Step { step });
        send(Event::Metrics(&StepMetrics {
            step,
            loss: 4.0 / step as f32,
            learning_rate: 1.5e-3,
            gradient_norm: 0.92,
            tokens: 500,
            padding: 0.25,
            seconds: 1.0,
            tokens_per_second: 500.0,
            skipped: false,
        }));
        if step % 100 == 0 {
            let (by, value) = (BestBy::Loss, 3.0 / step as f64);
            send(Event::Evaluation(&Evaluation {
                step,
                seconds: 1.0,
                valid_loss: value,
                token_accuracy: 0.75,
                exact_match: Some(step as f64 / 1000.0),
                texts: None,
            }));
            let best = Best {
                by,
                step,
                value,
                loss: value,
            };
            send(Event::Best(best));
        }
    }
    send(Event::Checkpoint { step: 400 });
}

/// Returns a run that has taken `last` of 1,000 steps.
pub(in super::super) fn run(last: usize) -> LiveRun {
    let mut run = LiveRun::new(0, 1000, &Curves::default());
    events(last, |event| run.event(event));
    run
}

#[test]
fn the_dashboard_says_what_the_folder_of_the_run_says() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let mut config = RunConfig::copy();
    config.check().unwrap();
    let mut live = LiveRun::new(0, 1000, &Curves::default());
    let mut folder = RunFolder::create(Some(&path), &config).unwrap();
    events(420, |event| {
        live.event(event);
        folder.event(event).unwrap();
    });
    drop(folder);
    let data = RunData::read(&path).unwrap();
    let text = screen((200, 50), &live, &Controls::default()).join("\n");
    let value = |name: &str| data.metric(name).unwrap();
    for part in [
        format!("loss {}", metric::text("loss", value("train_loss"))),
        metric::named("valid_loss", value("valid_loss")),
        metric::named("exact_match", value("valid_exact_match")),
        "the best so far".into(),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    assert_eq!(data.best, live.best);
    // The curves of a resumed run begin with its first step.
    let resumed = LiveRun::new(420, 1000, &data.curves);
    for (field, _) in CURVES {
        assert_eq!(
            resumed.points(field).len(),
            live.points(field).len(),
            "{field}"
        );
    }
}

fn terminal(
    (width, height): (u16, u16),
    run: &LiveRun,
    controls: &Controls,
    has_color: bool,
) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let draw = |frame: &mut ratatui::Frame<'_>| {
        view::draw(frame, run, &about(), controls, has_color, Instant::now());
    };
    terminal.draw(draw).unwrap();
    terminal.backend().clone()
}

fn screen(size: (u16, u16), run: &LiveRun, controls: &Controls) -> Vec<String> {
    let backend = terminal(size, run, controls, true);
    let cells = backend
        .buffer()
        .content()
        .chunks(usize::from(size.0).max(1));
    cells
        .map(|row| row.iter().map(|cell| cell.symbol()).collect())
        .collect()
}

#[test]
fn every_size_has_progress_values_evaluation_and_keys() {
    for size in SIZES {
        let lines = screen(size, &run(420), &Controls::default());
        let text = lines.join("\n");
        let parts = "copy on flex, |runs/copy-1|step 420/1,000|42 %|left|loss 0.00952|learning rate 0.00150|gradient norm 0.9200|\
            500 tokens/s|evaluation at step 400|exact match 0.4000|checkpoint of step 400|q stop|Tab next chart";
        for part in parts.split('|') {
            assert!(text.contains(part), "{size:?} has no {part:?}:\n{text}");
        }
        assert_eq!(text.contains("123,940 parameters"), size.0 >= 80);
    }
}

#[test]
fn charts_fill_the_room_that_there_is() {
    let charts = |size| {
        let text = screen(size, &run(420), &Controls::default()).join("\n");
        let titles = [
            "Loss (log scale)",
            "Accuracy on",
            "Learning rate ─",
            "Gradient norm",
        ];
        titles.map(|title| text.contains(title))
    };
    assert_eq!(charts((40, 10)), [false; 4]);
    assert_eq!(charts((80, 24)), [true, false, false, false]);
    assert_eq!(charts((120, 40)), [true, true, false, false]);
    assert_eq!(charts((200, 50)), [true; 4]);
}

#[test]
fn a_run_without_evaluations_has_no_empty_chart() {
    let text = screen((120, 40), &run(9), &Controls::default()).join("\n");
    assert_has(&text, &["Loss", "Learning rate", "no evaluation yet"]);
    assert!(!text.contains("Accuracy"), "{text}");
}

#[test]
fn keys_change_the_chart() {
    for chart in [1, 6] {
        let controls = Controls {
            chart,
            ..Controls::default()
        };
        let text = screen((80, 24), &run(420), &controls).join("\n");
        assert_has(&text, &["Accuracy on", "• exact match"]);
    }
}

#[test]
fn training_and_validation_differ_without_colours() {
    let backend = terminal((80, 24), &run(420), &Controls::default(), false);
    let cells = backend.buffer().content();
    assert!(
        cells
            .iter()
            .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
    );
    // The counts include a dot and braille characters in the title of the chart.
    let dots = cells.iter().filter(|cell| cell.symbol() == "•").count();
    let is_braille = |symbol: &str| symbol.starts_with(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
    let braille = cells
        .iter()
        .filter(|cell| is_braille(cell.symbol()))
        .count();
    assert!(dots >= 5 && braille > 20, "{dots} dots, {braille} braille");
    let backend = terminal((80, 24), &run(420), &Controls::default(), true);
    assert!(
        backend
            .buffer()
            .content()
            .iter()
            .any(|cell| cell.fg == Color::Yellow)
    );
}

#[test]
fn the_last_line_asks_and_says_that_the_run_stops() {
    let last = |controls: &Controls| screen((80, 24), &run(420), controls)[23].clone();
    let mut controls = Controls {
        asks: true,
        ..Controls::default()
    };
    let line = last(&controls);
    assert_has(&line, &["Enter stop and save", "Esc cancel"]);
    (controls.asks, controls.stops) = (false, true);
    assert!(last(&controls).contains("stopping after this step"));
}

#[test]
fn no_size_and_no_run_panics() {
    let empty = run(0);
    let mut over = run(420);
    over.steps = 0;
    over.event(Event::Metrics(&StepMetrics {
        step: 421,
        loss: f32::NAN,
        learning_rate: 0.0,
        gradient_norm: f32::INFINITY,
        tokens: 0,
        padding: 0.0,
        seconds: 1.0,
        tokens_per_second: 500.0,
        skipped: true,
    }));
    for run in [&empty, &over, &run(420)] {
        for width in [0, 1, 2, 5, 13, 24, 39, 81, 300] {
            for height in [0, 1, 2, 3, 5, 7, 11, 17, 31, 100] {
                for asks in [false, true] {
                    for chart in 0..6 {
                        let controls = Controls {
                            asks,
                            chart,
                            ..Controls::default()
                        };
                        screen((width, height), run, &controls);
                    }
                }
            }
        }
    }
}

#[test]
fn a_long_path_keeps_its_end() {
    let mut about = about();
    about.folder = format!("{}/runs/copy-1", "folder/".repeat(30));
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let (run, controls) = (run(420), Controls::default());
    terminal
        .draw(|frame| view::draw(frame, &run, &about, &controls, true, Instant::now()))
        .unwrap();
    let header: String = terminal.backend().buffer().content()[..80]
        .iter()
        .map(|cell| cell.symbol())
        .collect();
    assert_has(&header, &["in …", "/runs/copy-1"]);
}
