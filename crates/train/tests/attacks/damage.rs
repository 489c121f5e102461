//! Damaged files.
//!
//! A command must give the result that it gives without the damage, or an error or a warning that
//! names the file. For the files in [`FREE`], some commands may give another result.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::RngExt;
use serde_json::Value;

use super::answer::Answer;
use super::program::Program;
use super::rounds::{Random, make_attacks};
use super::runs::{Kind, copy, essence, files, renew};

/// Files in which the program cannot detect all damage, and the commands whose results may then
/// change.
///
/// In these files, a changed number or word can look like another valid number or word:
///
/// - `config.json` has settings, which the user may change;
/// - `metrics.jsonl`, `summary.json`, `lengths.json`, `status.json` and `environment.json` are a
///   log, which `plot`, `report` and `runs` show unchanged;
/// - `weights.safetensors` has a format without checksums.
///
/// Files in a checkpoint have checksums, so damage to them must always be noticed.
const FREE: [(&str, &[&str]); 7] = [
    (
        "config.json",
        &["eval", "generate", "plot", "report", "runs", "resume"],
    ),
    ("metrics.jsonl", &["plot", "report", "runs"]),
    ("summary.json", &["plot", "report", "runs"]),
    ("lengths.json", &["plot", "report"]),
    ("status.json", &["plot", "report", "runs"]),
    ("environment.json", &["plot", "report"]),
    ("weights.safetensors", &["import", "inspect"]),
];

/// Content of a file that is not in the attacked folder.
const OTHER: &[u8] = b"mine";

/// A folder to attack, and the commands that read it.
struct Scene {
    folder: PathBuf,
    kind: Kind,
    /// Results of the commands without damage.
    results: Vec<Result>,
}

/// Results of a command without times: contents by file name.
///
/// The files are those that the command writes. If it writes none, its standard output is the only
/// entry, with the name `stdout`.
type Result = BTreeMap<String, Vec<u8>>;

/// The commands of a scene, by their first word.
const COMMANDS: [&str; 11] = [
    "resume", "eval", "generate", "plot", "report", "runs", "export", "import", "inspect", "fit",
    "tokenize",
];

impl Kind {
    /// Returns the call of a command in a folder; `None` if the command does not apply to this kind
    /// of run.
    fn command(self, folder: &Path, name: &str) -> Option<Program> {
        let line = match (name, self) {
            ("resume", _) => "resume run --steps 16 --threads 1",
            ("eval", _) => "eval run --json --threads 1",
            ("generate", _) => "generate run --json",
            ("plot", _) => "plot run --output plots --only loss,throughput,learning-rate",
            ("report", _) => "report run --output page.html --examples 2",
            ("runs", _) => "runs . --json --sort name",
            ("export", _) => "export run --layout torch-nn --output exported.safetensors",
            ("import", Self::Copy) => "import weights.safetensors --output imported.safetensors",
            ("inspect", Self::Copy) => "inspect weights.safetensors --json",
            ("fit", Self::Text) => {
                let fit = self.fit(folder, "--steps 4");
                // This run has another folder than the run that `resume` continues, but uses the
                // same cache.
                return Some(fit.replacing("run", "again"));
            }
            ("tokenize", Self::Text) => "tokenize run --ids",
            _ => return None,
        };
        let input = match self {
            Kind::Copy => "1 2 3\n4 4\n",
            Kind::Text => "balo keme\nñandú x\n",
        };
        Some(Program::new(folder, line).reading(input))
    }

