//! Small runs to attack, and the comparison of two runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::program::Program;

/// Arguments that train a run of the copy task in about half a second, with dropout, a moving
/// average and event files.
const COPY: &str = "fit --task copy --batch-size 8 --d-model 16 --heads 2 --d-ff 16 --layers 1 \
    --symbols 9 --max-length 5 --dropout 0.1 --ema 0.9 --eval-lengths 2,4 --sequences 4 \
    --tensorboard --threads 1 --run-dir run";

/// Arguments that train a run on texts, with its own tokenisers and a cache.
const TEXT: &str = "fit --task text --preset tiny --d-model 16 --heads 2 --layers 1 --d-ff 16 \
    --train pairs.tsv --valid valid.tsv --schedule noam --batch-tokens 400 \
    --threads 1 --run-dir run";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Copy,
    Text,
}

impl Kind {
    /// Returns the call of `fit` that trains the run `run` in a folder; `more` has further flags.
    pub fn fit(self, folder: &Path, more: &str) -> Program {
        let line = match self {
            Self::Copy => COPY,
            Self::Text => TEXT,
        };
        Program::new(folder, &format!("{line} {more}"))
    }

    /// Writes the files that a run of this kind reads.
    pub fn prepare(self, folder: &Path) {
        if self == Self::Text {
            fs::write(folder.join("pairs.tsv"), pairs(60)).unwrap();
            fs::write(folder.join("valid.tsv"), pairs(8)).unwrap();
            fs::write(folder.join("lines"), pairs(8)).unwrap();
        }
    }
}

/// Trains a run on texts, named `text`, and a run of the copy task, named `run`.
pub fn train_both(folder: &Path, copy: &str) {
    Kind::Text.prepare(folder);
    let text = Kind::Text.fit(folder, "--steps 3");
    text.replacing("run", "text").succeed();
    Kind::Copy.fit(folder, copy).succeed();
}

/// Returns lines `SOURCE<TAB>TARGET` of an invented language.
///
/// The target is the source, reversed letter by letter.
pub fn pairs(n: usize) -> String {
    const WORDS: [&str; 8] = [
        "balo", "keme", "duna", "fira", "goli", "hesa", "ñandú", "kula",
    ];
    let word = |i: usize| WORDS[i % WORDS.len()];
    let line = |i: usize| {
        let words: Vec<&str> = (0..2 + i % 5).map(|j| word(i * i + 3 * j)).collect();
        let source = words.join(" ");
        let target: String = source.chars().rev().collect();
        format!("{source}\t{target}\n")
    };
    (0..n).map(line).collect()
}

/// Returns all regular files in a folder and its subfolders, by their paths relative to the folder.
pub fn files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                let name = path.strip_prefix(folder).unwrap();
                found.insert(name.to_string_lossy().into_owned(), path);
            }
        }
    }
    found
}

/// Creates an empty folder, in place of an existing one.
///
/// Runs that are compared must be trained in the same folder, because the paths of corpora are
/// settings of a run.
pub fn renew(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir(folder).unwrap();
}

/// Copies all files in a folder and its subfolders.
pub fn copy(from: &Path, to: &Path) {
    for (name, path) in files(from) {
        let target = to.join(name);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(path, target).unwrap();
    }
}

/// Returns the parts of a run that must be reproducible with the same seed, by their paths.
///
/// Weights, optimizer moments, tokenisers, settings, status and scores by length are returned byte
/// for byte. Metrics, states and summaries are returned without times and machine-dependent fields.
pub fn essence(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut essence = BTreeMap::new();
    for (path, file) in files(run) {
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        let bytes = fs::read(file).unwrap();
        let kept = if name.ends_with(".safetensors")
            || name.ends_with("tokenizer.json")
            || ["config.json", "lengths.json", "status.json"].contains(&&*name)
        {
            bytes
        } else if ["state.json", "metrics.jsonl", "summary.json"].contains(&&*name) {
            without_times(&bytes)
        } else {
            continue;
        };
        essence.insert(path, kept);
    }
    essence
}

/// Keeps only the reproducible fields of JSON objects, which may be on one line or on several
/// lines.
fn without_times(bytes: &[u8]) -> Vec<u8> {
    const KEPT: &str = "step loss learning_rate gradient_norm tokens padding skipped valid_loss \
        token_accuracy exact_match bleu chrf seed updates best since_best loss_scale threads \
        ended_of end_reason parameters steps sequences reason";
    let mut text = Vec::new();
    for value in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>() {
        let Ok(Value::Object(mut object)) = value else {
            // A file that cannot be parsed is compared unchanged.
            return bytes.to_vec();
        };
        object.retain(|name, _| KEPT.split_whitespace().any(|kept| kept == name));
        text.extend(serde_json::to_vec(&object).unwrap());
        text.push(b'\n');
    }
    text
}

/// Compares the [`essence`] of two runs.
///
/// # Errors
///
/// The names of the files that differ.
pub fn same(
    one: &BTreeMap<String, Vec<u8>>,
    other: &BTreeMap<String, Vec<u8>>,
) -> Result<(), String> {
    let names = one.keys().chain(other.keys());
    let mut names: Vec<&String> = names
        .filter(|name| one.get(*name) != other.get(*name))
        .collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        Ok(())
    } else {
        Err(format!("{names:?} differ"))
    }
}
