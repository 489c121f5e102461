//! Hostile tokenisers: mostly files in the format of Hugging Face with parts that are wrong or
//! contradict each other.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::hostile::{Hostile, nested};

/// Returns changes of a trained tokeniser: a description, the JSON pointer of the changed value,
/// and the new value.
fn changes() -> Vec<(&'static str, &'static str, Value)> {
    let words =
        |n: u64| json!({ "type": "WordLevel", "vocab": { "<unk>": n }, "unk_token": "<unk>" });
    let unigram = |unk: u64, score: Value| json!({ "type": "Unigram", "unk_id": unk, "vocab": [["<unk>", score], ["a", -1.0]], "byte_fallback": false });
    let replace = |pattern: &str| json!({ "type": "Replace", "pattern": { "Regex": pattern }, "content": "xx" });
    let split = |pattern: &str| json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false });
    vec![
        ("no model", "/model", json!({})),
        (
            "an unknown model",
            "/model",
            json!({ "type": "Other", "vocab": {} }),
        ),
        ("no tokens", "/model/vocab", json!({})),
        ("an id of 2^32 - 1", "/model", words(u64::from(u32::MAX))),
        (
            "an id of 2^32 - 2",
            "/model",
            words(u64::from(u32::MAX) - 1),
        ),
        (
            "an id of two thousand millions",
            "/model",
            words(2_000_000_000),
        ),
        ("an id of 2^32", "/model", words(1 << 32)),
        (
            "an id of 2^32 - 2, and no special tokens",
            "",
            json!({ "version": "1.0", "added_tokens": [], "model": words(u64::from(u32::MAX) - 1) }),
        ),
        ("an id below 0", "/model/vocab", json!({ "a": -1 })),
        (
            "ids that are equal",
            "/model/vocab",
            json!({ "a": 1, "b": 1, "c": 1, "<unk>": 0 }),
        ),
        (
            "merges of tokens that are not there",
            "/model/merges",
            json!([["q", "zzz"]]),
        ),
        (
            "merges that are not pairs",
            "/model/merges",
            json!(["abc", "d e f"]),
        ),
        (
            "an unknown token that is not there",
            "/model",
            json!({ "type": "WordLevel", "vocab": { "a": 0 }, "unk_token": "u" }),
        ),
        (
            "a unigram model whose unknown id is past its end",
            "/model",
            unigram(9, json!(0.0)),
        ),
        (
            "a unigram model with an endless score",
            "/model",
            unigram(0, json!(1e300)),
        ),
        (
            "a unigram model without a score",
            "/model",
            unigram(0, json!(null)),
        ),
        (
            "a unigram model without tokens",
            "/model",
            json!({ "type": "Unigram", "unk_id": null, "vocab": [] }),
        ),
        (
            "a word piece model of nothing",
            "/model",
            json!({ "type": "WordPiece", "vocab": {}, "unk_token": "u", "continuing_subword_prefix": "##", "max_input_chars_per_word": 0 }),
        ),
        ("a pattern that is not one", "/pre_tokenizer", split("(((")),
        (
            "a pattern that takes long",
            "/pre_tokenizer",
            split("(a+)+$"),
        ),
        (
            "a pattern that looks back",
            "/pre_tokenizer",
            split("(?<=(a+)+b)\\1*"),
        ),
        ("a pattern of nothing", "/normalizer", replace("")),
        ("a pattern of any character", "/normalizer", replace(".")),
        (
            "a table of characters that is not one",
            "/normalizer",
            json!({ "type": "Precompiled", "precompiled_charsmap": "AAAA" }),
        ),
        (
            "a table of characters that is past its end",
            "/normalizer",
            json!({ "type": "Precompiled", "precompiled_charsmap": "/////////////////w==" }),
        ),
        (
            "a post-processor of tokens that are not there",
            "/post_processor",
            json!({ "type": "BertProcessing", "sep": ["s", 9], "cls": ["c", 4294967295_u64] }),
        ),
        (
            "a template of tokens that are not there",
            "/post_processor",
            json!({ "type": "TemplateProcessing", "single": [{ "SpecialToken": { "id": "Z", "type_id": 0 } }], "pair": [], "special_tokens": {} }),
        ),
        (
            "a decoder of nothing",
            "/decoder",
            json!({ "type": "Replace", "pattern": { "String": "" }, "content": "x" }),
        ),
        (
            "an added token past all ids",
            "/added_tokens",
            json!([{ "id": 4294967295_u64, "content": "z", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true }]),
        ),
        (
            "an added token of nothing",
            "/added_tokens",
            json!([{ "id": 0, "content": "", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": true }]),
        ),
        (
            "padding to a huge length",
            "/padding",
            json!({ "strategy": { "Fixed": 4294967296_u64 }, "direction": "Left", "pad_to_multiple_of": 0, "pad_id": 0, "pad_type_id": 0, "pad_token": "p" }),
        ),
        (
            "truncation to nothing",
            "/truncation",
            json!({ "direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 9 }),
        ),
        (
            "a stride past the length",
            "/truncation",
            json!({ "direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 50 }),
        ),
    ]
}

/// Returns all hostile tokenisers, each for a command that encodes and for a command that trains.
pub fn all(scene: &Path) -> Vec<Hostile> {
    let good = fs::read_to_string(scene.join("text/source.tokenizer.json")).unwrap();
    let good: Value = serde_json::from_str(&good).unwrap();
    let mut files: Vec<(String, String)> = changes()
        .into_iter()
        .map(|(what, path, value)| {
            let mut changed = good.clone();
            *changed
                .pointer_mut(path)
                .unwrap_or_else(|| panic!("{path}")) = value;
            (what.into(), changed.to_string())
        })
        .collect();
    files.extend([
        ("100,000 nested arrays".into(), nested(100_000)),
        ("a sequence of 100,000 normalisers in each other".into(), {
            let (start, end) = (r#"{"type":"Sequence","normalizers":["#, "]}");
            let deep = format!("{}{}", start.repeat(100_000), end.repeat(100_000));
            good.to_string()
                .replacen("\"normalizer\":null", &format!("\"normalizer\":{deep}"), 1)
        }),
        ("nothing".into(), String::new()),
        ("null".into(), "null".into()),
        ("NULs".into(), "\0".repeat(1000)),
    ]);
    let fit = "fit --task text --preset tiny --d-model 8 --heads 2 --layers 1 --d-ff 8 --steps 1 \
        --threads 1 --run-dir new --train pairs.tsv --valid valid.tsv";
    let commands = [
        "tokenize hostile.json",
        &format!("{fit} --tokenizer-file hostile.json"),
    ];
    let mut all = Vec::new();
    for (what, json) in files {
        for command in commands {
            // A tokeniser may still work although one of its parts is invalid.
            all.push(Hostile::new(&what, "hostile.json", json.clone(), command).or_success());
        }
    }
    all
}
