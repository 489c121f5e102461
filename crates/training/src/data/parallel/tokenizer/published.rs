//! The tokeniser of a published folder, as its class in the library `transformers` makes it.

use std::path::Path;

use pieces::SentencePiece;
use serde_json::{Value, json};

use super::converted;
use super::sentencepiece::{self, CLEANED};
use super::template::is_language;
use crate::error::UsageError;
use crate::files::read_regular;

/// The file that names the class and its settings, and that of the model, which may name it, too.
const CONFIG: &str = "tokenizer_config.json";
const MODEL: &str = "config.json";

/// Maximum size of that file in MiB.
const LARGEST: u64 = 64;

/// Returns the content of one file with the tokeniser of a folder that has no `tokenizer.json`.
///
/// # Errors
///
/// If the folder has no tokeniser of a known class, or has a file that cannot be used.
pub(super) fn packed(folder: &Path) -> Result<Vec<u8>, UsageError> {
    let wrong = |what: String| UsageError::new("tokeniser", folder.display(), what);
    let packed = sentencepiece::packed(folder).map_err(|what| wrong(format!("has {what}")))?;
    if let Some(packed) = packed {
        return Ok(packed);
    }
    let (config, class) = class(folder)?;
    let mut json = match converted::file_of(&class) {
        Some(name) if folder.join(name).exists() => {
            let model = SentencePiece::open(folder.join(name));
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
fn class(folder: &Path) -> Result<(Value, String), UsageError> {
    let read = |name: &str| {
        let path = folder.join(name);
        let wrong = |what: String| UsageError::new("tokeniser", path.display(), what);
        if !path.exists() {
            return Ok(Value::Null);
        }
        let json = read_regular(&path, LARGEST);
        let json = json.map_err(|error| wrong(format!("cannot be read ({error})")))?;
        serde_json::from_slice(&json).map_err(|error| wrong(format!("is damaged ({error})")))
    };
    let (config, model) = (read(CONFIG)?, read(MODEL)?);
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
pub(super) fn of_class(tokenizer: Vec<u8>, folder: &Path) -> Result<Vec<u8>, UsageError> {
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
