//! The kinds of parts that a tokeniser may have, and the longest texts that it is given. Parts can
//! lengthen a text, and the tokenizers library needs up to 200 bytes of memory for each of its
//! bytes.

use serde::Serialize;
use serde_json::Value;
use tokenizers::{ModelWrapper, NormalizedString, Normalizer, Tokenizer as Inner};

/// Maximum size of a text in bytes, in all commands. Longer texts are truncated; training may skip
/// them.
pub const LONGEST_TEXT: usize = 64 << 10;

/// Maximum size of a text in bytes after normalization, and of the tokens that are decoded.
const LONGEST_INSIDE: usize = 1 << 20;

/// Size of the pieces in bytes in which the size after normalization is measured. A text of this
/// size is not measured: the parts that are accepted cannot make it too long.
const PIECE: usize = 512;

/// Returns an error, which names a part, if a tokeniser has a part that is not known, or parts that
/// could lengthen texts without limit.
pub(super) fn check(inner: &Inner) -> Result<(), String> {
    // Another kind of model would not compile.
    let (ModelWrapper::BPE(_)
    | ModelWrapper::WordPiece(_)
    | ModelWrapper::WordLevel(_)
    | ModelWrapper::Unigram(_)) = inner.get_model();
    for (name, part) in [
        ("normalizer", json(inner.get_normalizer())),
        ("pre_tokenizer", json(inner.get_pre_tokenizer())),
        ("post_processor", json(inner.get_post_processor())),
        ("decoder", json(inner.get_decoder())),
    ] {
        check_part(&part, &mut Vec::new()).map_err(|why| format!("its {name} {why}"))?;
    }
    Ok(())
}

fn json(part: Option<&impl Serialize>) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

/// Checks a part and the parts inside it. `seen` has the kinds that lengthen texts and that were
/// found so far.
fn check_part(part: &Value, seen: &mut Vec<String>) -> Result<(), String> {
    if part.is_null() {
        return Ok(());
    }
    for list in ["normalizers", "pretokenizers", "processors", "decoders"] {
        for part in part[list].as_array().into_iter().flatten() {
            check_part(part, seen)?;
        }
    }
    let kind = part["type"].as_str().unwrap_or_default();
    let text = |path| part.pointer(path).and_then(Value::as_str);
    // The empty text occurs before every character, so that replacing it lengthens a text.
    let has = |path| text(path).is_some_and(|text| !text.is_empty());
    let inserts = |path| text(path).map_or(usize::MAX, str::len);
    let most = match kind {
        "Sequence" | "Strip" | "StripAccents" | "Nmt" | "BertPreTokenizer" | "Whitespace"
        | "WhitespaceSplit" | "Punctuation" | "Digits" | "Split" | "CharDelimiterSplit"
        | "UnicodeScripts" | "FixedLength" | "Fuse" | "ByteFallback" => return Ok(()),
        "Replace"
            if has("/pattern/String") && inserts("/content") <= inserts("/pattern/String") =>
        {
            return Ok(());
        }
        "Replace" if text("/pattern/String") != Some("") && inserts("/content") <= 3 => 2,
        "Prepend" if inserts("/prepend") <= 3 => 1,
        "BPEDecoder" if has("/suffix") => 1,
        "CTC" if has("/word_delimiter_token") => 1,
        "TemplateProcessing" if adds_little(part) => 1,
        "BertNormalizer" | "NFC" | "NFD" | "NFKC" | "NFKD" | "Lowercase" | "Precompiled"
        | "Metaspace" | "ByteLevel" | "WordPiece" | "BertProcessing" | "RobertaProcessing" => 1,
        "Replace" | "Prepend" | "BPEDecoder" | "CTC" | "TemplateProcessing" => 0,
        _ => {
            return Err(format!(
                "has a part of the kind {kind:?}, which is not known"
            ));
        }
    };
    seen.push(kind.into());
    if seen.iter().filter(|one| *one == kind).count() > most {
        return Err(format!("has a {kind} that could make texts too long"));
    }
    Ok(())
}

/// Returns whether a template has the text once, and at most 64 tokens beside it.
fn adds_little(template: &Value) -> bool {
    let pieces = || template["single"].as_array().into_iter().flatten();
    let copies = pieces().filter(|piece| piece.get("Sequence").is_some());
    let tokens = pieces().filter_map(|piece| piece["SpecialToken"]["id"].as_str());
    let ids = |token| template["special_tokens"][token]["ids"].as_array();
    copies.count() <= 1 && tokens.filter_map(ids).map(Vec::len).sum::<usize>() <= 64
}

/// Returns the longest beginning of a text that is not too long, neither before nor after
/// normalization by the tokenizers library, if a text is given to it.
pub(super) fn bounded_text<'a>(text: &'a str, library: Option<&Inner>) -> &'a str {
    let text = &text[..text.floor_char_boundary(LONGEST_TEXT)];
    let normalizer = library.and_then(|library| library.get_normalizer());
    let Some(normalizer) = normalizer.filter(|_| text.len() > PIECE) else {
        return text;
    };
    let (mut end, mut total) = (0, 0);
    while end < text.len() {
        let next = text.ceil_char_boundary(end + PIECE);
        let mut normalized = NormalizedString::from(&text[end..next]);
        // If this fails, encoding fails in the same way.
        if normalizer.normalize(&mut normalized).is_ok() {
            total += normalized.get().len();
        }
        if total > LONGEST_INSIDE {
            break;
        }
        end = next;
    }
    &text[..end]
}