    fn scene(self, folder: &Path) -> Scene {
        fs::create_dir(folder).unwrap();
        self.prepare(folder);
        let often = "--steps 12 --checkpoint-every 4 --eval-every 4 --keep 2";
        self.fit(folder, often).succeed();
        if self == Self::Copy {
            let export = "export run --layout native --output weights.safetensors";
            Program::new(folder, export).succeed();
        }
        for rest in ["pictures", "report.html"] {
            let path = folder.join("run").join(rest);
            let _ = fs::remove_dir_all(&path);
            let _ = fs::remove_file(&path);
        }
        let mut scene = Scene {
            folder: folder.into(),
            kind: self,
            results: Vec::new(),
        };
        for name in COMMANDS {
            // Each command runs twice, because only a reproducible result can be compared.
            let mut results = [0, 1].map(|_| {
                let copied = scene.copied();
                let Some(command) = self.command(&copied, name) else {
                    return Result::new();
                };
                let answer = command.succeed();
                result(&copied, name, &answer)
            });
            let [first, second] = &mut results;
            assert!(
                first == second,
                "{self:?}: {name} does not repeat its result"
            );
            scene.results.push(std::mem::take(first));
        }
        scene
    }
}

impl Scene {
    /// Copies the folder of the scene to the folder `place`, where all commands run, and returns
    /// the path of the copy.
    fn copied(&self) -> PathBuf {
        let place = self.folder.with_file_name("place");
        renew(&place);
        copy(&self.folder, &place);
        place
    }
}

fn result(folder: &Path, name: &str, answer: &Answer) -> Result {
    let mut result = match name {
        "resume" => essence(&folder.join("run")),
        "fit" => essence(&folder.join("again")),
        "plot" => files(&folder.join("plots")).into_iter().map(read).collect(),
        "report" | "export" | "import" => {
            let written = ["page.html", "exported.safetensors", "imported.safetensors"];
            let is_written = |name: &String| written.contains(&name.as_str());
            let found = files(folder)
                .into_iter()
                .filter(|(name, _)| is_written(name));
            found.map(read).collect()
        }
        _ => BTreeMap::from([("stdout".into(), answer.stdout.clone().into_bytes())]),
    };
    if let Some(stdout) = result.get_mut("stdout") {
        let text = String::from_utf8_lossy(stdout);
        // The field `changed` is the time of the copy, and fields in seconds differ from run to
        // run.
        let lines = text
            .split(',')
            .filter(|part| !part.contains("\"changed\"") && !part.contains("seconds\""));
        *stdout = lines.collect::<Vec<_>>().join(",").into_bytes();
    }
    result
}

fn read((name, path): (String, PathBuf)) -> (String, Vec<u8>) {
    (name, fs::read(path).unwrap())
}

/// Damages bytes, and returns a description of the damage.
pub fn damage(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let length = bytes.len();
    if length == 0 {
        bytes.push(random.random());
        return "a byte added".into();
    }
    // At least half of the attacks damage the first 200 bytes, where headers are.
    let near = if random.random() {
        length
    } else {
        length.min(200)
    };
    let at = random.random_range(0..near);
    match random.random_range(0..8) {
        0..=2 => {
            let bit = random.random_range(0..8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} of {length} flipped")
        }
        3 => {
            bytes[at] = random.random();
            format!("byte {at} of {length} replaced by {}", bytes[at])
        }
        4 => {
            bytes.truncate(at);
            format!("truncated from {length} to {at} bytes")
        }
        5 => {
            let end = length.min(at + 512);
            bytes[at..end].fill(0);
            format!("bytes {at} to {end} of {length} set to 0")
        }
        6 => {
            let end = length.min(at + random.random_range(1..100));
            bytes.drain(at..end);
            format!("bytes {at} to {end} of {length} removed")
        }
        _ => {
            let again = bytes[at..].to_vec();
            bytes.extend(again);
            format!("bytes {at} to {length} added at the end again")
        }
    }
}

/// Adds the JSON pointers of all values inside `value` to `found`.
///
/// `path` is the pointer of `value` itself.
pub fn pointers(value: &Value, path: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.replace('~', "~0").replace('/', "~1"), field))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        _ => Vec::new(),
    };
    for (name, value) in inner {
        let path = format!("{path}/{name}");
        pointers(value, &path, found);
        found.push(path);
    }
}

