//! Full disks.
//!
//! A write that fails must give an error that names the file. When there is room again, the resumed
//! run must be identical, bit for bit, to an undisturbed run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::RngExt;

use super::program::Program;
use super::rounds::{Random, make_attacks};
use super::runs::{Kind, essence, files, renew, same};

const FLAGS: &str = "--steps 20 --checkpoint-every 5 --eval-every 5 --keep 100";

/// An undisturbed run: the parts of it that must be reproducible (see [`essence`]), and the sizes
/// of the files in its folder and in the cache, in bytes.
struct Whole {
    essence: BTreeMap<String, Vec<u8>>,
    sizes: Vec<u64>,
}

fn whole(kind: Kind, folder: &Path) -> Whole {
    renew(folder);
    kind.prepare(folder);
    kind.fit(folder, FLAGS).succeed();
    let all = files(folder);
    let all = all.iter().filter(|(name, _)| !name.ends_with(".tsv"));
    let mut sizes: Vec<u64> = all
        .map(|(_, path)| fs::metadata(path).unwrap().len())
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    Whole {
        essence: essence(&folder.join("run")),
        sizes,
    }
}

/// Trains a run in which every write beyond a size limit fails, and then resumes it.
///
/// The limit is one byte less than the size of a file, or any smaller size.
fn attack(
    kind: Kind,
    whole: &Whole,
    folder: &Path,
    random: &mut Random,
) -> Result<&'static str, String> {
    renew(folder);
    kind.prepare(folder);
    let size = whole.sizes[random.random_range(0..whole.sizes.len())];
    let limit = match random.random_range(0..4) {
        0 => random.random_range(0..size.max(1)),
        _ => size.saturating_sub(1),
    };
    let answer = kind.fit(folder, FLAGS).writing_at_most(limit).run();
    answer.check()?;
    let is_named = {
        let all = files(folder).into_keys();
        let names: Vec<String> = all.map(|name| base(&name).to_owned()).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.extend("run cache metrics.jsonl status.json config.json".split(' '));
        answer.names(&["File too large"]) && answer.names(&names)
    };
    if answer.code == Some(1) && !is_named {
        return Err(answer.fault("the error does not name the file and the reason"));
    }
    if ![Some(0), Some(1)].contains(&answer.code) {
        return Err(answer.fault("a full disk is not an error with code 1"));
    }
    let run = folder.join("run");
    let ended = match (answer.code, run.join("config.json").exists()) {
        (Some(0), _) => None,
        (_, false) => Some(kind.fit(folder, FLAGS)),
        (_, true) => Some(Program::new(folder, "resume run --threads 1")),
    };
    if let Some(program) = &ended {
        let answer = program.run();
        if answer.code != Some(0) {
            return Err(answer.fault(&format!("a disk that was full at {limit} bytes")));
        }
    }
    let differ = same(&whole.essence, &essence(&run));
    differ.map_err(|what| answer.fault(&format!("resumed after this, {what}")))?;
    match ended {
        None => Ok("no write failed"),
        Some(_) => Ok("an error, and the same run"),
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let wholes = [Kind::Copy, Kind::Text].map(|kind| (kind, whole(kind, &place)));
    make_attacks("a full disk", 24, |case, random| {
        let (kind, whole) = &wholes[case as usize % 2];
        attack(*kind, whole, &place, random)
    });
}

