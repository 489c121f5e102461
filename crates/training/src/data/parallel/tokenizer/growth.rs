//! Limits how much a tokeniser can lengthen texts, because the tokenizers library keeps the whole
//! text in memory. Texts that could become too long are truncated.

use serde::Serialize;
use serde_json::{Map, Value};
use tokenizers::{NormalizedString, Normalizer, Tokenizer as Inner};

use super::table::longest_replacement;

/// Maximum factor by which a tokeniser may lengthen a text when it encodes or decodes the text. The
/// factor is the product of the factors of its parts. For real tokenisers, it is at most a few
/// thousand.
const LARGEST: u64 = 100_000;

/// Maximum number of special tokens that a template may add to a text.
const MOST_ADDED: usize = 1000;

/// Maximum size of a text in bytes after normalization, and of a decoded text. To encode a text,
/// the tokenizers library needs up to 200 bytes of memory for each of its bytes.
const LONGEST: u64 = 4 << 20;

/// Maximum factors by which the parts of a tokeniser can lengthen a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    normalizer: u64,
    /// The product of the factors of pre-tokeniser and post-processor.
    after: u64,
    decoder: u64,
}

impl Growth {
    /// Returns the factors of a tokeniser.
    ///
    /// # Errors
    ///
    /// If the factor of encoding or of decoding is larger than [`LARGEST`], or if a template adds
    /// more than [`MOST_ADDED`] special tokens. The message is the reason.
    pub fn of(inner: &Inner) -> Result<Self, String> {
        let post = json(inner.get_post_processor());
        let Added { copies, tokens } = Added::by(&post);
        if tokens > MOST_ADDED {
            return Err(format!(
                "its post_processor adds {tokens} special tokens, but only {MOST_ADDED} are accepted"
            ));
        }
        let normalizer = growth(&json(inner.get_normalizer()));
        let after = growth(&json(inner.get_pre_tokenizer())).saturating_mul(copies);
        let decoder = growth(&json(inner.get_decoder()));
        for (what, factor) in [
            ("encode", normalizer.saturating_mul(after)),
            ("decode", decoder),
        ] {
            if factor > LARGEST {
                return Err(format!(
                    "the parts that {what} a text can make it {factor} times as long, but only {LARGEST} times is accepted"
                ));
            }
        }
        Ok(Self {
            normalizer,
            after,
            decoder,
        })
    }

    /// Returns the longest beginning of `text` that cannot become longer than [`LONGEST`] bytes
    /// when it is encoded.
    ///
    /// With a normalizer, a long text is measured in pieces: the function normalizes each piece,
    /// and multiplies its new size by the maximum factor of the later parts. The text is then
    /// truncated at the end of a piece.
    pub fn bounded_text<'a>(self, text: &'a str, inner: &Inner) -> &'a str {
        // A piece of this size has at most `LONGEST` bytes after all parts.
        let piece = (LONGEST / self.normalizer.saturating_mul(self.after)) as usize;
        if text.len() <= piece {
            return text;
        }
        let Some(normalizer) = inner.get_normalizer() else {
            return &text[..text.floor_char_boundary(piece)];
        };
        let (mut end, mut total) = (0, 0);
        while end < text.len() {
            let next = text.ceil_char_boundary(end + piece);
            let mut normalized = NormalizedString::from(&text[end..next]);
            // If this fails, encoding fails in the same way.
            if normalizer.normalize(&mut normalized).is_ok() {
                total += normalized.get().len() as u64 * self.after;
            }
            if total > LONGEST {
                break;
            }
            end = next;
        }
        &text[..end]
    }

    /// Returns as many of the first `ids` as give a decoded text of at most [`LONGEST`] bytes.
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

fn json(part: Option<&impl Serialize>) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

/// Copies and special tokens that a post-processor adds to the tokens of a text.
struct Added {
    /// Number of times that the tokens of the text are repeated.
    copies: u64,
    /// Number of special tokens that are added.
    tokens: usize,
}

impl Added {
    fn by(part: &Value) -> Self {
        let mut added = Self {
            copies: 1,
            tokens: 0,
        };
        for part in part["processors"].as_array().into_iter().flatten() {
            let Self { copies, tokens } = Self::by(part);
            added.copies = added.copies.saturating_mul(copies);
            added.tokens += tokens;
        }
        let pieces = || part["single"].as_array().into_iter().flatten();
        let copies = pieces().filter(|piece| piece.get("Sequence").is_some());
        added.copies *= copies.count().max(1) as u64;
        let tokens = pieces().filter_map(|piece| piece["SpecialToken"]["id"].as_str());
        let ids = |token| part["special_tokens"][token]["ids"].as_array();
        added.tokens += tokens.filter_map(ids).map(Vec::len).sum::<usize>();
        added
    }
}