/// Returns as many of the first `ids` as have tokens of at most [`LONGEST_INSIDE`] bytes together.
/// `token` returns the name of a token.
pub(super) fn bounded_ids(ids: &[u32], token: impl Fn(u32) -> Option<String>) -> &[u32] {
    let mut left = LONGEST_INSIDE;
    let is_over = |&id: &u32| {
        let size = token(id).map_or(0, |token| token.len());
        let is_over = size > left;
        left -= size.min(left);
        is_over
    };
    &ids[..ids.iter().position(is_over).unwrap_or(ids.len())]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokenizer(part: &str, value: Value) -> Inner {
        let long = "b".repeat(600_000);
        let words = json!({"type": "WordLevel", "vocab": {"a": 0, long: 1}, "unk_token": "a"});
        let mut file = json!({"version": "1.0", "model": words, "added_tokens": []});
        file[part] = value;
        Inner::from_bytes(file.to_string()).unwrap()
    }

    fn sequence(name: &str, parts: &[Value]) -> Value {
        json!({"type": "Sequence", name: parts})
    }

    fn replace(pattern: Value, content: &str) -> Value {
        json!({"type": "Replace", "pattern": pattern, "content": content})
    }

    #[test]
    fn the_parts_of_real_tokenizers_are_accepted() {
        let quotes = |quote: &str| replace(json!({ "String": quote }), "\"");
        let blanks = |content: &str| replace(json!({"Regex": " {2,}"}), content);
        // The normalizers of ALBERT without the SentencePiece table, and those of Llama.
        let albert = [
            quotes("``"),
            quotes("''"),
            json!({"type": "NFKD"}),
            json!({"type": "StripAccents"}),
            json!({"type": "Lowercase"}),
            blanks(" "),
            blanks("▁"),
        ];
        let llama = [
            json!({"type": "Prepend", "prepend": "▁"}),
            replace(json!({"String": " "}), "▁"),
        ];
        for parts in [&albert[..], &llama] {
            let inner = tokenizer("normalizer", sequence("normalizers", parts));
            assert_eq!(check(&inner), Ok(()));
        }
        let split = json!({"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Isolated", "invert": false});
        let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
        let mut parts = vec![split; 20];
        parts.push(metaspace);
        let inner = tokenizer("pre_tokenizer", sequence("pretokenizers", &parts));
        assert_eq!(check(&inner), Ok(()));
    }

    #[test]
    fn parts_that_lengthen_texts_without_limit_are_rejected() {
        let byte_level = || json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
        let twice = |name: &str, part: Value| sequence(name, &[part.clone(), part]);
        let bpe = json!({"type": "BPEDecoder", "suffix": ""});
        let ctc = json!({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "", "cleanup": true});
        let piece = json!({"Sequence": {"id": "A", "type_id": 0}});
        let template = |pieces: Vec<Value>| {
            json!({"type": "TemplateProcessing", "single": pieces, "pair": [], "special_tokens": {
                "a": {"id": "a", "ids": vec![0; 20], "tokens": vec!["a"; 20]}
            }})
        };
        let token = json!({"SpecialToken": {"id": "a", "type_id": 0}});
        let any = || replace(json!({"Regex": "x*"}), "ab");
        let normalizers = [
            replace(json!({"String": "a"}), "0123456789"),
            replace(json!({"String": ""}), "a"),
            sequence("normalizers", &[any(), any(), any()]),
            twice("normalizers", json!({"type": "ByteLevel"})),
            json!({"type": "Prepend", "prepend": "abcd"}),
        ];
        let byte_levels = twice("pretokenizers", byte_level());
        let templates = [vec![piece.clone(); 2], vec![token; 4]].map(template);
        let all = normalizers.map(|part| ("normalizer", part)).into_iter();
        let all = all.chain(templates.map(|part| ("post_processor", part)));
        let others = [
            ("pre_tokenizer", byte_levels),
            ("decoder", bpe),
            ("decoder", ctc),
        ];
        for (name, part) in all.chain(others) {
            let error = check(&tokenizer(name, part.clone())).unwrap_err();
            assert!(error.starts_with(&format!("its {name} has a ")), "{error}");
            assert!(error.ends_with("could make texts too long"), "{error}");
        }
    }

    #[test]
    fn an_unknown_kind_is_named() {
        let part = sequence("normalizers", &[json!({"type": "Repeat", "times": 9})]);
        let error = check_part(&part, &mut Vec::new()).unwrap_err();
        assert_eq!(
            error,
            "has a part of the kind \"Repeat\", which is not known"
        );
    }

    #[test]
    fn long_texts_are_truncated() {
        let tripled = replace(json!({"String": "a"}), "aaa");
        let inner = tokenizer("normalizer", sequence("normalizers", &vec![tripled; 3]));
        let of = |letter: &str| bounded_text(&letter.repeat(70_000), Some(&inner)).len();
        // Pieces of 512 letters become 13,824, of which 75 fit.
        assert_eq!([of("b"), of("a")], [LONGEST_TEXT, 75 * PIECE]);
        let inner = tokenizer("decoder", Value::Null);
        let found = bounded_ids(&[0, 1, 0, 1, 0], |id| inner.id_to_token(id));
        assert_eq!(found, [0, 1, 0]);
    }
}
