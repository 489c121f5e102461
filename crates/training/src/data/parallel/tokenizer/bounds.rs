//! Limits on the memory that a `tokenizer.json` can make the tokenizers library allocate.

use serde::Deserialize;
use serde_json::Value;
use tokenizers::Tokenizer as Inner;

/// Message about a file that is not a `tokenizer.json`.
pub(super) const FOREIGN: &str = "is not a tokenizer.json of Hugging Face";

/// Maximum factor by which replacements may lengthen a text. Real tokenisers replace a blank by the
/// three bytes of `▁`, once or twice.
const LARGEST: u64 = 1000;

/// Maximum size in bytes of a text after all replacements. The tokenizers library needs about 32
/// bytes of memory for each of them.
const LONGEST: u64 = 32 << 20;

/// Maximum factors by which the replacements in a `tokenizer.json` can lengthen texts, as far as
/// its fields tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    normalizer: u64,
    decoder: u64,
}

impl Growth {
    /// Returns the longest beginning of `text` that has at most [`LONGEST`] bytes after the
    /// replacements of the normalizer.
    pub fn bounded_text(self, text: &str) -> &str {
        let most = LONGEST / self.normalizer;
        &text[..text.floor_char_boundary(most.min(text.len() as u64) as usize)]
    }

    /// Returns the most first `ids` whose text has at most [`LONGEST`] bytes after the replacements
    /// of the decoder.
    pub fn bounded_ids<'a>(self, ids: &'a [u32], inner: &Inner) -> &'a [u32] {
        let mut left = LONGEST / self.decoder;
        let size = |&id: &u32| inner.id_to_token(id).map_or(0, |token| token.len() as u64);
        let is_over = |id| {
            let rest = left.checked_sub(size(id));
            left = rest.unwrap_or(left);
            rest.is_none()
        };
        let count = ids.iter().position(is_over);
        &ids[..count.unwrap_or(ids.len())]
    }
}

/// The parts of a `tokenizer.json` that are checked. Other parts, such as the vocabulary, are not
/// kept.
#[derive(Deserialize)]
struct Replacing {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    decoder: Value,
    #[serde(default)]
    post_processor: Value,
}

/// Returns by how much a `tokenizer.json` can lengthen texts. Rejects a file that could make the
/// tokenizers library run out of memory, and returns the reason. Successive replacements may lengthen a text too much, or the header of a
/// SentencePiece table may state a size that is larger than the table. Also rejects invalid JSON,
/// on which the library can panic, and a template with an undefined special token, for which the
/// library returns no tokens at all.
pub(super) fn check_bounds(json: &[u8]) -> Result<Growth, String> {
    let read: Replacing =
        serde_json::from_slice(json).map_err(|error| format!("{FOREIGN} ({error})"))?;
    if let Some(token) = undefined(&read.post_processor) {
        return Err(format!(
            "its post_processor adds the special token {token:?}, but does not define it"
        ));
    }
    let growth_of = |name, part: Value| {
        if has_wrong_table(&part) {
            return Err(format!("its {name} has a damaged precompiled_charsmap"));
        }
        match growth(&part) {
            factor if factor > LARGEST => Err(format!(
                "its {name} can make a text {factor} times as long, but only {LARGEST} times is accepted"
            )),
            factor => Ok(factor),
        }
    };
    Ok(Growth {
        normalizer: growth_of("normalizer", read.normalizer)?,
        decoder: growth_of("decoder", read.decoder)?,
    })
}

/// Returns a special token that a template in `part`, a post-processor, adds without defining it.
fn undefined(part: &Value) -> Option<&str> {
    if let Some(parts) = part["processors"].as_array() {
        return parts.iter().find_map(undefined);
    }
    let templates = ["single", "pair"].map(|name| part[name].as_array());
    let pieces = templates.into_iter().flatten().flatten();
    let mut tokens = pieces.filter_map(|piece| piece["SpecialToken"]["id"].as_str());
    tokens.find(|token| part["special_tokens"].get(token).is_none())
}

/// Estimates the maximum factor by which the replacements in `part`, a part of a `tokenizer.json`,
/// can lengthen a text.
fn growth(part: &Value) -> u64 {
    match part {
        Value::Array(parts) => product(parts.iter()),
        Value::Object(fields) => {
            // These fields have the texts that `Replace`, `Prepend` and `Metaspace` insert.
            let inserted = ["content", "prepend", "replacement"];
            let inserted = inserted
                .iter()
                .filter_map(|name| fields.get(*name)?.as_str());
            let longest = inserted.map(str::len).max().unwrap_or(1).max(1);
            // `Prepend` adds to a text without removing anything, and so does a `Replace` whose
            // pattern matches the empty text. Any regular expression might be such a pattern.
            let matches_empty = |pattern: &Value| {
                pattern.get("Regex").is_some() || pattern["String"].as_str() == Some("")
            };
            let is_kept =
                fields.contains_key("prepend") || fields.get("pattern").is_some_and(matches_empty);
            product(fields.values()).saturating_mul((longest + usize::from(is_kept)) as u64)
        }
        _ => 1,
    }
}

