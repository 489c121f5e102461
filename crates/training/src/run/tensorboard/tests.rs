use super::*;
use crate::run::StepMetrics;
use crate::tests::assert_has;

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

fn begin(first: usize) -> Event<'static> {
    Event::Begin {
        first,
        steps: 9,
        evaluate_every: 100,
        epoch: None,
    }
}

/// Writes the events of a run that resumes after `first` steps and stops after step `last`.
fn train(folder: &Path, first: usize, last: usize) {
    let lines = (1..=first).map(|step| serde_json::to_string(&metrics(step)).unwrap() + "\n");
    fs::write(folder.join("metrics.jsonl"), lines.collect::<String>()).unwrap();
    let mut board = TensorBoard::new(folder);
    board.event(begin(first)).unwrap();
    for step in first + 1..=last {
        board.event(Event::Metrics(&metrics(step))).unwrap();
    }
    board.event(Event::End).unwrap();
}

/// Returns the losses in a folder's event files.
fn losses(folder: &Path) -> Vec<f32> {
    let files = event_files(folder);
    let bytes = Vec::from_iter(files.iter().flat_map(|path| fs::read(path).unwrap()));
    let tag = b"train/loss\x15";
    let places = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(tag));
    let values = places.map(|at| bytes[at + tag.len()..].first_chunk().unwrap());
    values.map(|value| f32::from_le_bytes(*value)).collect()
}

#[test]
fn a_resumed_run_has_each_step_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let other = folder.join("events.out.tfevents.1.host");
    fs::write(&other, "other").unwrap();
    assert!(!TensorBoard::has_events(folder));
    // The clock was ahead when the first process began.
    train(folder, 0, 5);
    let ahead = folder.join(format!("{PREFIX}4000000000{SUFFIX}"));
    fs::rename(&event_files(folder)[0], &ahead).unwrap();
    for (first, last) in [(5, 5), (3, 6), (2, 4), (4, 9), (0, 2)] {
        train(folder, first, last);
        let expected: Vec<f32> = (1..=last).map(|step| 1.0 / step as f32).collect();
        let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
        let found = losses(folder);
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(&expected).all(close), "{found:?}");
        assert!(TensorBoard::has_events(folder) && event_files(folder)[0] > ahead);
    }
    assert_eq!(fs::read(&other).unwrap(), b"other");
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut board = TensorBoard::new(&folder.path().join("none"));
    let error = format!("{:#}", board.event(begin(0)).unwrap_err());
    assert_has(&error, &["cannot write", "tfevents"]);
}
