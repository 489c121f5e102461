//! Tokenisers of models as they are published, which are those of their classes in the library
//! `transformers`.
//!
//! Of a published folder, [`tokenizer_of`] makes one file: its `tokenizer.json`, to which the class may
//! change something, or one made of other files for the library `tokenizers`, or the content that
//! [`PieceTokenizer::parse`] reads.

mod added;
mod class;
mod converted;
mod template;
mod unique;
mod vocabulary;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use template::{language_of, set_end, set_language};
pub use vocabulary::{PieceTokenizer, Side, unpacked};

use crate::SentencePiece;
use added::{LISTS, added_token, check_tokens, is_role, listed, set_tokens};
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

/// The file of the library `tokenizers`.
const TOKENIZER: &str = "tokenizer.json";
/// The file that names the class and its settings, and that of the model, which may name it, too.
const CONFIG: &str = "tokenizer_config.json";
const MODEL: &str = "config.json";
/// Files with further tokens, of early versions of the library `transformers`.
const SPECIAL: &str = "special_tokens_map.json";
const ADDED: &str = "added_tokens.json";
/// The files of a byte-level tokeniser, such as BART's.
const VOCAB: &str = "vocab.json";
const MERGES: &str = "merges.txt";

/// Maximum size of a file in bytes.
const LARGEST: u64 = 512 << 20;

/// Returns the content of one file with the tokeniser of a folder. Also returns the name of a class that
/// is not known and may change more than was done.
///
/// Marian and M2M100 have SentencePiece files, beside which `tokenizer.json` is not read, as in
/// `transformers`.
///
/// # Errors
///
/// If the folder has no tokeniser of a known class, or has a file that cannot be used.
pub fn tokenizer_of(folder: &Path) -> Result<(Vec<u8>, Option<String>), FolderError> {
    let path = folder.join(TOKENIZER);
    let (_, class) = class(folder)?;
    if !path.exists() || vocabulary::is_class(&class) && vocabulary::has_files(folder) {
        return Ok((packed(folder)?, None));
    }
    let json = read(&path).map_err(|what| FolderError { path, what })?;
    of_class(json, folder)
}

/// Returns the content of one file with the tokeniser of a folder that has other files than
/// `tokenizer.json`.
fn packed(folder: &Path) -> Result<Vec<u8>, FolderError> {
    let wrong = |what: String| FolderError {
        path: folder.into(),
        what,
    };
    let (config, class) = class(folder)?;
    let packed = vocabulary::packed(folder).map_err(|what| wrong(format!("has {what}")))?;
    if let Some((packed, tokenizer)) = packed {
        // A language of Marian is a token that is not special.
        let added = |token: &str| {
            let id = tokenizer.id(token)?;
            let is_special = tokenizer.is_special(id);
            (is_special || token.starts_with(">>")).then(|| (id.into(), is_special))
        };
        check_tokens(folder, &config, added)?;
        return Ok(packed);
    }
    let named = |name: &str, what: String| wrong(format!("has {name}: {what}"));
    let file = |name: &str| read(&folder.join(name)).map_err(|what| named(name, what));
    let has = |name: &str| folder.join(name).exists();
    let mut json = match class::file_of(&class) {
        Some(name) if has(name) => {
            let model = SentencePiece::from_bytes(&file(name)?);
            let model = model.map_err(|error| named(name, error.to_string()))?;
            converted::of_pieces(&class, &model, &config)
        }
        None if class == "ByT5Tokenizer" => converted::of_bytes(&config),
        None if class::is_bart(&class) && has(VOCAB) && has(MERGES) => {
            let vocab = serde_json::from_slice(&file(VOCAB)?);
            let vocab = vocab.map_err(|error| named(VOCAB, error.to_string()))?;
            let merges = String::from_utf8_lossy(&file(MERGES)?).into_owned();
            let json = converted::of_merges(vocab, &merges);
            json.map_err(|what| named(MERGES, what))?
        }
        _ => {
            let what = match class::files_of(&class) {
                Some(files) => format!("has neither tokenizer.json nor {files} of its {class}"),
                None => {
                    "has no tokenizer.json: for its tokenizer_class, transformers writes one with \
                     AutoTokenizer.from_pretrained(..).save_pretrained(FOLDER)"
                        .into()
                }
            };
            return Err(wrong(what));
        }
    };
    set_tokens(folder, &class, &config, false, &mut json)?;
    if class::is_known(&class, &json) {
        let set = converted::set_parts(&class, &config, &mut json);
        set.map_err(|what| wrong(format!("has {what}")))?;
    }
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
            Some("bart") => "BartTokenizer",
            Some("marian") => "MarianTokenizer",
            Some("m2m_100") => "M2M100Tokenizer",
            _ => "",
        });
    let class = class.trim_end_matches("Fast").to_owned();
    if config["split_special_tokens"] == true {
        return Err(FolderError {
            path: folder.join(CONFIG),
            what: "has split_special_tokens true, but only false is supported".into(),
        });
    }
    Ok((config, class))
}

