//! Tokenisers of models as they are published, which are those of their classes in the library
//! `transformers`.
//!
//! A published folder has a `tokenizer.json`, to which the class may change something
//! ([`of_class`]), or other files, of which one file is made ([`packed`]): a `tokenizer.json` for the
//! library `tokenizers`, or the content that [`PieceTokenizer::parse`] reads.

mod converted;
mod template;
mod unique;
mod vocabulary;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use template::{set_end, set_language};
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
/// Files with further tokens, of early versions of the library `transformers`.
const SPECIAL: &str = "special_tokens_map.json";
const ADDED: &str = "added_tokens.json";

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
    let (config, class) = class(folder)?;
    let packed = vocabulary::packed(folder).map_err(|what| wrong(format!("has {what}")))?;
    if let Some((packed, tokenizer)) = packed {
        let added = |token: &str| {
            let id = tokenizer.id(token).filter(|&id| tokenizer.is_special(id));
            id.map(|id| (id.into(), true))
        };
        check_tokens(folder, &config, added)?;
        return Ok(packed);
    }
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
            let named = Some(class).filter(|class| !class.is_empty());
            let named = named.map_or(String::new(), |class| {
                format!(", for the tokenizer_class {class}")
            });
            return Err(wrong(format!(
                "has neither tokenizer.json nor the files of its model{named}: source.spm, target.spm \
                 and vocab.json of Marian, sentencepiece.bpe.model and vocab.json of M2M100, \
                 sentencepiece.bpe.model of mBART, or spiece.model of T5 and Pegasus; for other \
                 models, transformers writes tokenizer.json with \
                 AutoTokenizer.from_pretrained(..).save_pretrained(FOLDER)"
            )));
        }
    };
    check_tokens(folder, &config, |token| added_token(&json, token))?;
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
/// The known classes take only the vocabulary, the added tokens and the table of the normalizer from
/// `tokenizer.json`. `clean_up_tokenization_spaces` is added to the decoder. Also returns the name of a
/// class that is not known and may change more, of which nothing is done.
///
/// # Errors
///
/// If a file is not JSON, or has tokens that `tokenizer.json` does not have.
pub fn of_class(
    tokenizer: Vec<u8>,
    folder: &Path,
) -> Result<(Vec<u8>, Option<String>), FolderError> {
    if !folder.join(CONFIG).exists() {
        return Ok((tokenizer, None));
    }
    let (config, class) = class(folder)?;
    // A file that is damaged is reported when it is parsed.
    let Ok(mut json) = serde_json::from_slice::<Value>(&tokenizer) else {
        return Ok((tokenizer, None));
    };
    let wrong = |what: String| FolderError {
        path: folder.into(),
        what: format!("has {what}"),
    };
    let is_known = converted::set_parts(&class, &config, &mut json).map_err(wrong)?;
    if is_known {
        check_tokens(folder, &config, |token| added_token(&json, token))?;
    }
    let tokenizer = if clean_up(&mut json, &config) || is_known {
        serde_json::to_vec(&json).expect("it is plain data")
    } else {
        tokenizer
    };
    let is_other = !is_known && !PLAIN.contains(&&*class);
    Ok((tokenizer, is_other.then_some(class)))
}

/// The classes for which `tokenizer.json` is used as it is, without `Fast` at the end.
const PLAIN: [&str; 4] = [
    "",
    "PreTrainedTokenizer",
    "TokenizersBackend",
    "PythonBackend",
];

/// Returns the id of an added token of a `tokenizer.json`, and whether it is special.
fn added_token(json: &Value, token: &str) -> Option<(u64, bool)> {
    let added = json["added_tokens"].as_array()?;
    let found = added.iter().find(|added| added["content"] == token)?;
    Some((found["id"].as_u64()?, found["special"] == true))
}

/// The fields that name special tokens, and the names that are supported.
const ROLES: [(&str, &[&str]); 8] = [
    ("unk_token", &["<unk>"]),
    ("eos_token", &["</s>"]),
    ("pad_token", &["<pad>"]),
    ("bos_token", &["<s>"]),
    ("sep_token", &["</s>"]),
    ("cls_token", &["<s>"]),
    ("mask_token", &["<mask>", "<mask_2>"]),
    ("mask_token_sent", &["<mask_1>"]),
];

