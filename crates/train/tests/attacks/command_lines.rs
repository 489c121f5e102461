//! Random command lines.
//!
//! None of them may cause a panic, a signal or a long wait.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use rand::RngExt;

use crate::attacks::program::Program;
use crate::attacks::rounds::{Random, make_attacks};
use crate::attacks::runs::{copy, pairs, train_both};

/// A command and its flags.
struct CommandOf {
    name: String,
    flags: Vec<Flag>,
}

#[derive(Default)]
struct Flag {
    /// Name, with its hyphens.
    name: String,
    takes_value: bool,
    /// The values that the flag accepts; empty if the help does not list them.
    values: Vec<String>,
}

/// Returns all commands, the program without a command first, as `--help` describes them.
fn commands() -> Vec<CommandOf> {
    let help = |name: &str| {
        let help = Program::new(Path::new("."), &format!("{name} --help"));
        help.succeed().stdout
    };
    let of = |name: &str| CommandOf {
        name: name.into(),
        flags: flags(&help(name)),
    };
    let page = help("");
    let (_, list) = page.split_once("\nCommands:\n").expect("it lists them");
    let names = list
        .lines()
        .map_while(|line| line.split_whitespace().next());
    let commands: Vec<CommandOf> = std::iter::once("").chain(names).map(of).collect();
    let n_flags = |at: usize| commands[at].flags.len();
    assert!(commands.len() > 15 && commands[1].name == "fit" && n_flags(1) > 40 && n_flags(0) > 3);
    commands
}

/// Reads the flags, and the values that they accept, from the help of a command.
fn flags(help: &str) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    for line in help.lines() {
        let text = line.trim_start();
        let is_name = line.len() - text.len() < 10 && text.starts_with('-');
        let mut words = text.split_whitespace();
        if let Some(name) = words.find(|word| is_name && word.starts_with("--")) {
            flags.push(Flag {
                name: name.into(),
                takes_value: words.next().is_some(),
                values: Vec::new(),
            });
        } else if let Some(flag) = flags.last_mut() {
            if let Some((value, _)) = text
                .strip_prefix("- ")
                .and_then(|text| text.split_once(':'))
            {
                flag.values.push(value.into());
            } else if let Some(values) = text.strip_prefix("[possible values: ") {
                let values = values.trim_end_matches(']').split(", ");
                flag.values.extend(values.map(String::from));
            }
        }
    }
    flags
}

/// Values for flags, of all kinds.
///
/// Numbers are either small or too large for any machine. Numbers between these would only test the
/// speed and the memory of this machine.
const VALUES: &str = "0 1 2 3 4 7 8 16 -1 -0 +1 0.5 0.0 1.0 -0.5 1e-9 1e-320 1e300 1e999 nan inf -inf \
    1_000 0x10 ٣ 18446744073709551615 18446744073709551616 9223372036854775808 4294967296 \
    99999999999999999999999 a é 猫 . .. / /dev/null ~ - -- = , 1,2 4,8, 1..3 3..1 0..0 1..99999999999999 \
    ..= 1,,2 latest last best average:2 average:0 average:99999999999999999999 run text no-such-run \
    run/config.json pairs.tsv lines numbers weights.safetensors model.pt tokenizer.json tokenizer \
    out out/below/that optimization.steps=3 model.d_model=0 model.n_heads=null seed=-1 data.task=text \
    a=b =b a= a.b.c=1 optimization=3 optimization.schedule.kind=cosine optimization.steps=1e9 \
    evaluation.by_length={} flex flex:0 flex:7 flex: :0 ndarray wgpu:99 cuda";

/// Flags that make a benchmark slow.
///
/// They are not used, because the time of a benchmark is not of interest here.
const SLOW: [&str; 1] = ["--all"];

fn value(flag: &Flag, random: &mut Random) -> OsString {
    if !flag.values.is_empty() && random.random_bool(0.8) {
        return flag.values[random.random_range(0..flag.values.len())]
            .clone()
            .into();
    }
    match random.random_range(0..20) {
        0 => OsString::new(),
        1 => " ".into(),
        2 => OsString::from_vec(vec![b'a', 0xff, 0xfe]),
        3 => "x".repeat(5000).into(),
        4 => "a\nb\t\u{1b}[31m".into(),
        _ => {
            let values: Vec<&str> = VALUES.split_whitespace().collect();
            // In at least half of these cases, the value is one of the first 8, which are numbers
            // that most flags accept.
            let end = if random.random() { 8 } else { values.len() };
            values[random.random_range(0..end)].into()
        }
    }
}

