use super::events::{Field, fields, step_of};
use super::*;
use crate::run::StepMetrics;

fn metrics(step: usize) -> StepMetrics {
    StepMetrics {
        step,
        loss: 1.0 / step as f32,
        learning_rate: 0.5,
        gradient_norm: f32::NAN,
        tokens: 8,
        padding: 0.0,
        seconds: step as f64,
        tokens_per_second: 8.0,
        skipped: false,
    }
}

/// Writes the events of a run that resumes after `first` steps and stops after step `last`.
fn train(folder: &Path, first: usize, last: usize) {
    let mut board = TensorBoard::new(folder);
    let steps = 9;
    board.event(Event::Begin { first, steps }).unwrap();
    for step in first + 1..=last {
        board.event(Event::Metrics(&metrics(step))).unwrap();
    }
    board.event(Event::End).unwrap();
}

/// Returns all events in a folder's event files, which must be undamaged.
fn read(folder: &Path) -> Vec<Vec<u8>> {
    let mut events = Vec::new();
    for path in event_files(folder) {
        let bytes = fs::read(path).unwrap();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (event, length) = record::first(rest).expect("the event is whole");
            events.push(event.to_vec());
            rest = &rest[length..];
        }
    }
    events
}

/// Returns each step that has a loss, together with the loss.
fn losses(folder: &Path) -> Vec<(u64, f32)> {
    let of = |event: &Vec<u8>| {
        let summary = fields(event)?.into_iter().find(|(field, _)| *field == 5)?;
        let (_, Field::Bytes(summary)) = summary else {
            return None;
        };
        let values = fields(summary)?.into_iter().filter_map(|value| {
            let (1, Field::Bytes(value)) = value else {
                return None;
            };
            match fields(value)?[..] {
                [
                    (1, Field::Bytes(b"train/loss")),
                    (2, Field::FourBytes(value)),
                ] => Some(f32::from_le_bytes(value)),
                _ => None,
            }
        });
        let loss = values.into_iter().next()?;
        Some((step_of(event)?, loss))
    };
    read(folder).iter().filter_map(of).collect()
}

fn expected(steps: std::ops::RangeInclusive<u64>) -> Vec<(u64, f32)> {
    steps.map(|step| (step, 1.0 / step as f32)).collect()
}

#[test]
fn a_resumed_run_has_each_step_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(!TensorBoard::has_events(folder));
    train(folder, 0, 5);
    assert!(TensorBoard::has_events(folder));
    assert_eq!(losses(folder), expected(1..=5));
    // The process is killed after step 5, and leaves an incomplete event. Its last checkpoint is of
    // step 3.
    let path = &event_files(folder)[0];
    let mut bytes = fs::read(path).unwrap();
    bytes.truncate(bytes.len() - 3);
    fs::write(path, bytes).unwrap();
    train(folder, 3, 6);
    assert_eq!(losses(folder), expected(1..=6));
    // The run resumes from step 2, which is before the step from which it resumed last.
    train(folder, 2, 4);
    assert_eq!(losses(folder), expected(1..=4));
    train(folder, 4, 9);
    assert_eq!(losses(folder), expected(1..=9));
    // A run without a checkpoint starts again at step 1.
    train(folder, 0, 2);
    assert_eq!(losses(folder), expected(1..=2));
}

#[test]
fn each_process_writes_a_file_that_is_read_last() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // All processes begin within one second. The name of the first file contains a process number,
    // as in an earlier version of this library, and the time of a clock that was ahead.
    train(folder, 0, 3);
    let first = folder.join(format!("{PREFIX}4000000000.99999{SUFFIX}"));
    fs::rename(&event_files(folder)[0], &first).unwrap();
    train(folder, 3, 5);
    train(folder, 5, 6);
    let files = event_files(folder);
    assert_eq!((files.len(), &files[0]), (3, &first));
    assert_eq!(losses(folder), expected(1..=6));
}

#[test]
fn the_steps_before_the_first_file_come_from_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = (1..=3).map(|step| serde_json::to_string(&metrics(step)).unwrap() + "\n");
    fs::write(folder.join("metrics.jsonl"), lines.collect::<String>()).unwrap();
    train(folder, 3, 5);
    assert_eq!(losses(folder), expected(1..=5));
}

#[test]
fn files_of_other_writers_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = folder.join("events.out.tfevents.1.host");
    fs::write(&path, "other").unwrap();
    assert!(!TensorBoard::has_events(folder));
    train(folder, 0, 2);
    assert_eq!(fs::read(&path).unwrap(), b"other");
    assert_eq!(losses(folder), expected(1..=2));
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut board = TensorBoard::new(&folder.path().join("none"));
    let error = board
        .event(Event::Begin { first: 0, steps: 1 })
        .unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.contains("cannot write") && error.contains("tfevents"),
        "{error}"
    );
}
