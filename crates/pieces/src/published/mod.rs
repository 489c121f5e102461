//! Tokenisers of models as they are published, which are those of their classes in the library
//! `transformers`.
//!
//! A published folder has a `tokenizer.json`, to which the class may change something
//! ([`of_class`]), or other files, of which one file is made ([`packed`]): a `tokenizer.json` for the
//! library `tokenizers`, or the content that [`PieceTokenizer::parse`] reads.

mod converted;
mod vocabulary;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use vocabulary::{PieceTokenizer, Side, unpacked};

use crate::SentencePiece;
use vocabulary::CLEANED;

/// Why the tokeniser of a folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} {what}", path.display())]
pub struct FolderError {
    /// The folder, or a file of it.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

/// The file that names the class and its settings, and that of the model, which may name it, too.
const CONFIG: &str = "tokenizer_config.json";
const MODEL: &str = "config.json";

/// Maximum size of a file in bytes.
const LARGEST: u64 = 512 << 20;

/// Returns the content of one file with the tokeniser of a folder that has no `tokenizer.json`.
///
/// # Errors
///
/// If the folder has no tokeniser of a known class, or has a file that cannot be used.
pub fn packed(folder: &Path) -> Result<Vec<u8>, FolderError> {
    let wrong = |what: String| FolderError {
        path: folder.into(),
        what,
    };
    let packed = vocabulary::packed(folder).map_err(|what| wrong(format!("has {what}")))?;
    if let Some(packed) = packed {
        return Ok(packed);
    }
    let (config, class) = class(folder)?;
    let mut json = match converted::file_of(&class) {
        Some(name) if folder.join(name).exists() => {
            let model = read(&folder.join(name)).and_then(|bytes| {
                SentencePiece::from_bytes(&bytes).map_err(|error| error.to_string())
            });
            let model = model.map_err(|error| wrong(format!("has {name}: {error}")))?;
            converted::of_unigram(&class, &model, &config)
        }
        None if class == "ByT5Tokenizer" => converted::of_bytes(&config),
        _ => {
            return Err(wrong(
                "has neither tokenizer.json nor the files of its model: source.spm, target.spm and \
                 vocab.json of Marian, sentencepiece.bpe.model and vocab.json of M2M100, \
                 sentencepiece.bpe.model of mBART, or spiece.model of T5 and Pegasus; for other \
                 models, transformers writes tokenizer.json with \
                 AutoTokenizer.from_pretrained(..).save_pretrained(FOLDER)"
                    .into(),
            ));
        }
    };
    clean_up(&mut json, &config);
    Ok(serde_json::to_vec(&json).expect("it is plain data"))
}

/// Returns the content of `tokenizer_config.json`, which may be missing, and the class of the
/// tokeniser, which `config.json` may name instead, without `Fast` at its end.
fn class(folder: &Path) -> Result<(Value, String), FolderError> {
    let json = |name: &str| {
        let path = folder.join(name);
        let json = read_json(&path);
        json.map_err(|what| FolderError { path, what })
    };
    let (config, model) = (json(CONFIG)?, json(MODEL)?);
    let named = [&config, &model].map(|file| file["tokenizer_class"].as_str());
    let class = named[0]
        .or(named[1])
        .unwrap_or(match model["model_type"].as_str() {
            Some("t5" | "mt5") => "T5Tokenizer",
            Some("mbart") => "MBartTokenizer",
            Some("pegasus") => "PegasusTokenizer",
            _ => "",
        });
    let class = class.trim_end_matches("Fast").to_owned();
    Ok((config, class))
}

/// Returns the `tokenizer.json` of a folder with what the class and settings in
/// `tokenizer_config.json` change, if there is one.
///
/// The classes of NLLB and mBART-50 put the language before a text and that of mBART after it,
/// whatever the template in the file says. `clean_up_tokenization_spaces` is added to the decoder,
/// except of BPE, for which it is ignored.
///
/// # Errors
///
/// If a file is not JSON.
pub fn of_class(tokenizer: Vec<u8>, folder: &Path) -> Result<Vec<u8>, FolderError> {
    if !folder.join(CONFIG).exists() {
        return Ok(tokenizer);
    }
    let (config, class) = class(folder)?;
    let is_first = match &*class {
        "NllbTokenizer" => Some(config["legacy_behaviour"] != true),
        "MBart50Tokenizer" => Some(true),
        "MBartTokenizer" => Some(false),
        _ => None,
    };
    // A file that is damaged is reported when it is parsed.
    let Ok(mut json) = serde_json::from_slice::<Value>(&tokenizer) else {
        return Ok(tokenizer);
    };
    let moved = is_first.is_some_and(|is_first| place_language(&mut json, is_first));
    if clean_up(&mut json, &config) || moved {
        return Ok(serde_json::to_vec(&json).expect("it is plain data"));
    }
    Ok(tokenizer)
}

/// Adds `clean_up_tokenization_spaces` to the decoder of a `tokenizer.json`, if `config` has it.
/// Returns whether it was added: it is ignored for BPE.
fn clean_up(json: &mut Value, config: &Value) -> bool {
    let cleans = config["clean_up_tokenization_spaces"] == true && json["model"]["type"] != "BPE";
    if cleans {
        let replace =
            |(from, to)| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
        let decoder = json["decoder"].take();
        let mut decoders = vec![decoder, json!({"type": "Fuse"})];
        decoders.retain(|decoder| !decoder.is_null());
        decoders.extend(CLEANED.map(replace));
        json["decoder"] = json!({"type": "Sequence", "decoders": decoders});
    }
    cleans
}

/// Moves the language in the template of a `tokenizer.json` before the text, or to the end. Returns
/// whether it was elsewhere.
fn place_language(json: &mut Value, is_first: bool) -> bool {
    let Some(single) = json["post_processor"]["single"].as_array_mut() else {
        return false;
    };
    let names = |part: &Value| part["SpecialToken"]["id"].as_str().is_some_and(is_language);
    let Some(place) = single.iter().position(names) else {
        return false;
    };
    let wanted = if is_first { 0 } else { single.len() - 1 };
    let language = single.remove(place);
    single.insert(wanted, language);
    place != wanted
}

/// Returns whether a token names a language: `eng_Latn`, `en_XX`, or `__en__`.
pub fn is_language(token: &str) -> bool {
    let is_code = |code: &str| {
        (2..=3).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    if let Some(code) = token.strip_prefix("__") {
        return code.strip_suffix("__").is_some_and(is_code);
    }
    token.split_once('_').is_some_and(|(code, script)| {
        let letters = script.bytes().all(|byte| byte.is_ascii_alphabetic());
        let is_script = script.starts_with(|c: char| c.is_ascii_uppercase());
        is_code(code) && letters && is_script && (2..=4).contains(&script.len())
    })
}

/// Reads a regular file.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let wrong = |error: std::io::Error| format!("cannot be read ({error})");
    let about = fs::metadata(path).map_err(wrong)?;
    if !about.is_file() || about.len() > LARGEST {
        return Err("cannot be read (it is no file, or has more than 512 MiB)".into());
    }
    fs::read(path).map_err(wrong)
}

/// Reads a file of JSON; a file that is missing is null.
fn read_json(path: &Path) -> Result<Value, String> {
    if !path.exists() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&read(path)?).map_err(|error| format!("is damaged ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_languages_are_recognised() {
        for token in [
            "eng_Latn", "zho_Hans", "en_XX", "gl_ES", "__de__", "__ceb__",
        ] {
            assert!(is_language(token), "{token}");
        }
        for token in [
            "en",
            "<s>",
            "a_b",
            "__",
            "eng_latn",
            "snake_case",
            "x_Y",
            "____",
        ] {
            assert!(!is_language(token), "{token}");
        }
    }
}
