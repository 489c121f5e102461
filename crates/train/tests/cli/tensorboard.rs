//! Event files for TensorBoard.

use super::runs::small;
use super::*;

/// Returns the events in the event files of a run, and checks their lengths and checksums.
fn tensorboard_events(run: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(run).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_str().unwrap().contains("tfevents"));
    files.sort();
    let masked = |bytes: &[u8]| {
        let sum = crc32c::crc32c(bytes);
        sum.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
    };
    let mut events = Vec::new();
    for path in files {
        let bytes = std::fs::read(path).unwrap();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (length, after) = rest.split_at(8);
            let (sum, after) = after.split_at(4);
            assert_eq!(sum, masked(length));
            let length = u64::from_le_bytes(length.try_into().unwrap());
            let (event, after) = after.split_at(length as usize);
            let (sum, after) = after.split_at(4);
            assert_eq!(sum, masked(event));
            events.push(event.to_vec());
            rest = after;
        }
    }
    events
}

#[test]
fn event_files_for_tensorboard_have_each_step_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let run = folder.join("runs/run");
    let count = |tag: &str| {
        let has = |event: &Vec<u8>| event.windows(tag.len()).any(|it| it == tag.as_bytes());
        tensorboard_events(&run)
            .iter()
            .filter(|event| has(event))
            .count()
    };
    small(folder, "run", &["--tensorboard", "--eval-every", "6"]);
    for tag in [
        "loss",
        "learning_rate",
        "gradient_norm",
        "tokens_per_second",
    ] {
        assert_eq!(count(&format!("train/{tag}")), 12, "{tag}");
    }
    for tag in ["loss", "token_accuracy", "exact_match"] {
        assert_eq!(count(&format!("validation/{tag}")), 2, "{tag}");
    }
    assert_eq!(count("validation/bleu"), 0);
    // A resumed run continues its event files even without the flag.
    let resume = |arguments: &[&str]| {
        let arguments = [&["resume", "runs/run"], arguments].concat();
        succeed(&train(folder).args(arguments).output().unwrap());
    };
    resume(&["--steps", "15"]);
    assert_eq!(count("train/loss"), 15);
    // If a run without event files is resumed with the flag, it gets the events of all its steps.
    for entry in std::fs::read_dir(&run).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains("tfevents") {
            std::fs::remove_file(path).unwrap();
        }
    }
    resume(&["--steps", "16"]);
    assert_eq!(tensorboard_events(&run).len(), 0);
    resume(&["--steps", "18", "--tensorboard"]);
    assert_eq!(count("train/loss"), 18);
    assert_eq!(count("validation/loss"), 3);
}