/// Returns arguments with which a command ends fast and, in most cases, succeeds.
fn base(command: &CommandOf, random: &mut Random) -> Vec<OsString> {
    let fits = [
        "--dry-run",
        "--dry-run",
        "--steps 2 --eval-every 1",
        "--dry-run --task text --train pairs.tsv --preset tiny",
        "--task text --train pairs.tsv --preset tiny --steps 1",
        "--dry-run --config settings.toml",
    ];
    let line = match command.name.as_str() {
        "fit" => fits[random.random_range(0..fits.len())],
        "resume" => "run --steps 14",
        "generate" | "eval" | "plot" | "report" => ["run", "text"][random.random_range(0..2)],
        "score" => "lines lines",
        "tokenize" => ["text", "tokenizer.json"][random.random_range(0..2)],
        "runs" => ".",
        "compare" => "run text",
        "import" | "inspect" => ["weights.safetensors", "model.pt"][random.random_range(0..2)],
        "export" => "run --layout native --output out.safetensors",
        "bench" => "--shape tiny --layers 1 --length 2 --batch-size 1 --beam 1",
        "completions" => "bash",
        _ => "",
    };
    line.split_whitespace().map(OsString::from).collect()
}

/// Flags of `fit` that make a run small.
///
/// They are added unless the command line has them already or has the word `text`.
const SIZES: [(&str, &str); 8] = [
    ("--d-model", "8"),
    ("--heads", "2"),
    ("--d-ff", "8"),
    ("--layers", "1"),
    ("--batch-size", "4"),
    ("--symbols", "5"),
    ("--max-length", "4"),
    ("--checkpoint-every", "1"),
];

fn line(command: &CommandOf, all: &[CommandOf], random: &mut Random) -> Vec<OsString> {
    let mut words = base(command, random);
    let global = &all[0].flags;
    for _ in 0..random.random_range(0..6) {
        // In some cases, the flag belongs to another command.
        let flags = match random.random_range(0..20) {
            0 => &all[random.random_range(0..all.len())].flags,
            1 => global,
            _ => &command.flags,
        };
        if flags.is_empty() {
            continue;
        }
        let flag = &flags[random.random_range(0..flags.len())];
        if SLOW.contains(&flag.name.as_str()) {
            continue;
        }
        if flag.takes_value && random.random_bool(0.9) {
            let value = value(flag, random);
            // If the flag is a word of the command line already, the word after it is replaced.
            let place = words.iter().position(|word| *word == *flag.name);
            if let Some(old) = place.and_then(|at| words.get_mut(at + 1)) {
                *old = value;
                continue;
            }
            if random.random_bool(0.3) {
                let mut whole = OsString::from(&flag.name);
                whole.push("=");
                whole.push(value);
                words.push(whole);
            } else {
                words.extend([OsString::from(&flag.name), value]);
            }
        } else if random.random_bool(0.9) {
            words.push(OsString::from(&flag.name));
        }
    }
    if command.name == "fit" && !words.iter().any(|word| word == "text") {
        for (name, value) in SIZES {
            if !words
                .iter()
                .any(|word| word.to_string_lossy().starts_with(name))
            {
                words.extend([OsString::from(name), OsString::from(value)]);
            }
        }
    }
    match random.random_range(0..30) {
        0 => drop(words.pop()),
        1 => words.push(value(&Flag::default(), random)),
        2 => words.insert(0, value(&Flag::default(), random)),
        _ => {}
    }
    words
}

/// Writes the files that the commands need into `folder`.
///
/// Each command runs in a copy of this folder.
fn scene(folder: &Path) {
    train_both(folder, "--steps 12 --checkpoint-every 4");
    let export = "export run --layout torch-nn --output weights.safetensors";
    Program::new(folder, export).succeed();
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/layouts");
    fs::copy(fixtures.join("paper.pt"), folder.join("model.pt")).unwrap();
    fs::copy(
        folder.join("text/source.tokenizer.json"),
        folder.join("tokenizer.json"),
    )
    .unwrap();
    fs::write(folder.join("lines"), "1 2\n\n3\n").unwrap();
    fs::write(folder.join("numbers"), "1 2\n").unwrap();
    fs::write(folder.join("more.tsv"), pairs(5)).unwrap();
    let settings = "[model]\nd_model = 8\nn_heads = 2\nd_ff = 8\n[optimization]\nsteps = 2\n";
    fs::write(folder.join("settings.toml"), settings).unwrap();
}

#[test]
fn no_command_line_panics_or_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [made, tried] = ["made", "tried"].map(|name| folder.join(name));
    fs::create_dir(&made).unwrap();
    scene(&made);
    let all = commands();
    make_attacks("command lines", 150, |_, random| {
        // `fit` is chosen more often, because most flags belong to it.
        let command = match random.random_range(0..3) {
            0 => all
                .iter()
                .find(|command| command.name == "fit")
                .expect("there is fit"),
            // The first entry is the program without a command. It is skipped, because it trains
            // for a while.
            _ => &all[random.random_range(1..all.len())],
        };
        let mut words = line(command, &all, random);
        words.insert(0, OsString::from(&command.name));
        let input = ["1 2 3\n4\n", "balo keme\tkeme\n\n\0\n", "", "x"][random.random_range(0..4)];
        let _ = fs::remove_dir_all(&tried);
        copy(&made, &tried);
        let mut program = Program::new(&tried, "");
        program.arguments = words;
        let answer = program.reading(input).run();
        answer.check()?;
        Ok(match answer.code {
            Some(0) => "code 0",
            Some(1) => "code 1",
            Some(2) => "code 2",
            _ => "code 3",
        })
    });
}
