//! Checks the content of a `tokenizer.json`, and then has the tokenizers library parse it.

use std::collections::HashSet;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::Deserialize;
use serde_json::Value;
use tokenizers::{ModelWrapper, Tokenizer as Inner};
use transformer::weights::Unique;

use super::parts;
use crate::contain::contain;

/// Message about a file that is not a `tokenizer.json`.
const FOREIGN: &str = "is not a tokenizer.json of Hugging Face";

/// The parts of a `tokenizer.json` that are checked before the tokenizers library parses it. Other
/// parts are not kept.
#[derive(Deserialize)]
struct Checked {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    decoder: Value,
    /// The model, whose vocabulary must not have a token twice.
    #[serde(default, rename = "model")]
    _model: Option<Unique>,
}

/// Parses the content of a `tokenizer.json`, and checks its parts. Switches padding and truncation
/// off, and dropout of BPE's merges, with which a text would have other ids each time; also returns
/// the names of those that the file has.
///
/// # Errors
///
/// In the cases of [`check_content`] and [`parts::check`], if the tokenizers library panics, if two tokens
/// have one id, or if `json` is not a `tokenizer.json`.
pub(super) fn parse(json: &[u8]) -> Result<(Inner, Vec<&'static str>), String> {
    check_content(json)?;
    let parsed = contained(|| Inner::from_bytes(json))?;
    let mut inner = parsed.map_err(|error| format!("{FOREIGN} ({error})"))?;
    let mut off = Vec::new();
    off.extend(inner.get_truncation().map(|_| "truncation"));
    off.extend(inner.get_padding().map(|_| "padding"));
    if let ModelWrapper::BPE(bpe) = inner.get_model()
        && bpe.dropout.is_some()
    {
        let mut bpe = bpe.clone();
        bpe.dropout = None;
        inner.with_model(bpe);
        off.push("dropout");
    }
    parts::check(&inner)?;
    let vocab = inner.get_vocab(false);
    if HashSet::<&u32>::from_iter(vocab.values()).len() < vocab.len() {
        return Err("has two tokens with one id".into());
    }
    inner.with_padding(None);
    let without = inner.with_truncation(None);
    without.map_err(|error| error.to_string())?;
    Ok((inner, off))
}

/// Calls the tokenizers library. If it panics, returns the panic as a reason to reject the
/// `tokenizer.json`.
pub(super) fn contained<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let result = contain(|| Ok::<T, String>(call()));
    result.map_err(|panic| format!("cannot be used by the tokenizers library ({panic})"))
}

/// Returns an error, which is the reason, if the tokenizers library cannot use a `tokenizer.json`.
///
/// The library would run out of memory with a SentencePiece table whose header states too large a
/// size. Tables whose header cannot be read, and invalid JSON, are errors as well.
fn check_content(json: &[u8]) -> Result<(), String> {
    let read: Checked =
        serde_json::from_slice(json).map_err(|error| format!("{FOREIGN} ({error})"))?;
    for (name, part) in [("normalizer", &read.normalizer), ("decoder", &read.decoder)] {
        if has_wrong_table(part) {
            return Err(format!("its {name} has a damaged precompiled_charsmap"));
        }
    }
    Ok(())
}

/// Maximum size in bytes of a text by which a SentencePiece table replaces another. Unicode's longest
/// has 33.
const LONGEST_REPLACEMENT: usize = 36;

/// Returns whether `part`, a part of a `tokenizer.json`, has a SentencePiece table that would
/// lengthen texts too much, or that is damaged. The tokenizers library would allocate memory of any
/// size that the table states.
fn has_wrong_table(part: &Value) -> bool {
    match part {
        Value::Array(parts) => parts.iter().any(has_wrong_table),
        Value::Object(fields) => fields.iter().any(|(name, value)| match value {
            Value::String(table) if name == "precompiled_charsmap" => {
                longest_replacement(table).is_none_or(|longest| longest > LONGEST_REPLACEMENT)
            }
            value => has_wrong_table(value),
        }),
        _ => false,
    }
}

/// Returns the size in bytes of the longest replacement text in a SentencePiece table, at least 1;
/// `None` for a damaged table.
///
/// The table is given in base64. Its first four bytes are the size of a trie, in little-endian
/// order. The trie follows, and then the replacement texts, each with a zero byte at its end.
fn longest_replacement(base64: &str) -> Option<usize> {
    let table = BASE64_STANDARD.decode(base64).ok()?;
    let (size, rest) = table.split_first_chunk()?;
    let texts = rest.get(u32::from_le_bytes(*size) as usize..)?;
    let lengths = texts.split(|&byte| byte == 0).map(<[u8]>::len);
    lengths.max().map(|longest| longest.max(1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_of_one_id_are_refused() {
        for (last, is_right) in [(2, true), (1, false)] {
            let model = json!({"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1, "c": last}});
            let parsed = parse(json!({ "model": model }).to_string().as_bytes());
            assert_eq!(parsed.err().is_none(), is_right, "{last}");
        }
    }

    #[test]
    fn merges_are_never_dropped() {
        let bpe = |dropout: f32| {
            json!({"model": {
                "type": "BPE", "dropout": dropout, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]
            }})
        };
        for dropout in [0.5, 1.0] {
            let (inner, off) = parse(bpe(dropout).to_string().as_bytes()).unwrap();
            assert_eq!(off, ["dropout"]);
            for _ in 0..20 {
                assert_eq!(inner.encode_fast("ab", false).unwrap().get_ids(), [2]);
            }
        }
    }

    #[test]
    fn damaged_tables_and_other_files_are_rejected() {
        assert_eq!(check_content(b"{}"), Ok(()));
        let table = |base64: &str| {
            let normalizer = json!({"type": "Precompiled", "precompiled_charsmap": base64});
            let file = json!({"normalizer": {"type": "Sequence", "normalizers": [normalizer]}});
            check_content(file.to_string().as_bytes())
        };
        // A valid table in base64: four bytes with the size 8, and then eight bytes that are 0.
        assert_eq!(table("CAAAAAAAAAAAAAAA"), Ok(()));
        // The headers of the first two tables state a size that is larger than the table. The other
        // tables are too short or not base64.
        for wrong in ["/////wAAAAAAAAAA", "CAEAAAAAAAAAAAAA", "CA", "", "!!!!!!!!"] {
            let error = table(wrong).unwrap_err();
            assert_eq!(error, "its normalizer has a damaged precompiled_charsmap");
        }
        for wrong in [
            "",
            "{",
            "7",
            "{} x",
            r#"{"model": {"vocab": {"a": 0, "a": 1}}}"#,
        ] {
            let error = check_content(wrong.as_bytes()).unwrap_err();
            assert!(error.starts_with(FOREIGN), "{error}");
        }
    }

    #[test]
    fn the_longest_replacement_is_found() {
        // A header, a trie of four bytes, and then the texts `ab`, `abcde` and `a`: 19 bytes.
        assert_eq!(longest_replacement("BAAAAAAAAABhYgBhYmNkZQBhAA=="), Some(5));
    }
}
