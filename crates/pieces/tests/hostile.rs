//! Files that are cut, changed or made to do harm give errors or models, but no panics.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use pieces::SentencePiece;
use proptest::prelude::*;

/// The bytes of a message.
#[derive(Clone, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn piece(self, text: impl AsRef<[u8]>, score: f32, kind: u64) -> Self {
        let mut piece = Self::default().bytes(1, text.as_ref());
        piece.0.push(2 << 3 | 5);
        piece.0.extend(score.to_le_bytes());
        self.bytes(1, &piece.number(3, kind).0)
    }

    fn trainer(self, algorithm: u64, byte_fallback: bool) -> Self {
        let trainer = Self::default().number(3, algorithm);
        self.bytes(2, &trainer.number(35, byte_fallback.into()).0)
    }

    fn charsmap(self, table: &[u8]) -> Self {
        self.bytes(3, &Self::default().bytes(2, table).0)
    }

    fn open(&self) -> Result<SentencePiece, String> {
        SentencePiece::from_bytes(&self.0).map_err(|error| error.to_string())
    }
}

const NORMAL: u64 = 1;
const UNKNOWN: u64 = 2;
const CONTROL: u64 = 3;
const UNUSED: u64 = 5;
const BYTE: u64 = 6;

fn small() -> Message {
    Message::default().piece("<unk>", 0.0, UNKNOWN)
}

/// A table whose units are `units`, and then zeros.
fn table(units: &[u32], replacements: &[u8]) -> Vec<u8> {
    let mut table = 1024u32.to_le_bytes().to_vec();
    table.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    table.resize(4 + 1024, 0);
    table.extend(replacements);
    table
}

/// An inner unit of a table.
fn unit(byte: u8, offset: u32, has_leaf: bool) -> u32 {
    u32::from(byte) | u32::from(has_leaf) << 8 | offset << 10
}

#[test]
fn errors_say_what_is_wrong() {
    let bytes = |missing: u8| {
        let all = (0..=255u8).filter(|&byte| byte != missing);
        all.fold(small().trainer(1, true), |model, byte| {
            model.piece(format!("<0x{byte:02X}>"), 0.0, BYTE)
        })
    };
    let wrong = "the file is cut, or of another kind: ";
    let cases = [
        (Message::default(), format!("{wrong}it is empty")),
        (
            Message(b"<html>".into()),
            format!("{wrong}a field has an unknown wire type"),
        ),
        (
            Message(b"{\"a\": 1}".into()),
            format!("{wrong}a field has an unknown wire type"),
        ),
        (
            Message(b"\x0a\x05abc".into()),
            format!("{wrong}a field ends after its message"),
        ),
        (
            Message::default().trainer(1, false),
            "there are no pieces".into(),
        ),
        (
            Message::default().piece("a", 0.0, NORMAL),
            "no piece is of the kind unknown".into(),
        ),
        (small().piece("", 0.0, NORMAL), "piece 1 is empty".into()),
        (
            small().piece(b"\xff", 0.0, NORMAL),
            "piece 1 is not UTF-8".into(),
        ),
        (
            small().piece("a\0", 0.0, NORMAL),
            "piece 1 has a NUL character".into(),
        ),
        (
            small().piece("a".repeat(8000), 0.0, NORMAL),
            "piece 1 is longer than 7999 bytes".into(),
        ),
        (
            small().piece("a", f32::NAN, NORMAL),
            "piece 1 has the score NaN, which is not finite".into(),
        ),
        (
            small().piece("\n", 0.0, NORMAL).piece("\n", 0.0, UNUSED),
            r#"piece 2 is "\n", as is piece 1"#.into(),
        ),
        (
            small()
                .trainer(2, false)
                .piece("a", 0.0, CONTROL)
                .piece("a", 0.0, NORMAL),
            r#"piece 1 is "a", as is piece 2"#.into(),
        ),
        (
            small().piece("u", 0.0, UNKNOWN),
            "piece 1 is of the kind unknown, as is piece 0".into(),
        ),
        (
            small().piece("<0x41>", 0.0, BYTE),
            "piece 1 is of the kind byte, but byte_fallback is false".into(),
        ),
        (
            small().piece("<0x4a>", 0.0, BYTE).trainer(1, true),
            r#"piece 1 is "<0x4a>", but must be a byte such as <0x0A>"#.into(),
        ),
        (
            bytes(0x41),
            "byte_fallback is true, but the byte piece <0x41> is missing".into(),
        ),
        (
            small().trainer(3, false),
            "the algorithm is word, but must be unigram or BPE".into(),
        ),
        (
            small().trainer(4, false),
            "the algorithm is char, but must be unigram or BPE".into(),
        ),
    ];
    for (model, error) in cases {
        assert_eq!(model.open().unwrap_err(), error);
    }
    let root = unit(0, 1, false);
    let tables = [
        (vec![1], "has less than 4 bytes"),
        (table(&[root], b"\0")[..900].into(), "is cut"),
        (
            vec![4, 0, 0, 0, 0, 0, 0, 0, 0],
            "is not made of blocks of 1,024 bytes",
        ),
        (table(&[root], b"a"), "has a last replacement without NUL"),
        (
            table(&[root], b"\xff\0"),
            "has replacements that are not UTF-8",
        ),
        (
            table(&[root], &[b'a'; 2000]),
            "has a last replacement without NUL",
        ),
        (
            table(&[root], &[&[b'a'; 2000][..], b"\0"].concat()),
            "has a replacement of over 1,024 bytes",
        ),
        (table(&[], b"a\0"), "has a unit that leads nowhere"),
        (
            table(&[root, unit(1, 300, false)], b"a\0"),
            "has a unit that leads nowhere",
        ),
        (
            table(&[root, unit(1, 3, true)], b"a\0"),
            "has a unit that leads nowhere",
        ),
        (
            table(&[root, 1 << 31 | 5], b"a\0"),
            "has a unit that leads nowhere",
        ),
    ];
    for (table, error) in tables {
        let error = format!("the table of the normalizer {error}");
        assert_eq!(small().charsmap(&table).open().unwrap_err(), error);
    }
}

