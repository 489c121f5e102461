use super::*;
use crate::tests::assert_has;

fn checkpoints(steps: &[usize]) -> (tempfile::TempDir, Checkpoints) {
    let run = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::of(run.path());
    for &step in steps {
        save(&checkpoints, step);
    }
    (run, checkpoints)
}

fn save(checkpoints: &Checkpoints, step: usize) {
    let a = [step as u8; 5];
    let files = [("a", Content::Bytes(&a)), ("b", Content::Bytes(b"text"))];
    checkpoints.save(step, &files).unwrap();
}

fn anything(_: usize, _: &LoadedCheckpoint) -> Result<(), CheckpointError> {
    Ok(())
}

#[test]
fn a_saved_checkpoint_can_be_read() {
    let (_run, checkpoints) = checkpoints(&[3, 20, 100]);
    assert_eq!(checkpoints.steps(), [3, 20, 100]);
    let files = checkpoints.read(20).unwrap();
    assert_eq!(files.read("a").unwrap(), [20; 5]);
    assert_eq!(files.read("b").unwrap(), b"text");
    assert_eq!(files.read("b").unwrap(), b"text");
    assert_has(&files.read("c").unwrap_err(), &["step-20/c: is missing"]);
    // A checkpoint of the same step is replaced, with the files that it alone has.
    let stale = [("stale", Content::Bytes(&[1]))];
    checkpoints.save(20, &stale).unwrap();
    save(&checkpoints, 20);
    assert!(!checkpoints.path(20).join("stale").exists());
    assert_eq!(checkpoints.read(20).unwrap().read("a").unwrap(), [20; 5]);
    let names: Vec<_> = fs::read_dir(checkpoints.folder()).unwrap().collect();
    assert_eq!(names.len(), 3);
}

#[test]
fn what_a_run_did_not_write_is_kept() {
    let (_run, checkpoints) = checkpoints(&[3, 9]);
    let note = checkpoints.path(9).join("note");
    let other = checkpoints.path(9).join("run/config.json");
    fs::write(&note, "mine").unwrap();
    fs::create_dir(other.parent().unwrap()).unwrap();
    fs::write(&other, "{}").unwrap();
    checkpoints.remove_after(3).unwrap();
    assert!(note.exists() && other.exists() && !checkpoints.path(9).join("a").exists());
    save(&checkpoints, 9);
    checkpoints.tidy();
    assert!(note.exists() && other.exists());
    assert_eq!(checkpoints.read(9).unwrap().read("a").unwrap(), [9; 5]);
    save(&checkpoints, 10);
    checkpoints.prune(1, &[]).unwrap();
    assert!(note.exists() && other.exists() && !checkpoints.path(3).exists());
}

#[test]
fn checkpoints_are_new_until_their_folder_has_a_file() {
    let run = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::of(run.path());
    assert!(checkpoints.is_new().unwrap());
    fs::create_dir(checkpoints.folder()).unwrap();
    assert!(checkpoints.is_new().unwrap());
    save(&checkpoints, 3);
    assert!(!checkpoints.is_new().unwrap());
    fs::remove_dir_all(checkpoints.folder()).unwrap();
    fs::write(checkpoints.folder(), "not a folder").unwrap();
    assert!(checkpoints.is_new().is_err());
}

#[test]
fn a_damaged_checkpoint_is_skipped_and_named() {
    for (name, contents, message) in [
        ("a", Some(&[9_u8; 5][..]), "a: differs from its SHA-256"),
        ("a", Some(&[9; 4]), "a: has 4 bytes, but was written with 5"),
        ("b", None, "b: is missing"),
        (MANIFEST, None, "manifest.json: is missing"),
        (MANIFEST, Some(b"{"), "manifest.json: is not a manifest"),
        // All files of the folder are missing.
        ("", None, "is missing"),
    ] {
        let (_run, checkpoints) = checkpoints(&[3, 20]);
        let damage = |step: usize| {
            let path = checkpoints.path(step);
            if let Some(bytes) = contents {
                fs::write(path.join(name), bytes).unwrap();
            } else if name.is_empty() {
                fs::remove_dir_all(&path).unwrap();
                fs::create_dir(&path).unwrap();
            } else {
                fs::remove_file(path.join(name)).unwrap();
            }
        };
        damage(20);
        let (step, _, skipped) = checkpoints.newest(anything).unwrap();
        assert_eq!((step, skipped.len()), (3, 1));
        assert_has(&skipped[0], &["step-20", message]);
        damage(3);
        let error = checkpoints.newest(anything).unwrap_err();
        assert_has(&error, &["no checkpoint that is whole"]);
        // A resumed run saves the same step again.
        save(&checkpoints, 20);
        assert_eq!(checkpoints.newest(anything).unwrap().0, 20);
    }
}

