//! Environment variables that select fast paths and vector instructions.

use super::{succeed, text, train};

#[test]
fn a_wrong_variable_is_an_error_of_usage() {
    let folder = tempfile::tempdir().unwrap();
    for (variable, wrong, parts) in [
        (
            "FUSED_SIMD",
            "mmx",
            ["must be one of scalar", "on this machine"],
        ),
        (
            "FUSED_FAST_PATHS",
            "no",
            ["must be one of on, off", "on this machine"],
        ),
    ] {
        let mut train = train(folder.path());
        let output = train.arg("fit").env(variable, wrong).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        let subject = format!("{variable} {wrong}: ");
        assert!(stderr.contains(&subject), "{stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{stderr}");
    }
}

#[test]
fn every_level_of_the_cpu_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let line = |level: Option<&str>| {
        let mut train = train(folder.path());
        train.arg("backends").env_remove("FUSED_SIMD");
        if let Some(level) = level {
            train.env("FUSED_SIMD", level);
        }
        let stdout = succeed(&train.output().unwrap());
        stdout.lines().last().unwrap().to_string()
    };
    let all = line(None);
    let (_, levels) = all.split_once("this CPU has ").unwrap();
    for level in levels.split(", ") {
        let expected = format!("flex: {level}; this CPU has {levels}");
        assert!(line(Some(level)).ends_with(&expected), "{level}");
    }
}

#[cfg(not(feature = "mpi"))]
#[test]
fn a_build_without_mpi_does_not_train_once_for_each_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut train = train(folder.path());
    let output = train.env("OMPI_COMM_WORLD_SIZE", "4").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("processes 4: need a build with MPI: "),
        "{stderr}"
    );
    assert!(!folder.path().join("runs").exists());
}