#[test]
fn errors_of_files_name_them() {
    let missing = SentencePiece::open("no/such.spm").unwrap_err().to_string();
    assert!(
        missing.starts_with("cannot read no/such.spm: "),
        "{missing}"
    );
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let other = SentencePiece::open(manifest).unwrap_err().to_string();
    assert!(
        other.contains("Cargo.toml is not a valid SentencePiece model: "),
        "{other}"
    );
}

/// Runs a function that must not take longer than a few seconds, on any machine.
fn soon<T>(f: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = f();
    assert!(start.elapsed() < Duration::from_secs(20));
    value
}

#[test]
fn half_a_million_pieces_and_long_lines_take_seconds() {
    for algorithm in [1, 2] {
        let model = (0..500_000).fold(small().trainer(algorithm, false), |model, n| {
            model.piece(format!("{n:x}"), -(n as f32), NORMAL)
        });
        let model = soon(|| model.open()).unwrap();
        assert_eq!(model.len(), 500_001);
        for text in [
            "1".repeat(300_000),
            "123 abc".repeat(50_000),
            "é".repeat(300_000),
        ] {
            let pieces = soon(|| model.encode(&text));
            assert_eq!(
                pieces.iter().map(|piece| piece.text.len()).sum::<usize>(),
                model.normalize(&text).len()
            );
        }
    }
}

#[test]
fn long_pieces_take_seconds() {
    for algorithm in [1, 2] {
        for kind in [NORMAL, UNUSED] {
            // A merge for every length; the shortest and the longest are used.
            let model = (2..2000).fold(small().trainer(algorithm, false), |model, n| {
                model.piece("a".repeat(n), -1e30, kind)
            });
            let model = model.piece("a", 0.0, NORMAL).open().unwrap();
            let text = "a".repeat(50_000);
            let pieces = soon(|| model.encode(&text));
            assert_eq!(
                pieces.iter().map(|piece| piece.text.len()).sum::<usize>(),
                text.len() + 3
            );
        }
    }
}

#[test]
fn a_cyclic_table_takes_seconds() {
    // The unit of `a` is its own child.
    let a = usize::from(b'a');
    let mut units = vec![0; 256];
    units[0] = unit(0, 1, false);
    units[1 ^ a] = unit(b'a', b'a'.into(), false);
    let model = small().charsmap(&table(&units, b"a\0")).open().unwrap();
    let text = "a".repeat(100_000);
    assert_eq!(soon(|| model.normalize(&text)).len(), text.len() + 3);
}

/// Returns the model of a file that `fixtures/make.py` has written.
fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut file = GzDecoder::new(File::open(folder.join(format!("{name}.gz"))).unwrap());
    let mut length = [0; 4];
    file.read_exact(&mut length).unwrap();
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    file.read_exact(&mut bytes).unwrap();
    bytes
}

/// Uses all of a model.
fn exercise(model: &SentencePiece, text: &str) {
    let pieces = model.encode(text);
    let ids: Vec<u32> = pieces.iter().map(|piece| piece.id).collect();
    assert_eq!(ids, model.ids(text));
    model.decode(&ids);
    model.decode(&[0, 1, u32::MAX, 7]);
    model.decode_pieces(
        &pieces
            .iter()
            .map(|piece| &piece.text[..])
            .collect::<Vec<_>>(),
    );
    for id in [
        model.unk_id(),
        model.bos_id(),
        model.eos_id(),
        model.pad_id(),
    ] {
        assert!(id.is_none_or(|id| model.piece(id).is_some()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn cut_and_changed_files_do_not_panic(
        name in prop::sample::select(&["unigram", "unigram_odd", "bpe_bytes", "bpe_unused", "bpe"][..]),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        // Half of the changes are in the first pieces.
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0u8..8), 0..6),
        text in "[a-e ▁\\PC]{0,40}",
    ) {
        let mut bytes = fixture(name);
        for (index, near, bit) in changes {
            let length = bytes.len();
            let index = if near { index.index(3000) } else { index.index(length) };
            bytes[index] ^= 1 << bit;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        match SentencePiece::from_bytes(&bytes) {
            Ok(model) => exercise(&model, &text),
            Err(error) => assert!(!error.to_string().contains('\n')),
        }
    }

    #[test]
    fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(model) = SentencePiece::from_bytes(&bytes) {
            exercise(&model, "a");
        }
    }

    #[test]
    fn any_table_does_not_panic(
        units in prop::collection::vec((any::<bool>(), 0u32..255, prop::bool::weighted(0.02), 0u32..29), 256),
        root in 1u8..,
        text in "[ -~é]{0,30}",
    ) {
        let units = units.into_iter().enumerate().map(|(index, (is_leaf, offset, has_leaf, position))| match index {
            // All other inner units are children of the root.
            0 => unit(0, root.into(), false),
            _ if is_leaf => 1 << 31 | position,
            _ => unit(index as u8 ^ root, offset, has_leaf),
        });
        let table = table(&units.collect::<Vec<_>>(), b"abc\0 \0  x \0\0defghijklmnopqrs\0");
        if let Ok(model) = small().charsmap(&table).open() {
            exercise(&model, &text);
        }
    }
}
