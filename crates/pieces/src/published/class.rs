//! The tokeniser classes of the library `transformers`: their files, and what they have in common.

use serde_json::{Value, json};

/// Returns the name of the SentencePiece file of a class; `None` for an unknown one.
pub(super) fn file_of(class: &str) -> Option<&'static str> {
    match class {
        "T5Tokenizer" | "MT5Tokenizer" | "PegasusTokenizer" => Some("spiece.model"),
        "MBartTokenizer" | "MBart50Tokenizer" | "NllbTokenizer" => Some("sentencepiece.bpe.model"),
        _ => None,
    }
}

/// Returns the names of the files of a class, one of which is missing; `None` for an unknown one.
pub(super) fn files_of(class: &str) -> Option<&'static str> {
    match class {
        "MarianTokenizer" => Some("source.spm, target.spm and vocab.json"),
        "M2M100Tokenizer" => Some("sentencepiece.bpe.model and vocab.json"),
        _ if is_bart(class) => Some("vocab.json and merges.txt"),
        _ => file_of(class),
    }
}

/// Returns the name of a class without the model that it is named after.
pub(super) fn plain(class: &str) -> String {
    class.replace("Roberta", "Bart").replace("MT5", "T5")
}

/// Returns whether a class is BART's.
pub(super) fn is_bart(class: &str) -> bool {
    plain(class) == "BartTokenizer"
}

/// Returns whether a class is known, and has the kind of model that a `tokenizer.json` has.
pub(super) fn is_known(class: &str, json: &Value) -> bool {
    let kind = match &*plain(class) {
        "NllbTokenizer" | "BartTokenizer" => "BPE",
        "T5Tokenizer" | "PegasusTokenizer" | "MBartTokenizer" | "MBart50Tokenizer" => "Unigram",
        _ => return false,
    };
    json["model"]["type"] == kind
}

/// Returns a special token with the properties that a class gives it.
pub(super) fn added(class: &str, id: usize, name: &str) -> Value {
    let takes_both = class == "ByT5Tokenizer" && ["<pad>", "</s>", "<unk>"].contains(&name);
    let takes_left = name == "<mask>" && file_of(class) == Some("sentencepiece.bpe.model");
    json!({
        "id": id, "content": name, "special": true, "single_word": false,
        "lstrip": takes_both || takes_left, "rstrip": takes_both,
        "normalized": takes_left && class == "NllbTokenizer",
    })
}
