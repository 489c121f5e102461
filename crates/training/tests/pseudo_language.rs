//! `examples/corpus` has the sentences of `examples/pseudo_language/language.rs`.

use std::fs::File;
use std::path::Path;

use flate2::read::GzDecoder;

#[path = "../../../examples/pseudo_language/language.rs"]
mod language;

#[test]
fn the_corpus_is_of_the_language() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/corpus");
    for (name, seed, pairs) in [("train", 0, 4000), ("valid", 1, 200), ("test", 2, 200)] {
        let read = |side: &str| {
            let file = File::open(folder.join(format!("{name}.{side}.gz"))).unwrap();
            std::io::read_to_string(GzDecoder::new(file)).unwrap()
        };
        let generated = language::pseudo_corpus(seed, pairs);
        for (side, text) in ["source", "target"].into_iter().zip(generated) {
            let file = read(side);
            for (number, (line, generated)) in (1..).zip(file.lines().zip(text.lines())) {
                assert_eq!(line, generated, "{name}.{side}, line {number}");
            }
            assert!(file == text, "{name}.{side} has another end");
        }
    }
}
