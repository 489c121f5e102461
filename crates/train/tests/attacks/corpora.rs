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

/// Returns files that are invalid as corpora of pairs: name, contents and description.
fn wrong_pairs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let megabytes = 1 << 20;
    let whole = gzip(pairs(50).as_bytes(), 1);
    let mut of_another_checksum = whole.clone();
    let end = of_another_checksum.len() - 5;
    of_another_checksum[end] ^= 1;
    let zeros = vec![0; 16 * megabytes];
    vec![
        (
            "bomb.tsv.gz",
            gzip(&zeros, 512),
            "8 GiB of zeros in a line, compressed",
        ),
        (
            "bomb.jsonl.gz",
            gzip(&zeros, 512),
            "8 GiB of zeros in a line, compressed",
        ),
        (
            "cut.tsv.gz",
            whole[..whole.len() / 2].to_vec(),
            "a half of a gzip file",
        ),
        (
            "checksum.tsv.gz",
            of_another_checksum,
            "gzip with a wrong checksum",
        ),
        ("header.tsv.gz", vec![0x1f, 0x8b], "two bytes of gzip"),
        ("noise.tsv", noise(megabytes), "random bytes"),
        ("noise.jsonl", noise(megabytes), "random bytes"),
        (
            "long.tsv",
            vec![b'a'; 20 * megabytes],
            "a line of 20 MiB without a tab",
        ),
        ("empty.tsv", Vec::new(), "an empty file"),
        ("blank.tsv", vec![b'\n'; megabytes], "a million empty lines"),
        ("tabs.tsv", vec![b'\t'; megabytes], "a million tabs"),
        (
            "bytes.tsv",
            b"a\tb\n\xff\xfe\tc\n".to_vec(),
            "invalid UTF-8",
        ),
        ("utf16.tsv", b"\xff\xfea\0\t\0b\0\n\0".to_vec(), "UTF-16"),
        (
            "deep.jsonl",
            format!("{}\n", nested(100_000)).into(),
            "100,000 nested arrays",
        ),
        (
            "deep-field.jsonl",
            format!("{{\"source\":{},\"target\":\"b\"}}\n", nested(100_000)).into(),
            "a field of 100,000 nested arrays",
        ),
        (
            "surrogate.jsonl",
            br#"{"source":"\ud800","target":"b"}"#.to_vec(),
            "half a character",
        ),
        (
            "number.jsonl",
            br#"{"source":1e999,"target":"b"}"#.to_vec(),
            "an endless number",
        ),
        (
            "cut.jsonl",
            br#"{"source":"a","target":"#.to_vec(),
            "half an object",
        ),
        (
            "nan.jsonl",
            br#"{"source":NaN,"target":"b"}"#.to_vec(),
            "a word that is not JSON",
        ),
    ]
}

/// Returns files that are unusual but valid as corpora of pairs: name, contents and description.
fn unusual_pairs() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let good = pairs(50);
    let twice = br#"{"source":"a","source":"b","target":"c","x":"y"}"#;
    let objects = [&twice[..], b"\n"].concat().repeat(50);
    vec![
        ("nul.tsv", good.replace(' ', "\0").into(), "NUL characters"),
        (
            "marks.tsv",
            format!("\u{feff}{}", good.replace('\n', "\r\n")).into(),
            "BOM and CR",
        ),
        (
            "separators.tsv",
            good.replace(' ', "\u{2028}").into(),
            "separators of lines",
        ),
        (
            "members.tsv.gz",
            gzip(good.as_bytes(), 3),
            "gzip of three members",
        ),
        ("twice.jsonl", objects, "an object with a key twice"),
        (
            "marks2.tsv",
            format!("{}\tb\n", "a\u{301}".repeat(400)).repeat(60).into(),
            "400 accents on letters",
        ),
        (
            "long-word.tsv",
            format!("{good}{}\tb\n", "q".repeat(3_000_000)).into(),
            "a long word",
        ),
        (
            "no-end.tsv",
            good.trim_end().into(),
            "no line break at the end",
        ),
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
        "score valid.tsv",
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