/// Replaces a file by something that is not a regular file, and returns a description.
///
/// The replacement may be a link to the file `other`.
fn replace(path: &Path, other: &Path, random: &mut Random) -> &'static str {
    fs::remove_file(path).unwrap();
    match random.random_range(0..5) {
        0 => {
            let made = Command::new("mkfifo").arg(path).status();
            assert!(made.unwrap().success());
            "replaced by a pipe"
        }
        1 => {
            fs::create_dir(path).unwrap();
            "replaced by a folder"
        }
        2 => {
            symlink(other, path).unwrap();
            "replaced by a link to another file"
        }
        3 => {
            symlink("/dev/zero", path).unwrap();
            "replaced by a link to /dev/zero"
        }
        _ => {
            symlink("nowhere", path).unwrap();
            "replaced by a link to nothing"
        }
    }
}

/// Damages a file and runs a command.
///
/// Returns the kind of outcome, or the description of a fault as an error.
fn attack(scene: &Scene, random: &mut Random) -> std::result::Result<&'static str, String> {
    let copied = scene.copied();
    let files = files(&copied);
    // Corpora are not damaged, because a changed corpus is simply another corpus.
    let mut kinds: Vec<&str> = files
        .keys()
        .filter(|name| !name.ends_with(".tsv"))
        .map(|name| kind(name))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let of = kinds[random.random_range(0..kinds.len())];
    let same: Vec<(&String, &PathBuf)> =
        files.iter().filter(|(name, _)| kind(name) == of).collect();
    let (name, path) = same[random.random_range(0..same.len())];
    let other = scene.folder.with_file_name("other");
    fs::write(&other, OTHER).unwrap();
    let how = if random.random_range(0..8) == 0 {
        replace(path, &other, random).into()
    } else {
        let mut bytes = fs::read(path).unwrap();
        let how = damage(&mut bytes, random);
        fs::write(path, bytes).unwrap();
        how
    };
    let (index, command, program) = loop {
        let index = random.random_range(0..COMMANDS.len());
        if let Some(program) = scene.kind.command(&copied, COMMANDS[index]) {
            break (index, COMMANDS[index], program);
        }
    };
    let answer = program.run();
    let wrong = |what: &str| {
        format!(
            "{:?}, {name}: {how}\n    {}",
            scene.kind,
            answer.fault(what)
        )
    };
    answer
        .check()
        .map_err(|fault| wrong(fault.split(':').next().unwrap_or_default()))?;
    if fs::read(&other).unwrap() != OTHER {
        return Err(wrong("wrote to another file through a link"));
    }
    // Messages name the file, the checkpoint, or the folder of the cache.
    let words: Vec<&str> = name
        .split('/')
        .rev()
        .filter(|part| !["run", "cache", "checkpoints"].contains(part))
        .collect();
    let is_named = answer.names(&words);
    if answer.code != Some(0) {
        return if is_named {
            Ok("an error that names the file")
        } else {
            Err(wrong("the error does not name the file"))
        };
    }
    let free = FREE.iter().find(|(free, _)| *free == of);
    let is_free = free.is_some_and(|(_, commands)| commands.contains(&command))
        && !name.contains("checkpoints/");
    if result(&copied, command, &answer) == scene.results[index] {
        Ok("the same result")
    } else if is_named {
        Ok("another result with a warning that names the file")
    } else if is_free {
        Ok("another result from a file whose content is free")
    } else {
        Err(wrong("another result without a warning"))
    }
}

/// Returns the kind of a file: its name, or `events` for TensorBoard's event files, whose names
/// contain a number.
fn kind(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.starts_with("events.out") {
        "events"
    } else {
        name
    }
}

#[test]
fn damaged_files_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let scenes = [("copy", Kind::Copy), ("text", Kind::Text)]
        .map(|(name, kind)| kind.scene(&folder.path().join(name)));
    make_attacks("damage", 60, |case, random| {
        attack(&scenes[case as usize % 2], random)
    });
}
