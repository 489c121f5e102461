use std::fs;

use super::*;
use crate::run::lock::lock;

/// Returns a writer that holds the lock of a folder.
fn writer(folder: &Path) -> StatusWriter {
    StatusWriter::new(lock(folder, "run").unwrap())
}

fn status_of(folder: &Path) -> (Status, Option<String>) {
    let read = read_status(folder).unwrap();
    (read.status, read.reason)
}

#[test]
fn a_run_that_no_process_trains_is_killed_unless_it_says_why_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(read_status(folder).is_err());
    let mut writer = writer(folder);
    writer.begin(3, 9).unwrap();
    assert_eq!(status_of(folder), (Status::Running, None));
    let file = fs::read(folder.join(STATUS)).unwrap();
    drop(writer);
    // A killed process does not record its end.
    fs::write(folder.join(STATUS), &file).unwrap();
    let killed = read_status(folder).unwrap();
    assert_eq!((killed.step, killed.steps), (3, 9));
    assert_eq!(killed.status, Status::Killed);
    assert!(killed.reason.unwrap().contains("without recording why"));
    // Reading the status does not change the file.
    assert_eq!(fs::read(folder.join(STATUS)).unwrap(), file);
    // No process trains in a copy of a running run's folder.
    let held = lock(folder, "run").unwrap();
    let copy = tempfile::tempdir().unwrap();
    fs::copy(folder.join(STATUS), copy.path().join(STATUS)).unwrap();
    assert_eq!(status_of(copy.path()).0, Status::Killed);
    assert_eq!(status_of(folder).0, Status::Running);
    drop(held);
}

#[test]
fn the_first_end_of_a_run_counts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut writer = writer(folder);
    let stop = |writer: &mut StatusWriter| writer.end(Status::Stopped, stopped_by("SIGINT"));
    stop(&mut writer).unwrap();
    assert!(read_status(folder).is_err());
    writer.begin(0, 9).unwrap();
    writer.change(|current| current.step = 5).unwrap();
    stop(&mut writer).unwrap();
    let finish = |current: &mut RunStatus| current.status = Status::Finished;
    writer.change(finish).unwrap();
    drop(writer);
    let read = read_status(folder).unwrap();
    let stopped = RunStatus {
        status: Status::Stopped,
        step: 5,
        steps: 9,
        reason: Some("stopped by SIGINT".into()),
        began_with: None,
    };
    assert_eq!(read, stopped);
    record_stop(folder, "SIGTERM").unwrap();
    assert_eq!(read_status(folder).unwrap(), stopped);
}

#[test]
fn errors_and_panics_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let begin = || {
        let mut writer = writer(folder);
        writer.begin(0, 9).unwrap();
        writer
    };
    let diverged = DivergedError {
        what: "the loss is NaN at step 4".into(),
        advice: "use a lower learning rate".into(),
    };
    begin().fail(&diverged.into()).unwrap();
    let what = Some("the loss is NaN at step 4".into());
    assert_eq!(status_of(folder), (Status::Diverged, what));
    let error = anyhow::anyhow!("no space left").context("cannot write metrics.jsonl");
    begin().fail(&error).unwrap();
    let what = Some("cannot write metrics.jsonl: no space left".into());
    assert_eq!(status_of(folder), (Status::Failed, what));
    drop(begin());
    let (status, reason) = status_of(folder);
    assert_eq!(status, Status::Failed);
    assert!(reason.unwrap().contains("before it wrote the results"));
    let writer = begin();
    let panics = std::thread::spawn(move || {
        let _writer = writer;
        panic!("for the test");
    });
    assert!(panics.join().is_err());
    let panicked = Some("the program panicked".into());
    assert_eq!(status_of(folder), (Status::Failed, panicked));
    // A process that exits records the stop while another of its threads is training.
    let writer = begin();
    record_stop(folder, "SIGTERM").unwrap();
    let stopped = Some("stopped by SIGTERM".into());
    assert_eq!(status_of(folder), (Status::Stopped, stopped));
    drop(writer);
}

#[test]
fn a_damaged_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(STATUS), "{\"status\":\"lost\"}").unwrap();
    let error = read_status(folder.path()).unwrap_err().to_string();
    assert!(error.contains("status.json: is damaged"), "{error}");
}

#[test]
fn reasons_are_short_and_exact() {
    let target = |exact_match, target| {
        let step = 300;
        EndReason::TargetReached {
            exact_match,
            target,
            step,
        }
        .to_string()
    };
    assert_eq!(
        target(0.71, 0.7),
        "target reached: exact match 0.71 >= 0.7 at step 300"
    );
    assert!(target(0.999_99, 0.9).contains("0.9999 >= 0.9 "));
    // The shown score is never below the target.
    assert!(target(2.0 / 3.0, 0.666_66).contains("0.6667 >= 0.66666 "));
    assert_eq!(
        EndReason::AllSteps { steps: 12 }.to_string(),
        "all 12 steps taken"
    );
    assert_eq!(
        EndReason::OutOfPatience { best: 2 }.to_string(),
        "no better evaluation since step 2"
    );
    assert_eq!(format!("{:<9}|", Status::Killed), "killed   |");
}
