//! Environment variables that select fast paths and vector instructions.

use super::{Folder, fails, succeed, text, train};

#[test]
fn a_wrong_variable_is_an_error_of_usage() {
    let folder = &Folder::new();
    for (variable, wrong) in [
        ("FUSED_SIMD", "mmx"),
        ("FUSED_FAST_PATHS", "no"),
        ("RAYON_NUM_THREADS", "abc"),
    ] {
        let mut train = train(folder);
        let output = train.arg("fit").env(variable, wrong).output().unwrap();
        fails(&output, 2, &[&format!("{variable} {wrong}: ")]);
        assert_eq!(text(&output.stderr).lines().count(), 1);
    }
}

#[test]
fn every_level_of_the_cpu_can_be_chosen() {
    let folder = &Folder::new();
    let line = |level: Option<&str>| {
        let mut train = train(folder);
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
        let line = line(Some(level));
        let begin = format!("vector instructions of flex: {level}; bf16");
        assert!(line.starts_with(&begin) && line.ends_with(levels), "{line}");
    }
}

#[test]
fn processes_that_cannot_reach_each_other_do_not_train_one_by_one() {
    let names = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];
    for name in names {
        let folder = &Folder::new();
        let mut train = train(folder);
        for name in names {
            train.env_remove(name);
        }
        let output = train.env(name, "4").output().unwrap();
        let why = if cfg!(feature = "mpi") {
            "cannot reach each other: "
        } else {
            "need a build with MPI: "
        };
        let advice = format!("start it as `env -u {name} train ..`\n");
        fails(&output, 2, &[&format!("processes 4: {why}"), &advice]);
        assert!(!folder.join("runs").exists());
    }
}
