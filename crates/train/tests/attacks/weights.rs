//! Hostile weight files.
//!
//! The tests of the crate `transformer` have more such files.

use std::fs;
use std::path::Path;

use super::hostile::{Hostile, nested};

/// Returns a safetensors file with this header and `data` bytes of zeros.
///
/// `length` is the length that the file states for its header.
fn safetensors(header: &str, length: u64, data: usize) -> Vec<u8> {
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(vec![0; data]);
    bytes
}

fn fixture(name: &str) -> Vec<u8> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../transformer/tests/fixtures/layouts");
    fs::read(folder.join(name)).unwrap()
}

/// Returns a safetensors header with one tensor.
fn tensor(dtype: &str, shape: &str, offsets: &str) -> String {
    let name = "encoder.layers.0.self_attn.w_q.weight";
    format!(r#"{{"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
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

/// Returns a pickle of `depth` nested lists.
fn nested_pickle(depth: usize) -> Vec<u8> {
    let mut pickle = vec![0x80, 2];
    pickle.extend(b"]".repeat(depth));
    pickle.extend(b"a".repeat(depth - 1));
    pickle.push(b'.');
    pickle
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

/// Returns all hostile weight files, each once for `import` and once for `inspect`.
pub fn all() -> Vec<Hostile> {
    let of = |header: String, data| safetensors(&header, header.len() as u64, data);
    let half = |name| {
        let bytes = fixture(name);
        bytes[..bytes.len() / 2].to_vec()
    };
    let header = |length| safetensors("{}", length, 0);
    let shape = |shape| of(tensor("F32", shape, "[0,4]"), 4);
    let safetensors = [
        ("a header of 2^64 - 1 bytes", header(u64::MAX)),
        ("a header of 2^63 bytes", header(1 << 63)),
        ("a header of 99 MB that is not there", header(99_000_000)),
        ("a nested header", of(nested(100_000), 0)),
        ("no tensors", of("{}".into(), 0)),
        ("a huge shape", shape("[4294967296,4294967296]")),
        ("a shape that overflows", shape("[9223372036854775807,3]")),
        (
            "a shape of nothing",
            of(tensor("F32", "[0,99999999999]", "[0,0]"), 0),
        ),
        ("offsets backwards", of(tensor("F32", "[1]", "[4,0]"), 4)),
        ("offsets past the end", of(tensor("F32", "[1]", "[0,4]"), 0)),
        ("an unknown type", of(tensor("F999", "[1]", "[0,4]"), 4)),
        ("bytes that are missing", half("torch_nn.safetensors")),
        ("numbers that are not finite", fixture("nan.safetensors")),
    ];
    let pickles = [
        ("an archive that is cut", half("paper.pt")),
        ("an archive with a file of 4 GiB", large_in_archive()),
        (
            "a pickle of 100,000 lists in each other",
            nested_pickle(100_000),
        ),
        ("a pickle of 2^60 tuples", doubling_pickle(60)),
        ("a pickle that runs a command", fixture("evil_system.pt")),
        ("nothing", Vec::new()),
        ("NULs", vec![0; 5000]),
    ];
    let files = safetensors.map(|(what, bytes)| (what, "a.safetensors", bytes));
    let files = files
        .into_iter()
        .chain(pickles.map(|(what, bytes)| (what, "a.pt", bytes)));
    let mut all = Vec::new();
    for (what, name, bytes) in files {
        for command in ["import", "inspect"] {
            let line = match command {
                "import" => {
                    format!("import {name} --heads 1 --output new.safetensors --allow-unused")
                }
                _ => format!("inspect {name} --json"),
            };
            let hostile = Hostile::new(what, name, bytes.clone(), &line);
            // `inspect` may list the contents of a file that is not a model.
            let may_succeed = command == "inspect";
            all.push(if may_succeed {
                hostile.or_success()
            } else {
                hostile
            });
        }
    }
    all
}
