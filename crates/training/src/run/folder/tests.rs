use std::fs;

use super::*;
use crate::run::layout::{METRICS, STATUS};
use crate::run::records::StepMetrics;
use crate::tests::assert_has;

#[test]
fn a_run_folder_cannot_be_the_folder_of_caches() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("cache");
    let caches = RunFolder::caches(Some(&parent.path().join("run")));
    let error = RunFolder::check(Some(&path), &caches).unwrap_err();
    assert_has(&error, &["cache: has the cache of corpora in it, "]);
    let inside = RunFolder::check(Some(&path), &path.join("a/b"));
    assert_has(&inside.unwrap_err(), &["a/b; name another folder"]);
    assert!(!path.exists());
    let path = parent.path().join("run");
    assert_eq!(RunFolder::check(Some(&path), &caches), Ok(()));
    assert_eq!(RunFolder::check(None, &caches), Ok(()));
    fs::create_dir_all(path.join("something")).unwrap();
    let error = RunFolder::check(Some(&path), &caches).unwrap_err();
    assert_has(&error, &["run: is not empty"]);
}

#[test]
fn a_run_that_cannot_begin_leaves_no_folder() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let config = RunConfig::copy();
    let others = |path: &Path| {
        fs::write(path.join("tokenizer.json"), "")?;
        anyhow::bail!("the disk is full")
    };
    assert!(RunFolder::create_with(Some(&path), &config, others).is_err());
    assert!(!path.exists());
    // A folder that was there is the user's.
    fs::create_dir(&path).unwrap();
    assert!(RunFolder::create_with(Some(&path), &config, others).is_err());
    assert!(path.exists());
    RunFolder::create(Some(&path), &config).unwrap();
}

#[cfg(unix)]
#[test]
fn links_in_a_run_lead_nowhere() {
    use std::os::unix::fs::symlink;

    use crate::run::layout::{CHECKPOINTS, LOCK, PICTURES};

    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let other = parent.path().join("other");
    drop(RunFolder::create(Some(&path), &RunConfig::copy()).unwrap());
    for (name, what) in [
        (LOCK, "lock: must be a regular file, and not a link"),
        (METRICS, "metrics.jsonl: must be a regular file"),
        (STATUS, "status.json: must be a regular file"),
        (SUMMARY, "summary.json: must be a regular file"),
        (CHECKPOINTS, "checkpoints: must be a folder, and not a link"),
        (PICTURES, "pictures: must be a folder, and not a link"),
    ] {
        let file = path.join(name);
        let kept = fs::read(&file).ok();
        let _ = fs::remove_file(&file);
        // The link leads to nothing, to a file, or to a folder.
        for exists in [false, true] {
            if exists && name == CHECKPOINTS {
                fs::create_dir(&other).unwrap();
            } else if exists {
                fs::write(&other, "mine").unwrap();
            }
            symlink(&other, &file).unwrap();
            assert_has(&RunFolder::open(&path).err().unwrap(), &[what]);
            fs::remove_file(&file).unwrap();
        }
        assert!(other.is_dir() || fs::read(&other).unwrap() == b"mine");
        let _ = fs::remove_file(&other).or_else(|_| fs::remove_dir(&other));
        if let Some(bytes) = kept {
            fs::write(&file, bytes).unwrap();
        }
    }
    // The folder of a new run may already have a file `lock`, but not a link of that name.
    let new = parent.path().join("new");
    fs::create_dir(&new).unwrap();
    fs::write(&other, "mine").unwrap();
    symlink(&other, new.join(LOCK)).unwrap();
    let created = RunFolder::create(Some(&new), &RunConfig::copy());
    assert_has(&created.err().unwrap(), &["and not a link"]);
    assert_eq!(fs::read(&other).unwrap(), b"mine");
}

#[test]
fn the_observer_logs_metrics_and_rewind_removes_them() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let config = RunConfig::copy();
    let mut folder = RunFolder::create(Some(&path), &config).unwrap();
    folder.rewind(&Checksum::default(), 0).unwrap();
    let metrics = |step| StepMetrics {
        step,
        loss: 0.5,
        learning_rate: 0.25,
        gradient_norm: 2.0,
        tokens: 8,
        padding: 0.0,
        seconds: 0.123_46,
        tokens_per_second: 64.79,
        skipped: false,
    };
    let line = |step: usize| {
        format!(
            r#"{{"step":{step},"loss":0.5,"learning_rate":0.25,"gradient_norm":2.0,"tokens":8,"padding":0.0,"seconds":0.1235,"tokens_per_second":64.8}}"#
        )
    };
    let read = || fs::read_to_string(path.join(METRICS)).unwrap();
    folder.event(Event::Metrics(&metrics(1))).unwrap();
    let position = folder.sync().unwrap();
    assert_eq!(read(), line(1) + "\n");
    let begin = Event::Begin {
        first: 1,
        steps: 2,
        evaluate_every: 100,
        epoch: None,
    };
    folder.event(begin).unwrap();
    folder.event(Event::Metrics(&metrics(2))).unwrap();
    folder.flush().unwrap();
    folder.rewind(&position, 1).unwrap();
    folder.event(Event::Metrics(&metrics(3))).unwrap();
    folder.flush().unwrap();
    assert_eq!(read(), format!("{}\n{}\n", line(1), line(3)));
}

#[test]
fn a_run_that_was_killed_between_its_last_two_files_has_not_ended() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    drop(RunFolder::create(Some(&path), &RunConfig::copy()).unwrap());
    fs::write(path.join(SUMMARY), r#"{"steps":12}"#).unwrap();
    fs::write(path.join("summary.json.12.tmp"), "{").unwrap();
    let running = r#"{"status":"running","step":12,"steps":12}"#;
    fs::write(path.join(STATUS), running).unwrap();
    let folder = RunFolder::open(&path).unwrap();
    assert_eq!(folder.ended_at(), None);
    assert!(!path.join("summary.json.12.tmp").exists());
    let finished = running.replace("running", "finished");
    fs::write(path.join(STATUS), finished).unwrap();
    assert_eq!(folder.ended_at(), Some(12));
    fs::remove_file(path.join(SUMMARY)).unwrap();
    assert_eq!(folder.ended_at(), None);
}

#[test]
fn a_folder_in_use_is_not_opened_again() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let folder = RunFolder::create(Some(&path), &RunConfig::copy()).unwrap();
    let error = RunFolder::open(&path).unwrap_err().to_string();
    let process = format!(
        "is in use by another process (process {})",
        std::process::id()
    );
    assert_has(&error, &["run ", &process]);
    drop(folder);
    RunFolder::open(&path).unwrap();
}

#[test]
fn a_missing_folder_explains_a_missing_file() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let mut folder = RunFolder::create(Some(&path), &RunConfig::copy()).unwrap();
    fs::rename(&path, parent.path().join("other")).unwrap();
    let error = folder.record_failure(io::Error::from(io::ErrorKind::NotFound).into());
    assert_has(
        &error,
        &["run or its file lock was removed, renamed or replaced"],
    );
}