/// Estimates the maximum factor by which `part`, a part of a tokeniser, can lengthen a text.
fn growth(part: &Value) -> u64 {
    match part {
        Value::Array(parts) => product(parts.iter()),
        Value::Object(fields) => {
            let own = match fields.get("type").and_then(Value::as_str) {
                Some("Replace" | "Prepend" | "Metaspace") => growth_by_insertion(fields),
                _ => growth_of_kind(fields),
            };
            product(fields.values()).saturating_mul(own)
        }
        _ => 1,
    }
}

/// Returns the maximum factor by which a part that inserts texts can lengthen a text.
fn growth_by_insertion(fields: &Map<String, Value>) -> u64 {
    let inserted = ["content", "prepend", "replacement"];
    let inserted = inserted
        .iter()
        .filter_map(|name| fields.get(*name)?.as_str());
    let longest = inserted.map(str::len).max().unwrap_or(1).max(1);
    // `Prepend` adds to a text without removing anything, and so does a `Replace` whose pattern
    // matches the empty text. Any regular expression might be such a pattern.
    let matches_empty =
        |pattern: &Value| pattern.get("Regex").is_some() || pattern["String"].as_str() == Some("");
    let is_kept =
        fields.contains_key("prepend") || fields.get("pattern").is_some_and(matches_empty);
    (longest + usize::from(is_kept)) as u64
}

/// Returns the maximum factor by which a part of a tokeniser can lengthen a text because of its
/// kind, without the texts in its fields.
fn growth_of_kind(fields: &Map<String, Value>) -> u64 {
    let text = |name| fields.get(name).and_then(Value::as_str);
    // The library replaces every occurrence of the text in this field by a blank. The empty text
    // occurs before every character.
    let replaces = |name| 1 + u64::from(text(name) == Some(""));
    match text("type") {
        // Encoding gives each byte a character of at most two bytes. Decoding replaces bytes that
        // are not UTF-8 by a character of three bytes.
        Some("ByteLevel") => 3,
        // It puts blanks around Chinese characters, decomposes characters with accents, and
        // converts texts to lower case.
        Some("BertNormalizer") => 6,
        // These are the maximum factors by which Unicode's normalization forms lengthen UTF-8.
        Some("NFC" | "NFD") => 3,
        Some("NFKC" | "NFKD") => 11,
        Some("Lowercase") => 2,
        Some("Precompiled") => text("precompiled_charsmap").map_or(1, longest_replacement),
        Some("BPEDecoder") => replaces("suffix"),
        Some("CTC") => replaces("word_delimiter_token"),
        // It puts a blank before each token.
        Some("WordPiece") => 2,
        _ => 1,
    }
}

