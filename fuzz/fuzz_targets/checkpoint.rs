//! Reads arbitrary bytes as the training state of a checkpoint (with a matching checksum), as its
//! manifest, and as the settings and records of a run. Nothing may panic.
#![no_main]

#[path = "files.rs"]
mod files;

use training::run::checkpoint::{CONFIG, Checkpoints, Content, MODEL, STATE, newest, read_state};
use training::run::{RunData, read_environments, read_lengths, read_metrics, read_status};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let run = files::folder().join("run");
    let checkpoints = Checkpoints::of(&run);
    let whole = [
        (CONFIG, Content::Bytes(b"{}")),
        (MODEL, Content::Bytes(&[1; 9])),
        (STATE, Content::Bytes(bytes)),
    ];
    let folder = checkpoints.save(1, &whole).expect("a temporary folder");
    let files = checkpoints.read(1).expect("it is whole");
    assert_eq!(files.read(STATE).as_deref(), Ok(bytes));
    let _ = (newest(&checkpoints), read_state(&files));
    std::fs::write(folder.join("manifest.json"), bytes).expect("a temporary file");
    let _ = (checkpoints.read(1), newest(&checkpoints));
    let names = [
        "metrics.jsonl",
        "status.json",
        "lengths.json",
        "environment.json",
        "summary.json",
    ];
    for name in names {
        files::write(&format!("run/{name}"), bytes);
    }
    files::write("run/config.json", br#"{"data":{"task":"copy"}}"#);
    let _ = (read_metrics(&run), read_status(&run), RunData::read(&run));
    let _ = (read_lengths(&run), read_environments(&run));
    files::write("run/config.json", bytes);
    let _ = RunData::summary(&run);
});