/// Commands that write a file outside of the run folder, and the name of this file.
const OUTPUTS: [(&str, &str); 4] = [
    ("plot run --output plots --only loss,throughput", "loss.svg"),
    ("report run --output page.html --examples 1", "page.html"),
    (
        "export run --layout paper --output out.safetensors",
        "out.safetensors",
    ),
    ("eval run --hypotheses out.txt", "out.txt"),
];

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    Kind::Copy.fit(folder, "--steps 4").succeed();
    make_attacks("full outputs", OUTPUTS.len() as u64, |case, random| {
        let (line, name) = OUTPUTS[case as usize % OUTPUTS.len()];
        let program = Program::new(folder, line);
        let remove = || {
            for (file, path) in files(folder) {
                if !file.starts_with("run/") {
                    fs::remove_file(path).unwrap();
                }
            }
        };
        remove();
        program.succeed();
        let all = files(folder);
        let (_, path) = all
            .iter()
            .find(|(file, _)| base(file) == name)
            .expect("it is written");
        let size = fs::metadata(path).unwrap().len();
        remove();
        let answer = program.writing_at_most(random.random_range(0..size)).run();
        answer.check()?;
        let left: Vec<String> = files(folder)
            .into_keys()
            .filter(|file| file.contains(".tmp"))
            .collect();
        match answer.code {
            Some(1) if !answer.names(&[name, "plots"]) => {
                Err(answer.fault("the file is not named"))
            }
            Some(1) if !left.is_empty() => Err(answer.fault(&format!("left {left:?}"))),
            Some(1) => Ok("an error"),
            _ => Err(answer.fault("a file that cannot be written is not an error")),
        }
    });
}

/// Shell script that trains a run in a file system of a given size, enlarges the file system,
/// resumes the run, and copies the run out.
///
/// Its arguments are the folder to mount, the size in bytes, the folder for the results, and the
/// command that trains.
const ON_TMPFS: &str = r#"
set -e
folder=$1 size=$2 out=$3; shift 3
mount -t tmpfs -o size="$size" none "$folder"
cd "$folder"
code=0; "$@" 2>"$out/stderr" >/dev/null || code=$?
echo "$code" >"$out/code"
mount -o remount,size=64m "$folder"
if [ "$code" -ne 0 ]; then
  if [ -e run/config.json ]; then "$1" resume run --threads 1 >/dev/null 2>"$out/resumed"; else "$@" >/dev/null 2>"$out/resumed"; fi
fi
cp -r run "$out/run"
"#;

/// Returns whether this process can mount a file system in a namespace of its own.
fn can_mount(folder: &Path) -> bool {
    let line = "mount -t tmpfs -o size=64k none \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", line, "sh"]).arg(folder);
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_run_on_a_full_file_system_is_resumed_to_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = folder.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    if !can_mount(&mounted) {
        println!("skipped: this system lets no user mount a file system in a namespace");
        return;
    }
    let undisturbed = folder.path().join("whole");
    let whole = whole(Kind::Copy, &undisturbed);
    let size_of = |path: PathBuf| fs::metadata(path).unwrap().len();
    let total: u64 = files(&undisturbed).into_values().map(size_of).sum();
    make_attacks("a full file system", 10, |case, random| {
        let out = folder.path().join(format!("{case}"));
        fs::create_dir(&out).unwrap();
        let size = random.random_range(1..=total * 3 / 4096) * 4096;
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", ON_TMPFS, "sh"]);
        command.arg(&mounted).arg(size.to_string()).arg(&out);
        command.args(Kind::Copy.fit(&mounted, FLAGS).words());
        let output = command.output().unwrap();
        let read = |name: &str| fs::read_to_string(out.join(name)).unwrap_or_default();
        let (code, stderr, resumed) = (read("code"), read("stderr"), read("resumed"));
        let told = stderr.lines().last().unwrap_or_default();
        let wrong = |what: &str| {
            let shell = String::from_utf8_lossy(&output.stderr);
            Err(format!(
                "{size} bytes: {what}: code {code}: {told}; then {resumed} {shell}"
            ))
        };
        let is_named =
            told.contains("No space left") && (told.contains("run") || told.contains(".json"));
        match code.trim() {
            "0" => {}
            "1" if is_named => {}
            "1" => return wrong("the error does not name the file and the reason"),
            _ => return wrong("a full disk is not an error with code 1"),
        }
        if let Err(what) = same(&whole.essence, &essence(&out.join("run"))) {
            return wrong(&what);
        }
        Ok(if code.trim() == "0" {
            "no write failed"
        } else {
            "an error, and the same run"
        })
    });
}