#[test]
fn a_newer_format_is_not_skipped() {
    let (_run, checkpoints) = checkpoints(&[3, 20]);
    let manifest = r#"{"format": 2, "something": "else"}"#;
    fs::write(checkpoints.path(20).join(MANIFEST), manifest).unwrap();
    let error = checkpoints.newest(anything).unwrap_err();
    assert!(error.may_be_whole);
    assert_has(&error, &["format 2"]);
}

#[test]
#[cfg(unix)]
fn a_file_that_cannot_be_opened_for_now_is_no_damage() {
    let (_run, checkpoints) = checkpoints(&[3, 20]);
    // Root may read everything, but no link to itself.
    let path = checkpoints.path(20).join(MANIFEST);
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&path, &path).unwrap();
    let error = checkpoints.newest(anything).unwrap_err();
    assert!(error.may_be_whole);
    assert_has(&error, &["step-20"]);
}

#[test]
fn only_the_newest_and_the_chosen_are_kept() {
    let (_run, checkpoints) = checkpoints(&[1, 2, 3, 4, 5]);
    checkpoints.prune(2, &[1]).unwrap();
    assert_eq!(checkpoints.steps(), [1, 4, 5]);
    // Folders of other programs take no place among those kept.
    fs::create_dir(checkpoints.path(6)).unwrap();
    fs::create_dir(checkpoints.folder().join("step-07")).unwrap();
    checkpoints.prune(2, &[1]).unwrap();
    assert_eq!(checkpoints.steps(), [1, 4, 5, 6]);
}

#[test]
fn checkpoints_after_a_step_are_removed() {
    let (_run, checkpoints) = checkpoints(&[3, 20, 100]);
    checkpoints.remove_after(20).unwrap();
    assert_eq!(checkpoints.steps(), [3, 20]);
}

#[test]
fn a_reader_beside_a_run_that_removes_old_ones_finds_the_newest() {
    let (_run, checkpoints) = checkpoints(&[1]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for step in 2..300 {
                save(&checkpoints, step);
                checkpoints.prune(1, &[]).unwrap();
            }
        });
        while !writer.is_finished() {
            let (_, _, skipped) = checkpoints.newest(anything).unwrap();
            assert!(skipped.is_empty(), "{skipped:?}");
        }
    });
}

#[test]
fn half_written_and_half_replaced_checkpoints_are_tidied_up() {
    let (_run, checkpoints) = checkpoints(&[1, 2]);
    let at = |name: &str| checkpoints.folder().join(name);
    fs::create_dir(at(".step-3.new")).unwrap();
    fs::rename(at("step-2"), at(".step-2.old")).unwrap();
    fs::create_dir(at(".step-1.old")).unwrap();
    fs::write(at(".step-1.old/note"), "mine").unwrap();
    // Folders of other names belong to the user.
    let own = [".step-notes", ".mine.old", ".step-3.mine"];
    for name in own {
        fs::create_dir(at(name)).unwrap();
    }
    checkpoints.tidy();
    assert_eq!(checkpoints.steps(), [1, 2]);
    assert_eq!(fs::read(at("step-1/note")).unwrap(), b"mine");
    assert!(own.iter().all(|name| at(name).is_dir()));
    assert_eq!(fs::read_dir(checkpoints.folder()).unwrap().count(), 5);
    assert_eq!(checkpoints.newest(anything).unwrap().0, 2);
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_nothing() {
    let (_run, checkpoints) = checkpoints(&[1]);
    // The second file is in a folder that does not exist, so writing fails.
    let error = checkpoints.save(
        2,
        &[
            ("a", Content::Bytes(&[1])),
            ("no/where", Content::Bytes(&[2])),
        ],
    );
    let error = format!("{:#}", error.unwrap_err());
    assert_has(&error, &["cannot write", "step-2"]);
    assert_eq!(fs::read_dir(checkpoints.folder()).unwrap().count(), 1);
    assert_eq!(checkpoints.newest(anything).unwrap().0, 1);
}
