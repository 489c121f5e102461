//! Compares with SentencePiece. `fixtures/make.py` has the format of the files, and writes more of
//! them to the folder of the environment variable `PIECES_FIXTURES`.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use pieces::{Kind, SentencePiece};

fn unzip(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Reads a file of models and cases.
struct Cases<'a>(&'a [u8]);

impl<'a> Cases<'a> {
    fn number(&mut self) -> u32 {
        let (number, rest) = self.0.split_first_chunk().unwrap();
        self.0 = rest;
        u32::from_le_bytes(*number)
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = self.number() as usize;
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.bytes().into()).unwrap()
    }

    fn list<T>(&mut self, element: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.number()).map(|_| element(self)).collect()
    }
}

fn decode_pieces(model: &SentencePiece, pieces: &[String]) -> String {
    model.decode_pieces(&pieces.iter().map(String::as_str).collect::<Vec<_>>())
}

fn compare_vocabulary(model: &SentencePiece, cases: &mut Cases) {
    assert_eq!(model.len(), cases.number() as usize);
    for id in [
        model.unk_id(),
        model.bos_id(),
        model.eos_id(),
        model.pad_id(),
    ] {
        assert_eq!(id.unwrap_or(u32::MAX), cases.number());
    }
    let kinds = [
        Kind::Normal,
        Kind::Unknown,
        Kind::Control,
        Kind::UserDefined,
        Kind::Unused,
        Kind::Byte,
    ];
    let count = cases.number();
    for _ in 0..count {
        let (id, piece) = (cases.number(), cases.text());
        assert_eq!(model.piece(id), Some(&piece[..]));
        assert_eq!(
            model.score(id).unwrap().to_bits(),
            cases.number(),
            "{piece}"
        );
        let kind = kinds[cases.number() as usize - 1];
        assert_eq!(model.kind(id), Some(kind), "{piece}");
        // A control comes before a normal piece of the same text.
        let same = model.id(&piece).unwrap();
        assert!(same == id || model.piece(same) == Some(&piece), "{piece}");
    }
    let end = model.len() as u32;
    assert_eq!(
        (model.piece(end), model.score(end), model.kind(end)),
        (None, None, None)
    );
}

/// Compares a model with its cases, and returns the number of lines.
fn compare(model: &SentencePiece, name: &str, cases: &mut Cases) -> usize {
    compare_vocabulary(model, cases);
    let lines = cases.list(|cases| {
        let line = cases.text();
        let normalized = cases.text();
        let ids = cases.list(Cases::number);
        let pieces = cases.list(Cases::text);
        let (from_ids, from_pieces) = (cases.text(), cases.text());
        let encoded = model.encode(&line);
        let (encoded_ids, encoded_pieces): (Vec<_>, Vec<_>) = encoded
            .into_iter()
            .map(|piece| (piece.id, piece.text))
            .unzip();
        let is_equal = model.normalize(&line) == normalized
            && encoded_ids == ids
            && model.ids(&line) == ids
            && encoded_pieces == pieces
            && model.decode(&ids) == from_ids
            && decode_pieces(model, &pieces) == from_pieces;
        (line, is_equal)
    });
    let count = lines.len();
    let different: Vec<_> = lines
        .into_iter()
        .filter(|(_, is_equal)| !is_equal)
        .collect();
    assert!(
        different.is_empty(),
        "{name}: {} of {count} lines differ, such as {:?}",
        different.len(),
        different[0].0
    );
    for (ids, text) in cases.list(|cases| (cases.list(Cases::number), cases.text())) {
        assert_eq!(model.decode(&ids), text, "{name}: {ids:?}");
    }
    for (pieces, text) in cases.list(|cases| (cases.list(Cases::text), cases.text())) {
        assert_eq!(decode_pieces(model, &pieces), text, "{name}: {pieces:?}");
    }
    count
}

#[test]
fn pieces_ids_and_texts_are_sentencepieces() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let other = std::env::var_os("PIECES_FIXTURES").map(PathBuf::from);
    for folder in [Some(own), other].into_iter().flatten() {
        let mut models = 0;
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "gz") {
                continue;
            }
            let file = unzip(&path);
            let mut cases = Cases(&file);
            let mut lines = 0;
            let first = models;
            while !cases.0.is_empty() {
                let model = SentencePiece::from_bytes(cases.bytes()).unwrap();
                let name = format!("{}, model {}", path.display(), models - first);
                lines += compare(&model, &name, &mut cases);
                models += 1;
            }
            let count = models - first;
            println!(
                "{}: {lines} lines of {count} models are equal",
                path.display()
            );
        }
        assert!(models > 0, "{} has no models", folder.display());
    }
}
