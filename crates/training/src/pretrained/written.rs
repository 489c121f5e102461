//! Writes the files of a Hugging Face folder other than its weights.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use transformer::generate::{EarlyStopping, LengthPenalty};
use transformer::weights::{Layout, hugging_face_config};

use crate::config::RunConfig;
use crate::data::parallel::is_language;
use crate::data::{Codec, DataConfig, SearchDefaults, Vocabularies};
use crate::files::write_whole;

/// Data from which [`write_folder`] makes the files of a folder.
pub struct FolderFiles<'a> {
    /// Settings of the run.
    pub config: &'a RunConfig,
    /// Layout of the weights.
    pub layout: Layout,
    /// Codec of the run's data set, with the model's vocabularies.
    pub codec: &'a dyn Codec,
    /// Content of the pretrained model's `tokenizer.json`; `None` for a model without one.
    pub tokenizer: Option<&'a [u8]>,
}

/// Writes `config.json` and `generation_config.json` and, if `files.tokenizer` is given,
/// `tokenizer.json` and `tokenizer_config.json`. Returns the names of the files. Writes nothing and
/// returns `None` if Hugging Face has no model family for the layout.
///
/// # Errors
///
/// If the tokeniser is not valid JSON, or if a file cannot be written.
pub fn write_folder(folder: &Path, files: &FolderFiles<'_>) -> Result<Option<Vec<&'static str>>> {
    let FolderFiles {
        config,
        layout,
        codec,
        tokenizer,
    } = files;
    let vocabularies = codec.vocabularies();
    let Some(mut fields) = hugging_face_config(&config.model, *layout) else {
        return Ok(None);
    };
    let tokens = tokens(&vocabularies);
    fields.extend(tokens.clone());
    fields.insert("architectures".into(), json!([class_of(&fields)]));
    let mut generation = tokens;
    if let DataConfig::Text(text) = &config.data
        && let Some(model) = &text.pretrained
    {
        generation.extend(of_search(&model.search));
        if model.search.force_end {
            generation.insert("forced_eos_token_id".into(), model.end_id.into());
        }
    }
    let mut written = vec!["config.json", "generation_config.json"];
    let json = |fields: &Map<String, Value>| {
        serde_json::to_vec_pretty(fields).expect("fields are plain data")
    };
    let mut files = vec![json(&fields), json(&generation)];
    if let Some(tokenizer) = tokenizer {
        written.push("tokenizer.json");
        files.push(with_language(tokenizer, *codec, config)?);
        // Other tokeniser classes of the library `transformers` would read files that are not
        // written here.
        let mut settings =
            Map::from_iter([("tokenizer_class".into(), json!("PreTrainedTokenizerFast"))]);
        let names = [
            ("pad_token", Some(vocabularies.pad_ids.target)),
            ("eos_token", vocabularies.eos_id),
        ];
        for (name, id) in names {
            if let Some(token) = id.map(|id| codec.target_token(id)) {
                settings.insert(name.into(), json!(token));
            }
        }
        written.push("tokenizer_config.json");
        files.push(json(&settings));
    }
    for (name, bytes) in written.iter().zip(&files) {
        let path = folder.join(name);
        let done = write_whole(&path, bytes);
        done.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Some(written))
}

/// Returns the model class of the library `transformers` for a `config.json`.
fn class_of(fields: &Map<String, Value>) -> &'static str {
    match fields["model_type"].as_str() {
        Some("t5") => "T5ForConditionalGeneration",
        Some("bart") => "BartForConditionalGeneration",
        Some("mbart") => "MBartForConditionalGeneration",
        Some("m2m_100") => "M2M100ForConditionalGeneration",
        Some("pegasus") => "PegasusForConditionalGeneration",
        _ => "MarianMTModel",
    }
}

fn tokens(vocabularies: &Vocabularies) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |name: &str, id: u32| fields.insert(name.into(), id.into());
    set("decoder_start_token_id", vocabularies.bos_id);
    set("pad_token_id", vocabularies.pad_ids.target);
    vocabularies.eos_id.map(|id| set("eos_token_id", id));
    fields
}

/// Returns a `tokenizer.json` in whose template the run's source language replaces the original
/// one. Without a source language, the file is unchanged.
fn with_language(tokenizer: &[u8], codec: &dyn Codec, config: &RunConfig) -> Result<Vec<u8>> {
    let DataConfig::Text(text) = &config.data else {
        return Ok(tokenizer.to_vec());
    };
    let language = text
        .pretrained
        .as_ref()
        .and_then(|model| model.source_language.as_ref());
    let Some(language) = language else {
        return Ok(tokenizer.to_vec());
    };
    let mut json: Value = serde_json::from_slice(tokenizer).context("tokenizer.json is damaged")?;
    if let Some(template) = json.get_mut("post_processor") {
        replace_language(template, language, codec.target_id(language).ok());
    }
    serde_json::to_vec(&json).context("a tokeniser is plain data")
}

/// Replaces each name of a language in a part of a `tokenizer.json` by `language`, and the token id
/// beside the name by `id`.
fn replace_language(part: &mut Value, language: &str, id: Option<u32>) {
    match part {
        Value::Array(parts) => {
            for part in parts {
                replace_language(part, language, id);
            }
        }
        Value::Object(fields) => {
            let names: Vec<String> = fields
                .keys()
                .filter(|name| is_language(name))
                .cloned()
                .collect();
            for name in names {
                // This is an entry of `special_tokens`, which has the ids of the token.
                if let Some(mut entry) = fields.remove(&name) {
                    if let (Some(ids), Some(id)) = (entry.get_mut("ids"), id) {
                        *ids = json!([id]);
                    }
                    replace_language(&mut entry, language, id);
                    fields.insert(language.into(), entry);
                }
            }
            for part in fields.values_mut() {
                replace_language(part, language, id);
            }
        }
        Value::String(name) if is_language(name) => *name = language.into(),
        _ => {}
    }
}

/// Returns generation settings in the format of `generation_config.json`.
fn of_search(search: &SearchDefaults) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.into(), value);
    if let Some((width, penalty)) = search.beam {
        set("num_beams", width.into());
        if let LengthPenalty::Power { alpha } = penalty {
            set("length_penalty", alpha.into());
        }
    }
    if let [first] = search.prefix[..] {
        set("forced_bos_token_id", first.into());
    }
    if !search.forbidden.is_empty() {
        set("suppress_tokens", json!(search.forbidden));
    }
    if search.no_repeat_ngram > 0 {
        set("no_repeat_ngram_size", search.no_repeat_ngram.into());
    }
    if let Some(penalty) = search.repetition_penalty.filter(|&penalty| penalty != 1.0) {
        set("repetition_penalty", penalty.into());
    }
    if search.min_length > 0 {
        // `min_length` counts the start token, as `max_length` does.
        set("min_length", (search.min_length + 1).into());
    }
    if let Some(most) = search.max_length {
        set("max_length", (most + 1).into());
    }
    let early_stopping = match search.early_stopping {
        EarlyStopping::Heuristic => json!(false),
        EarlyStopping::Full => json!(true),
        EarlyStopping::Never => json!("never"),
    };
    set("early_stopping", early_stopping);
    if !search.normalize_first {
        set("renormalize_logits", true.into());
    }
    fields
}
