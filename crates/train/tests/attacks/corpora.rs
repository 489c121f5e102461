//! Hostile corpora and other hostile texts.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::hostile::{Hostile, nested};
use super::runs::pairs;

/// Compresses bytes into `members` identical gzip members, one after the other.
fn gzip(bytes: &[u8], members: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap().repeat(members)
}

/// Returns pseudo-random bytes, which cannot be compressed; every 40th byte is a line break.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..bytes)
        .map(|i| if i % 40 == 39 { b'\n' } else { next() })
        .collect()
}

/// Returns files that are invalid as corpora of pairs: name, contents and description. The fuzz
/// target `corpus` finds others; these need much memory or time if they are read without care.
fn wrong_pairs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let zeros = vec![0; 16 << 20];
    let bomb = || gzip(&zeros, 512);
    let whole = gzip(pairs(50).as_bytes(), 1);
    let field = format!("{{\"source\":{},\"target\":\"b\"}}\n", nested(100_000));
    vec![
        (
            "bomb.tsv.gz",
            bomb(),
            "8 GiB of zeros in a line, compressed",
        ),
        (
            "bomb.jsonl.gz",
            bomb(),
            "8 GiB of zeros in a line, compressed",
        ),
        (
            "cut.tsv.gz",
            whole[..whole.len() / 2].to_vec(),
            "a half of a gzip file",
        ),
        ("noise.tsv", noise(1 << 20), "random bytes"),
        (
            "long.tsv",
            vec![b'a'; 20 << 20],
            "a line of 20 MiB without a tab",
        ),
        ("blank.tsv", vec![b'\n'; 1 << 20], "a million empty lines"),
        ("utf16.tsv", b"\xff\xfea\0\t\0b\0\n\0".to_vec(), "UTF-16"),
        (
            "deep.jsonl",
            nested(100_000).into(),
            "100,000 nested arrays",
        ),
        (
            "deep-field.jsonl",
            field.into(),
            "a field of 100,000 nested arrays",
        ),
    ]
}

/// Returns files that are unusual but valid as corpora of pairs: name, contents and description.
fn unusual_pairs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let good = pairs(50);
    let accents = format!("{}\tb\n", "a\u{301}".repeat(400)).repeat(60);
    let long = format!("{good}{}\tb\n", "q".repeat(3_000_000));
    vec![
        ("nul.tsv", good.replace(' ', "\0").into(), "NUL characters"),
        (
            "members.tsv.gz",
            gzip(good.as_bytes(), 3),
            "gzip of three members",
        ),
        ("marks.tsv", accents.into(), "400 accents on letters"),
        ("long-word.tsv", long.into(), "a long word"),
    ]
}

/// Returns all hostile texts.
///
/// Each text occurs several times, with a different command each time.
pub fn all() -> Vec<Hostile> {
    let fit = "fit --task text --preset tiny --d-model 8 --heads 2 --layers 1 --d-ff 8 --steps 1 \
        --threads 1 --run-dir new";
    let mut all = Vec::new();
    for (name, bytes, what) in wrong_pairs() {
        let line = format!("{fit} --train {name} --valid valid.tsv");
        all.push(Hostile::new(what, name, bytes.clone(), &line));
        let line = format!("eval text --pairs {name}");
        all.push(Hostile::new(what, name, bytes, &line));
    }
    for (name, bytes, what) in unusual_pairs() {
        let line = format!("{fit} --train {name} --valid valid.tsv");
        all.push(Hostile::new(what, name, bytes.clone(), &line).or_success());
        let line = format!("eval text --pairs {name}");
        all.push(Hostile::new(what, name, bytes, &line).or_success());
    }
    let line = vec![b'a'; 50 << 20];
    for command in [
        "generate text --input",
        "tokenize text --input",
        "score lines",
    ] {
        let files = [
            ("50 MiB in a line", "long", line.clone()),
            ("random bytes", "noise", noise(1 << 16)),
            ("NULs", "nul", vec![0; 5000]),
        ];
        for (what, name, bytes) in files {
            // If a command has only one input, its error names the line but not the file.
            let hostile = Hostile::new(what, name, bytes, &format!("{command} {name}"));
            all.push(hostile.or_success().or_naming("error: line "));
        }
    }
    all
}