fn product<'a>(parts: impl Iterator<Item = &'a Value>) -> u64 {
    parts.map(growth).fold(1, u64::saturating_mul)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokenizer(parts: Value) -> Inner {
        let words = json!({"type": "WordLevel", "vocab": {"a": 0, "▁▁▁▁": 1}, "unk_token": "a"});
        let mut file = json!({"version": "1.0", "model": words, "added_tokens": []});
        let Value::Object(parts) = parts else {
            panic!("{parts}")
        };
        file.as_object_mut().unwrap().extend(parts);
        Inner::from_bytes(file.to_string()).unwrap()
    }

    fn normalizers(parts: &[Value]) -> Value {
        json!({"normalizer": {"type": "Sequence", "normalizers": parts}})
    }

    fn replace(pattern: Value, content: &str) -> Value {
        json!({"type": "Replace", "pattern": pattern, "content": content})
    }

    #[test]
    fn the_factors_of_parts_multiply() {
        let of = |parts: Value| Growth::of(&tokenizer(parts)).unwrap();
        let one = Growth {
            normalizer: 1,
            after: 1,
            decoder: 1,
        };
        assert_eq!(of(json!({})), one);
        let space = || json!({"String": " "});
        let marks = normalizers(&[
            replace(space(), "▁"),
            replace(space(), "a"),
            replace(space(), ""),
        ]);
        assert_eq!(of(marks).normalizer, 3);
        // If the pattern matches the empty text, `Replace` inserts `content` before each character.
        for pattern in [json!({"Regex": "x*"}), json!({"String": ""})] {
            let doubling = replace(pattern, "a");
            assert_eq!(of(normalizers(&vec![doubling; 9])).normalizer, 512);
        }
        // These are the normalizers of ALBERT without the SentencePiece table.
        let quotes = |quote: &str| replace(json!({ "String": quote }), "\"");
        let albert = normalizers(&[
            quotes("``"),
            quotes("''"),
            json!({"type": "NFKD"}),
            json!({"type": "StripAccents"}),
            json!({"type": "Lowercase"}),
            replace(json!({"Regex": " {2,}"}), " "),
        ]);
        assert_eq!(of(albert).normalizer, 11 * 2 * 2);
        let split = json!({"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Isolated", "invert": false});
        let splits =
            json!({"pre_tokenizer": {"type": "Sequence", "pretokenizers": vec![split; 20]}});
        assert_eq!(of(splits).after, 1);
        let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
        let found = of(json!({"pre_tokenizer": metaspace.clone(), "decoder": metaspace}));
        assert_eq!([found.after, found.decoder], [3, 3]);
    }

    #[test]
    fn parts_that_lengthen_texts_without_limit_are_rejected() {
        let byte_level = || json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
        let sequence = |name: &str, part: Value| json!({"type": "Sequence", name: vec![part; 40]});
        let bpe = json!({"type": "BPEDecoder", "suffix": ""});
        let ctc = json!({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "", "cleanup": true});
        let piece = json!({"Sequence": {"id": "A", "type_id": 0}});
        let template = |pieces: Vec<Value>| {
            json!({"type": "TemplateProcessing", "single": pieces, "pair": [], "special_tokens": {
                "a": {"id": "a", "ids": vec![0; 20], "tokens": vec!["a"; 20]}
            }})
        };
        let token = json!({"SpecialToken": {"id": "a", "type_id": 0}});
        let copies = template(vec![piece.clone(); 11]);
        let tokens = template([vec![piece], vec![token; 51]].concat());
        let repeated = replace(json!({"String": "a"}), "0123456789");
        for (parts, what) in [
            (normalizers(&vec![repeated; 40]), "encode"),
            (
                normalizers(&vec![json!({"type": "ByteLevel"}); 40]),
                "encode",
            ),
            (
                json!({"pre_tokenizer": sequence("pretokenizers", byte_level())}),
                "encode",
            ),
            (json!({"decoder": sequence("decoders", bpe)}), "decode"),
            (json!({"decoder": sequence("decoders", ctc)}), "decode"),
            (
                json!({"post_processor": sequence("processors", copies)}),
                "encode",
            ),
            (json!({ "post_processor": tokens }), "adds 1020 special"),
        ] {
            let error = Growth::of(&tokenizer(parts)).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn long_texts_are_truncated_before_they_grow() {
        // The normalizers replace each `a` by 1,000 of them.
        let grow = vec![replace(json!({"String": "a"}), "aaaaaaaaaa"); 3];
        let inner = tokenizer(normalizers(&grow));
        let growth = Growth::of(&inner).unwrap();
        let bounded = |text: &str| growth.bounded_text(text, &inner).len();
        assert_eq!(bounded(&"a".repeat(4_000)), 4_000);
        // The text is measured in pieces of 4,194 bytes.
        assert_eq!(bounded(&"a".repeat(6_000)), 4_194);
        // This text has nothing that is replaced.
        assert_eq!(bounded(&"b".repeat(4_000_000)), 4_000_000);
        let text = "▁".repeat(2_000_000);
        let cut = growth.bounded_text(&text, &inner).len();
        assert!(cut.is_multiple_of(3) && cut > 4_180_000, "{cut}");
        let plain = tokenizer(json!({}));
        let long = "b".repeat(5 << 20);
        let of = Growth::of(&plain).unwrap();
        assert_eq!(of.bounded_text(&long, &plain).len(), 4 << 20);
        let ids = [0, 1, 0, 1];
        assert_eq!(growth.bounded_ids(&ids, &inner), ids);
        // The tokens have 1 and 12 bytes.
        let tight = Growth {
            decoder: LONGEST / 26,
            ..growth
        };
        assert_eq!(tight.bounded_ids(&[0, 1, 0, 1, 0], &inner), [0, 1, 0, 1]);
    }
}
