//! The tokeniser of a published folder, as its class in the library `transformers` makes it.

use std::path::Path;

use serde_json::{Value, json};

use super::sentencepiece::{self, CLEANED};
use super::template::is_language;
use crate::error::UsageError;
use crate::files::read_regular;

/// The file that names the class and its settings.
const CONFIG: &str = "tokenizer_config.json";

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
    packed.ok_or_else(|| {
        wrong(
            "has neither tokenizer.json nor the files of Marian (source.spm, target.spm, vocab.json) \
             or M2M100 (sentencepiece.bpe.model, vocab.json); for other models, transformers writes \
             tokenizer.json with AutoTokenizer.from_pretrained(..).save_pretrained(FOLDER)"
                .into(),
        )
    })
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
    let path = folder.join(CONFIG);
    if !path.exists() {
        return Ok(tokenizer);
    }
    let wrong = |what: String| UsageError::new("tokeniser", path.display(), what);
    let config = read_regular(&path, LARGEST);
    let config = config.map_err(|error| wrong(format!("cannot be read ({error})")))?;
    let config: Value =
        serde_json::from_slice(&config).map_err(|error| wrong(format!("is damaged ({error})")))?;
    let class = config["tokenizer_class"].as_str().unwrap_or_default();
    let is_first = match class.trim_end_matches("Fast") {
        "NllbTokenizer" => Some(config["legacy_behaviour"] != true),
        "MBart50Tokenizer" => Some(true),
        "MBartTokenizer" => Some(false),
        _ => None,
    };
    let cleans = config["clean_up_tokenization_spaces"] == true;
    // A file that is damaged is reported when it is parsed.
    let Ok(mut json) = serde_json::from_slice::<Value>(&tokenizer) else {
        return Ok(tokenizer);
    };
    let cleans = cleans && json["model"]["type"] != "BPE";
    let moved = is_first.is_some_and(|is_first| place_language(&mut json, is_first));
    if cleans {
        let replace =
            |(from, to)| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
        let decoder = json["decoder"].take();
        let mut decoders = vec![decoder, json!({"type": "Fuse"})];
        decoders.retain(|decoder| !decoder.is_null());
        decoders.extend(CLEANED.map(replace));
        json["decoder"] = json!({"type": "Sequence", "decoders": decoders});
    }
    if moved || cleans {
        return Ok(serde_json::to_vec(&json).expect("it is plain data"));
    }
    Ok(tokenizer)
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