/// Returns the `tokenizer.json` of a folder with what the class and settings in
/// `tokenizer_config.json` change, if there is one.
///
/// The known classes take only the vocabulary, the added tokens and the table of the normalizer from
/// `tokenizer.json`. `clean_up_tokenization_spaces` is added to the decoder. Also returns the name of a
/// class that is not known, of which nothing is done.
fn of_class(tokenizer: Vec<u8>, folder: &Path) -> Result<(Vec<u8>, Option<String>), FolderError> {
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
    let is_known = class::is_known(&class, &json);
    if is_known {
        set_tokens(folder, &class, &config, true, &mut json)?;
        converted::set_parts(&class, &config, &mut json).map_err(wrong)?;
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
    fn files_that_do_not_go_together_are_named() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR"));
        let fixtures = fixtures.join("../training/tests/fixtures/published");
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        let error = || tokenizer_of(folder.path()).unwrap_err().what;
        write(CONFIG, br#"{"tokenizer_class": "T5Tokenizer"}"#);
        let expected = "has neither tokenizer.json nor spiece.model of its T5Tokenizer";
        assert_eq!(error(), expected);
        write(CONFIG, b"{}");
        write("target.spm", b"");
        assert_eq!(error(), "has target.spm, but no source.spm");
        fs::remove_file(folder.path().join("target.spm")).unwrap();
        write("source.spm", b"");
        assert_eq!(error(), "has source.spm, but no target.spm");
        fs::remove_file(folder.path().join("source.spm")).unwrap();

        // The languages of M2M100 follow the vocabulary, here before its last token.
        let spm = "sentencepiece.bpe.model";
        write(spm, &fs::read(fixtures.join("m2m_100").join(spm)).unwrap());
        let vocab = fs::read_to_string(fixtures.join("m2m_100").join(VOCAB)).unwrap();
        write(VOCAB, vocab.replacen(", \"j\": 121", "", 1).as_bytes());
        let expected = "has vocab.json: __af__ and q both have the id 122";
        assert_eq!(error(), expected);
        write(CONFIG, br#"{"src_lang": "__de__"}"#);
        let expected =
            "has tokenizer_config.json: src_lang is \"__de__\", but must be a code such as \"en\"";
        assert_eq!(error(), expected);

        write(CONFIG, br#"{"tokenizer_class": "NllbTokenizer"}"#);
        fs::remove_file(folder.path().join(VOCAB)).unwrap();
        assert_eq!(error(), "has no token of the language eng_Latn");
        write(CONFIG, br#"{"tokenizer_class": "BartTokenizer"}"#);
        write(VOCAB, br#"{"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}"#);
        fs::remove_file(folder.path().join(spm)).unwrap();
        write(MERGES, b"#version: 0.2\na b c\n");
        assert_eq!(error(), "has merges.txt: line 2 is no pair of tokens");
    }

    #[test]
    fn marian_does_not_read_a_tokenizer_json() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR"));
        let fixtures = fixtures.join("../training/tests/fixtures/published/marian");
        let folder = tempfile::tempdir().unwrap();
        for file in [CONFIG, MODEL, "source.spm", "target.spm", VOCAB] {
            fs::copy(fixtures.join(file), folder.path().join(file)).unwrap();
        }
        let packed = tokenizer_of(folder.path()).unwrap();
        fs::write(folder.path().join(TOKENIZER), "{}").unwrap();
        assert_eq!(tokenizer_of(folder.path()).unwrap(), packed);
        // Its class may be that of the model.
        fs::remove_file(folder.path().join(CONFIG)).unwrap();
        assert_eq!(tokenizer_of(folder.path()).unwrap(), packed);
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