/// Returns whether `part`, a part of a `tokenizer.json`, has a SentencePiece table whose header
/// cannot be read, or states a size that is larger than the table in base64. The tokenizers library
/// would allocate memory of the stated size.
fn has_wrong_table(part: &Value) -> bool {
    match part {
        Value::Array(parts) => parts.iter().any(has_wrong_table),
        Value::Object(fields) => fields.iter().any(|(name, value)| match value {
            Value::String(table) if name == "precompiled_charsmap" => {
                table_size(table).is_none_or(|size| size > table.len() as u64)
            }
            value => has_wrong_table(value),
        }),
        _ => false,
    }
}

/// Returns the size in bytes that the header of a SentencePiece table states; `None` if the table
/// is too short, or its header is not base64. The header is the first four bytes, in little-endian
/// order. In base64, each character stands for six bits.
fn table_size(base64: &str) -> Option<u64> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let first = base64.as_bytes().get(..6)?;
    let bits = first.iter().try_fold(0u64, |bits, character| {
        let digit = DIGITS.iter().position(|digit| digit == character)?;
        Some(bits << 6 | digit as u64)
    })?;
    let size = (bits >> 4) as u32;
    Some(size.swap_bytes().into())
}

fn product<'a>(parts: impl Iterator<Item = &'a Value>) -> u64 {
    parts.map(growth).fold(1, u64::saturating_mul)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_define_their_special_tokens() {
        let file = |defined: &str| {
            let template = json!({
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [],
                "special_tokens": {defined: {"id": defined, "ids": [0], "tokens": [defined]}}
            });
            [
                json!({"post_processor": template}),
                json!({"post_processor": {"type": "Sequence", "processors": [template]}}),
            ]
            .map(|file| check_bounds(file.to_string().as_bytes()).map(|_| ()))
        };
        assert_eq!(file("<s>"), [Ok(()), Ok(())]);
        for result in file("<t>") {
            let error = result.unwrap_err();
            assert!(error.contains("adds the special token \"<s>\""), "{error}");
        }
    }

    #[test]
    fn long_texts_are_cut_before_they_grow() {
        let growth = Growth {
            normalizer: 1000,
            decoder: 1000,
        };
        let text = "▁".repeat(20_000);
        let cut = growth.bounded_text(&text);
        // 33,554 bytes are a thousandth of 32 MiB, and ▁ has three.
        assert_eq!(cut.len(), 33_552);
        assert_eq!(growth.bounded_text(cut), cut);
        let tokens =
            json!({"type": "WordLevel", "vocab": {"a": 0, &text[..3000]: 1}, "unk_token": "a"});
        let file = json!({"version": "1.0", "model": tokens, "added_tokens": []});
        let inner = Inner::from_bytes(file.to_string()).unwrap();
        let ids = [[0, 1]; 20].concat();
        // Eleven pairs have 33,011 bytes, and one byte more fits.
        assert_eq!(growth.bounded_ids(&ids, &inner), &ids[..23]);
        assert_eq!(growth.bounded_ids(&ids[..23], &inner), &ids[..23]);
    }

    #[test]
    fn replacements_multiply() {
        let replace = |content: &str| json!({"type": "Replace", "pattern": {"String": "a"}, "content": content});
        let file = |normalizers: Vec<Value>| {
            let normalizer = json!({"type": "Sequence", "normalizers": normalizers});
            let file = json!({"model": {"vocab": {"content": "a".repeat(5000)}}, "normalizer": normalizer});
            let growth = check_bounds(file.to_string().as_bytes());
            growth.map(|growth| [growth.normalizer, growth.decoder])
        };
        assert_eq!(
            file(vec![replace("▁"), replace("a"), replace("")]),
            Ok([3, 1])
        );
        assert_eq!(file(vec![replace("0123456789"); 3]), Ok([1000, 1]));
        let error = file(vec![replace("0123456789"); 4]).unwrap_err();
        let expected =
            "its normalizer can make a text 10000 times as long, but only 1000 times is accepted";
        assert_eq!(error, expected);
        assert!(file(vec![replace("0123456789"); 40]).is_err());
        // If the pattern matches the empty text, `Replace` inserts `content` before each character.
        for pattern in [json!({"Regex": "x*"}), json!({"String": ""})] {
            let doubling = json!({"type": "Replace", "pattern": pattern, "content": "a"});
            assert_eq!(file(vec![doubling.clone(); 9]), Ok([512, 1]));
            assert!(file(vec![doubling; 40]).is_err());
        }
        let none = Growth {
            normalizer: 1,
            decoder: 1,
        };
        assert_eq!(check_bounds(b"{}"), Ok(none));
        let table = |base64: &str| {
            let normalizer = json!({"type": "Precompiled", "precompiled_charsmap": base64});
            let file = json!({"normalizer": {"type": "Sequence", "normalizers": [normalizer]}});
            check_bounds(file.to_string().as_bytes()).map(|_| ())
        };
        // A valid table in base64: four bytes with the size 8, and then eight bytes that are 0.
        assert_eq!(table("CAAAAAAAAAAAAAAA"), Ok(()));
        // The headers of the first two tables state a size that is larger than the table. The other
        // tables are too short or not base64.
        for wrong in ["/////wAAAAAAAAAA", "CAEAAAAAAAAAAAAA", "CA", "", "!!!!!!!!"] {
            let error = table(wrong).unwrap_err();
            assert_eq!(error, "its normalizer has a damaged precompiled_charsmap");
        }
        for wrong in ["", "{", "7", "{} x"] {
            let error = check_bounds(wrong.as_bytes()).unwrap_err();
            assert!(error.starts_with(FOREIGN), "{error}");
        }
    }
}
