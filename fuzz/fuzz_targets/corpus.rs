//! Reads arbitrary bytes as a corpus: as a table, as JSON Lines, and as two files of lines. Each is
//! read uncompressed and compressed by gzip.
#![no_main]

#[path = "files.rs"]
mod files;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use training::data::parallel::{Corpus, ReadOptions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    compressed.write_all(bytes).expect("memory can be written");
    let compressed = compressed.finish().expect("memory can be written");
    for bytes in [bytes, &compressed] {
        for name in ["a.tsv", "a.jsonl", "a"] {
            let source = files::write(name, bytes);
            let corpus = Corpus {
                target: (name == "a").then(|| source.clone()),
                source,
                fields: bytes
                    .len()
                    .is_multiple_of(2)
                    .then(|| ["a.b", "c"].map(String::from)),
            };
            for lossy in [false, true] {
                read(&corpus, lossy);
            }
        }
    }
});

/// Reads the pairs up to the first error, and checks that each text has a single line of at most
/// 64 KiB, which is not blank.
fn read(corpus: &Corpus, lossy: bool) {
    let max_bytes = 64 << 10;
    let options = ReadOptions {
        lossy,
        truncates: false,
        keeps_empty: false,
    };
    let Ok(mut pairs) = corpus.read(options) else {
        return;
    };
    let mut count = 0;
    for pair in pairs.by_ref().map_while(Result::ok) {
        for text in [&pair.source, &pair.target] {
            assert!(!text.trim().is_empty() && text.len() <= max_bytes);
            assert!(!text.contains('\n'));
        }
        count += 1;
    }
    assert_eq!(pairs.stats().pairs, count);
}
