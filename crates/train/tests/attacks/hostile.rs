//! Hostile files, which try to exhaust memory, time or the stack, or to cause a panic.

use std::fs;
use std::path::{Path, PathBuf};

use super::program::Program;
use super::rounds::make_attacks;
use super::runs::{copy, train_both};
use super::{corpora, records, tokenizers, weights};

/// A hostile file, and a command that reads it.
pub struct Hostile {
    pub what: String,
    /// Path below the folder of the attack.
    pub path: PathBuf,
    pub bytes: Vec<u8>,
    pub command: String,
    pub expected: Expected,
    /// Words that the message may contain instead of the file's name.
    pub words: Vec<String>,
    /// Further files, which are written beside the hostile file: path and contents.
    pub others: Vec<(String, Vec<u8>)>,
}

/// The allowed outcomes of a command that reads a hostile file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// An error that names the file.
    Error,
    /// An error that names the file, or success, because the file is unusual but may be valid.
    Either,
}

impl Hostile {
    pub fn new(what: &str, path: &str, bytes: impl Into<Vec<u8>>, command: &str) -> Self {
        Self {
            what: what.into(),
            path: path.into(),
            bytes: bytes.into(),
            command: command.into(),
            expected: Expected::Error,
            words: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Allows a message that contains `word` instead of the name of the file.
    pub fn or_naming(mut self, word: &str) -> Self {
        self.words.push(word.into());
        self
    }

    pub fn beside(mut self, others: Vec<(String, Vec<u8>)>) -> Self {
        self.others = others;
        self
    }

    pub fn or_success(mut self) -> Self {
        self.expected = Expected::Either;
        self
    }

    fn attack(&self, scene: &Path) -> Result<&'static str, String> {
        let folder = tempfile::tempdir().unwrap();
        copy(scene, folder.path());
        for (path, bytes) in &self.others {
            fs::write(folder.path().join(path), bytes).unwrap();
        }
        fs::write(folder.path().join(&self.path), &self.bytes).unwrap();
        let program = Program::new(folder.path(), &self.command);
        let answer = program.reading("1 2 3\n").run();
        let path = self.path.display();
        let wrong = |fault: String| format!("{path}: {}: {fault}", self.what);
        answer.check().map_err(wrong)?;
        let name = self
            .path
            .file_name()
            .expect("it is a file")
            .to_string_lossy();
        let words = self.words.iter().map(String::as_str);
        let words: Vec<&str> = words.chain([&*name]).collect();
        match (answer.code, self.expected) {
            (Some(0), Expected::Either) => Ok("success"),
            (Some(0), Expected::Error) => Err(wrong(answer.fault("must be an error"))),
            _ if answer.names(&words) => Ok("an error that names the file"),
            _ => Err(wrong(answer.fault("the file is not named"))),
        }
    }
}

/// Returns JSON of `depth` nested arrays.
pub fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

fn attack_all(name: &str, make: impl Fn(&Path) -> Vec<Hostile>) {
    let folder = tempfile::tempdir().unwrap();
    train_both(folder.path(), "--steps 4 --eval-every 2");
    let all = make(folder.path());
    assert!(all.len() > 5);
    make_attacks(name, all.len() as u64, |case, _| {
        all[case as usize % all.len()].attack(folder.path())
    });
}

#[test]
fn hostile_corpora_give_errors() {
    attack_all("hostile corpora", |_| corpora::all());
}

#[test]
fn hostile_tokenizers_give_errors() {
    attack_all("hostile tokenizers", tokenizers::all);
}

#[test]
fn hostile_records_of_runs_give_errors() {
    attack_all("hostile records", records::all);
}

#[test]
fn hostile_weights_give_errors() {
    attack_all("hostile weights", |_| weights::all());
}
