use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use training::run::{Evaluation, Event, StepMetrics};

use super::super::about::About;
use super::super::live_run::LiveRun;
use super::controls::Controls;
use super::view;

/// Sizes of small and large terminals, in columns and rows.
const SIZES: [(u16, u16); 4] = [(40, 10), (80, 24), (120, 40), (200, 50)];

fn about() -> About {
    About {
        task: "copy".into(),
        backend: "flex".into(),
        parameters: 123_940,
        folder: "runs/copy-1".into(),
        is_smoothed: false,
        resume: "train resume runs/copy-1".into(),
        table: Vec::new(),
    }
}

/// Returns a run that has taken 420 of 1,000 steps.
fn run() -> LiveRun {
    let mut run = LiveRun::new(0, 1000);
    for step in 1..=420 {
        run.event(Event::Step {
            step,
            tokens: 500,
            elapsed: Duration::from_millis(10),
        });
        run.event(Event::Metrics(&StepMetrics {
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
            run.event(Event::Evaluation(&Evaluation {
                step,
                seconds: 1.0,
                valid_loss: 3.0 / step as f64,
                token_accuracy: 0.75,
                exact_match: Some(step as f64 / 1000.0),
                bleu: None,
                chrf: None,
            }));
        }
    }
    let path = std::path::Path::new("step-400");
    run.event(Event::Checkpoint { step: 400, path });
    run
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
        let lines = screen(size, &run(), &Controls::default());
        let text = lines.join("\n");
        for part in [
            "copy on flex, ",
            "runs/copy-1",
            "step 420/1,000",
            "42 %",
            "left",
            "loss 0.00952",
            "learning rate 0.00150",
            "gradient norm 0.920",
            "50,000 tokens/s",
            "evaluation at step 400",
            "exact match 0.400",
            "checkpoint of step 400",
            "q stop",
            "l linear scale",
            "Tab next chart",
        ] {
            assert!(text.contains(part), "{size:?} has no {part:?}:\n{text}");
        }
        assert_eq!(text.contains("123,940 parameters"), size.0 >= 80);
    }
}

#[test]
fn charts_fill_the_room_that_there_is() {
    let charts = |size| {
        let text = screen(size, &run(), &Controls::default()).join("\n");
        let titles = [
            "loss (log scale)",
            "exact match  ",
            "token accuracy  ",
            "learning rate ─",
        ];
        titles.map(|title| text.contains(title))
    };
    assert_eq!(charts((40, 10)), [false; 4]);
    assert_eq!(charts((80, 24)), [true, false, false, false]);
    assert_eq!(charts((120, 40)), [true, true, false, false]);
    assert_eq!(charts((200, 50)), [true; 4]);
}

#[test]
fn keys_change_chart_and_scale() {
    let mut controls = Controls {
        chart: 1,
        ..Controls::default()
    };
    let text = screen((80, 24), &run(), &controls).join("\n");
    assert!(text.contains("── exact match") || text.contains("exact match  • validation"));
    controls = Controls {
        is_log: false,
        ..Controls::default()
    };
    let text = screen((80, 24), &run(), &controls).join("\n");
    assert!(
        text.contains("loss  ") && !text.contains("(log scale)"),
        "{text}"
    );
    assert!(text.contains("l log scale"), "{text}");
}

#[test]
fn training_and_validation_differ_without_colours() {
    let backend = terminal((80, 24), &run(), &Controls::default(), false);
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
    let backend = terminal((80, 24), &run(), &Controls::default(), true);
    assert!(
        backend
            .buffer()
            .content()
            .iter()
            .any(|cell| cell.fg == Color::Yellow)
    );
}

#[test]
fn the_dialog_has_both_answers_and_the_command_that_resumes() {
    let controls = Controls {
        asks: true,
        ..Controls::default()
    };
    for size in SIZES {
        let text = screen(size, &run(), &controls).join("\n");
        for part in [
            "Enter stop",
            "Esc cancel",
            "train resume runs/copy-1",
            "checkpoint",
        ] {
            assert!(text.contains(part), "{size:?} has no {part:?}:\n{text}");
        }
    }
    // If the dialog does not fit, the last line of the screen shows its keys.
    let lines = screen((40, 4), &run(), &controls);
    assert!(
        lines[3].contains("Enter") && lines[3].contains("Esc cancel"),
        "{lines:?}"
    );
    let controls = Controls {
        stops: true,
        ..Controls::default()
    };
    let lines = screen((80, 24), &run(), &controls);
    assert!(lines[23].contains("stopping after this step"), "{lines:?}");
}

#[test]
fn no_size_and_no_run_panics() {
    let empty = LiveRun::new(0, 1000);
    let mut over = run();
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
    for run in [&empty, &over, &run()] {
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
    let (run, controls) = (run(), Controls::default());
    terminal
        .draw(|frame| view::draw(frame, &run, &about, &controls, true, Instant::now()))
        .unwrap();
    let header: String = terminal.backend().buffer().content()[..80]
        .iter()
        .map(|cell| cell.symbol())
        .collect();
    assert!(
        header.contains("in …") && header.trim_end().ends_with("/runs/copy-1"),
        "{header}"
    );
}
