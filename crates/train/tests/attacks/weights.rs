//! Hostile weight files.
//!
//! The tests of the crate `transformer` have more such files.

use std::fs;
use std::path::Path;

use super::hostile::{Hostile, nested};

/// Returns a safetensors file with this header. `length` is the length that the file states for it.
fn safetensors(header: &str, length: u64) -> Vec<u8> {
    [&length.to_le_bytes(), header.as_bytes()].concat()
}

fn fixture(name: &str) -> Vec<u8> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/layouts");
    fs::read(folder.join(name)).unwrap()
}

/// Returns a ZIP archive that states a size of about 4 GiB for its first file.
fn large_in_archive() -> Vec<u8> {
    let mut bytes = fixture("paper.pt");
    // Sizes in the local header of the first file: compressed, then uncompressed. The entry of this
    // file in the central directory has both sizes, too.
    bytes[18..26].fill(0xff);
    let directory = bytes
        .windows(4)
        .position(|four| four == b"PK\x01\x02")
        .unwrap();
    bytes[directory + 20..directory + 28].fill(0xfe);
    bytes
}

/// Returns a pickle in which each tuple contains the previous tuple twice, so that the size doubles
/// at each step.
fn doubling_pickle(steps: usize) -> Vec<u8> {
    let mut pickle = vec![0x80, 2, b')'];
    // These opcodes duplicate the top of the stack, and make a tuple of the two copies.
    pickle.extend(b"2\x86".repeat(steps));
    pickle.push(b'.');
    pickle
}

/// Returns all hostile weight files, each once for `import` and once for `inspect`. The tests of the
/// crate `transformer` have more; these need much memory or time if they are read without care.
pub fn all() -> Vec<Hostile> {
    let deep = nested(100_000);
    let files = [
        ("a header of 2^64 - 1 bytes", "{}", u64::MAX),
        ("a header of 99 MB that is not there", "{}", 99_000_000),
        ("a nested header", &deep, deep.len() as u64),
    ];
    let files =
        files.map(|(what, header, length)| (what, "a.safetensors", safetensors(header, length)));
    let pickles = [
        ("an archive with a file of 4 GiB", large_in_archive()),
        ("a pickle of 2^60 tuples", doubling_pickle(60)),
        ("a pickle that runs a command", fixture("evil_system.pt")),
    ];
    let files = files
        .into_iter()
        .chain(pickles.map(|(what, bytes)| (what, "a.pt", bytes)));
    let import = "--heads 1 --output new.safetensors --allow-unused";
    let mut all = Vec::new();
    for (what, name, bytes) in files {
        let line = format!("import {name} {import}");
        all.push(Hostile::new(what, name, bytes.clone(), &line));
        // `inspect` may list the contents of a file that is not a model.
        let line = format!("inspect {name} --json");
        all.push(Hostile::new(what, name, bytes, &line).or_success());
    }
    all
}
