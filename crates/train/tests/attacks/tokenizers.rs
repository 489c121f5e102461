//! Hostile tokenisers: files in the format of Hugging Face with parts that are wrong, or that would
//! take all memory or time. The fuzz target `tokenizer` finds others.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::hostile::{Hostile, nested};

/// Returns changes of a trained tokeniser: a description, the JSON pointer of the changed value,
/// and the new value.
fn changes() -> Vec<(&'static str, &'static str, Value)> {
    let words =
        json!({"type": "WordLevel", "vocab": {"<unk>": u32::MAX - 1}, "unk_token": "<unk>"});
    let unigram =
        json!({"type": "Unigram", "unk_id": 9, "vocab": [["<unk>", 0.0]], "byte_fallback": false});
    let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let table = |base64: &str| json!({"type": "Precompiled", "precompiled_charsmap": base64});
    let longer = json!({"type": "Replace", "pattern": {"Regex": "x*"}, "content": "aaa"});
    let longer = json!({"type": "Sequence", "normalizers": vec![longer; 40]});
    let template = json!([{"SpecialToken": {"id": "Z", "type_id": 0}}]);
    let template =
        json!({"type": "TemplateProcessing", "single": template, "pair": [], "special_tokens": {}});
    let added = json!([{"id": u32::MAX, "content": "z", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}]);
    let padding = json!({"strategy": {"Fixed": 1_u64 << 32}, "direction": "Left", "pad_to_multiple_of": 0, "pad_id": 0, "pad_type_id": 0, "pad_token": "p"});
    vec![
        ("an unknown model", "/model/type", json!("Other")),
        ("an id of 2^32 - 2", "/model", words),
        (
            "a unigram model whose unknown id is past its end",
            "/model",
            unigram,
        ),
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
        ("a text that grows 4^40 times", "/normalizer", longer),
        ("a table that is not one", "/normalizer", table("AAAA")),
        (
            "a table past its end",
            "/normalizer",
            table("/////////////////w=="),
        ),
        (
            "a template of an undefined token",
            "/post_processor",
            template,
        ),
        ("an added token past all ids", "/added_tokens", added),
        ("padding to a huge length", "/padding", padding),
    ]
}

/// Returns all hostile tokenisers, each for a command that encodes and for a command that trains.
pub fn all(scene: &Path) -> Vec<Hostile> {
    let good = fs::read_to_string(scene.join("text/source.tokenizer.json")).unwrap();
    let good: Value = serde_json::from_str(&good).unwrap();
    let change = |(what, path, value): (&'static str, &str, Value)| {
        let mut changed = good.clone();
        *changed.pointer_mut(path).expect("it is there") = value;
        (what, changed.to_string())
    };
    let mut files: Vec<(&str, String)> = changes().into_iter().map(change).collect();
    files.extend([
        ("100,000 nested arrays", nested(100_000)),
        ("nothing", String::new()),
        ("NULs", "\0".repeat(1000)),
    ]);
    let fit = "fit --task text --preset tiny --d-model 8 --heads 2 --layers 1 --d-ff 8 --steps 1 \
        --threads 1 --run-dir new --train pairs.tsv --valid valid.tsv --tokenizer-file hostile.json";
    let mut all = Vec::new();
    for (what, json) in files {
        for command in ["tokenize hostile.json", fit] {
            // A tokeniser may still work although one of its parts is invalid.
            all.push(Hostile::new(what, "hostile.json", json.clone(), command).or_success());
        }
    }
    all
}