/// Checks that the tokens that the files of a folder name are those of its tokeniser. `added` returns
/// the id of an added token, and whether it is special.
fn check_tokens(
    folder: &Path,
    config: &Value,
    added: impl Fn(&str) -> Option<(u64, bool)>,
) -> Result<(), FolderError> {
    let read = |name: &str| {
        let path = folder.join(name);
        read_json(&path).map_err(|what| FolderError { path, what })
    };
    let wrong = |what: String| FolderError {
        path: folder.into(),
        what: format!("has {what}"),
    };
    let mut special = read(SPECIAL)?;
    let mut tokens: Vec<(&str, String, u64, Option<bool>)> = Vec::new();
    if let Some(list) = config["added_tokens_decoder"].as_object() {
        special = Value::Null;
        for (id, token) in list {
            let name = token_name(token).unwrap_or_default().to_owned();
            let is_special = Some(token["special"] == true);
            tokens.push((CONFIG, name, id.parse().unwrap_or(u64::MAX), is_special));
        }
    }
    if let Some(list) = read(ADDED)?.as_object() {
        for (name, id) in list {
            tokens.push((ADDED, name.clone(), id.as_u64().unwrap_or(u64::MAX), None));
        }
    }
    for (file, fields) in [(CONFIG, config), (SPECIAL, &special)] {
        for (role, names) in ROLES {
            if let Some(name) = token_name(&fields[role]).filter(|name| !names.contains(name)) {
                let names = names.join(" or ");
                let what = format!("{file}: {role} is {name}, but only {names} is supported");
                return Err(wrong(what));
            }
        }
        for field in LISTS {
            let unknown = listed(&fields[field]).find(|name| added(name).is_none());
            if let Some(name) = unknown {
                let what = format!("{file}: {field} has {name}, which the tokeniser lacks");
                return Err(wrong(what));
            }
        }
    }
    for (file, name, id, is_special) in tokens {
        let found = added(&name);
        let has_role = ROLES.iter().any(|(_, names)| names.contains(&&*name));
        let same = |found: (u64, bool)| {
            found.0 == id && is_special.is_none_or(|is| is == found.1 || has_role)
        };
        if !found.is_some_and(same) {
            let field = if file == ADDED {
                "it"
            } else {
                "added_tokens_decoder"
            };
            let what = format!("{file}: {field} has {name} with the id {id}, unlike the tokeniser");
            return Err(wrong(what));
        }
    }
    Ok(())
}

/// The fields that list further special tokens.
const LISTS: [&str; 2] = ["additional_special_tokens", "extra_special_tokens"];

/// Returns the tokens of a field in [`LISTS`].
fn listed(field: &Value) -> impl Iterator<Item = &str> {
    let list = field.as_array().into_iter().flatten();
    let named = field
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.values());
    list.chain(named).filter_map(token_name)
}

/// Returns the name of a token that is given by its name or with its properties.
fn token_name(token: &Value) -> Option<&str> {
    token.as_str().or(token["content"].as_str())
}

/// Adds `clean_up_tokenization_spaces` to the decoder of a `tokenizer.json`, if `config` has it.
/// Returns whether it was added: for BPE, it is ignored unless another field insists.
fn clean_up(json: &mut Value, config: &Value) -> bool {
    let insists = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output";
    let cleans = config["clean_up_tokenization_spaces"] == true
        && (json["model"]["type"] != "BPE" || config[insists] == true);
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
    fn classes_that_are_not_known_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = br#"{"model": {"type": "WordLevel", "vocab": {}}}"#;
        for (class, expected) in [
            ("LlamaTokenizerFast", Some("LlamaTokenizer")),
            ("FooTokenizer", Some("FooTokenizer")),
            // The model does not go with this class.
            ("T5Tokenizer", Some("T5Tokenizer")),
            ("PreTrainedTokenizerFast", None),
            ("TokenizersBackend", None),
        ] {
            let config = format!(r#"{{"tokenizer_class": "{class}"}}"#);
            fs::write(folder.path().join(CONFIG), config).unwrap();
            let (json, unknown) = of_class(tokenizer.to_vec(), folder.path()).unwrap();
            assert_eq!((&json[..], unknown.as_deref()), (&tokenizer[..], expected));
        }
    }

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
