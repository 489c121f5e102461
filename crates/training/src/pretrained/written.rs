//! Writes the files of a Hugging Face folder other than its weights.

use std::path::Path;

use anyhow::{Context, Result};
use pieces::published::{is_language, language_of, set_end, set_language, unpacked};
use serde_json::{Map, Value};
use transformer::weights::{Layout, hugging_face_config, hugging_face_generation};

use crate::config::RunConfig;
use crate::data::parallel::tokenizer::{BOS, UNK};
use crate::data::{Codec, DataConfig, Dataset};
use crate::error::UsageError;
use crate::files::write_whole;

/// Files that readers of a folder take beside `config.json`, or instead of `tokenizer.json` and
/// `model.safetensors`.
const READ: &str = "added_tokens.json merges.txt model.safetensors.index.json pytorch_model.bin \
    sentencepiece.bpe.model source.spm special_tokens_map.json spiece.model target.spm \
    target_vocab.json tokenizer.json tokenizer_config.json vocab.json";

/// Writes the files of a Hugging Face folder other than its weights: `config.json`,
/// `generation_config.json` and, if `tokenizer` is given, `tokenizer.json` and
/// `tokenizer_config.json`. Returns the names of the files. Writes nothing and returns `None` if
/// Hugging Face has no model family for the layout.
///
/// `config` and `dataset` are those of the run. `tokenizer` is the content of its `tokenizer.json`.
///
/// # Errors
///
/// If the tokeniser is not valid JSON, if a file cannot be written, or if the folder has a file of
/// another model that readers would take.
pub fn write_folder(
    folder: &Path,
    layout: Layout,
    config: &RunConfig,
    dataset: &dyn Dataset,
    tokenizer: Option<&[u8]>,
) -> Result<Option<Vec<&'static str>>> {
    let Some(mut fields) = hugging_face_config(&config.model, layout) else {
        return Ok(None);
    };
    let codec = dataset.codec();
    let mut search = dataset.search();
    let model = match &config.data {
        DataConfig::Text(text) => text.pretrained.as_ref(),
        _ => None,
    };
    // Without a maximum, the library `transformers` ends each output after 20 tokens.
    search.max_length.get_or_insert(dataset.limits().target - 1);
    let mut generation = hugging_face_generation(&search);
    for name in ["decoder_start_token_id", "eos_token_id"] {
        fields.extend(generation.get(name).map(|id| (name.into(), id.clone())));
    }
    generation.insert("pad_token_id".into(), fields["pad_token_id"].clone());
    let json = |fields: &Map<String, Value>| {
        serde_json::to_vec_pretty(fields).expect("fields are plain data")
    };
    let mut files = vec![
        ("config.json", json(&fields)),
        ("generation_config.json", json(&generation)),
    ];
    let language = model.and_then(|model| model.source_language.as_deref());
    if let Some(pieces) = tokenizer.and_then(|json| unpacked(json, language)) {
        files.extend(pieces);
    } else if let Some(tokenizer) = tokenizer {
        let mut own = serde_json::from_slice(tokenizer).context("tokenizer.json is damaged")?;
        let is_changed = set_template(&mut own, codec, model.is_none(), language)?;
        let mut settings = class_of(&mut own, layout);
        let target = search.prefix.iter().chain(&search.bos_id);
        let mut target = target.map(|&id| codec.target_token(id));
        if settings.contains_key("src_lang") {
            settings.extend(
                target
                    .find(|name| is_language(name))
                    .map(|name| ("tgt_lang".into(), name.into())),
            );
        }
        settings.extend(named("bos_token", &own, &BOS));
        settings.extend(named("unk_token", &own, &UNK));
        let own = serde_json::to_vec(&own).expect("it is plain data");
        let own = if is_changed { own } else { tokenizer.into() };
        files.push(("tokenizer.json", own));
        let vocabularies = codec.vocabularies();
        let pad_id = Some(vocabularies.pad_ids.target);
        for (name, id) in [("pad_token", pad_id), ("eos_token", vocabularies.eos_id)] {
            let token = id.map(|id| (name.into(), codec.target_token(id).into()));
            settings.extend(token);
        }
        files.push(("tokenizer_config.json", json(&settings)));
    }
    let is_written = |name: &str| files.iter().any(|(written, _)| *written == name);
    let is_left = |name: &&str| folder.join(name).exists() && !is_written(name);
    if let Some(name) = READ.split_whitespace().find(is_left) {
        let what = format!("has the file {name}, with which this model would be read; remove it");
        return Err(UsageError::new("folder", folder.display(), what).into());
    }
    for (name, bytes) in &files {
        let path = folder.join(name);
        let done = write_whole(&path, bytes);
        done.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Some(files.into_iter().map(|(name, _)| name).collect()))
}

/// Returns the class of a tokeniser, and the language of its sources if it has one. Classes of the
/// library `transformers` that have none take a `tokenizer.json` as it is.
fn class_of(tokenizer: &mut Value, layout: Layout) -> Map<String, Value> {
    let language = language_of(tokenizer);
    let kind = tokenizer["model"]["type"].as_str().unwrap_or_default();
    let (class, language) = match (layout, kind, language) {
        (Layout::M2m100, "BPE", Some((language, _))) => ("NllbTokenizer", Some(language)),
        (Layout::Bart, "Unigram", Some((language, true))) => ("MBart50Tokenizer", Some(language)),
        (Layout::Bart, "Unigram", Some((language, false))) => ("MBartTokenizer", Some(language)),
        _ => ("PreTrainedTokenizerFast", None),
    };
    let language = language.map(|language| ("src_lang".into(), language.into()));
    [("tokenizer_class".into(), class.into())]
        .into_iter()
        .chain(language)
        .collect()
}

/// Returns the setting for the first of `names` that a `tokenizer.json` has as a special token. Without
/// it, CTranslate2 cannot load what it has converted.
fn named(setting: &str, tokenizer: &Value, names: &[&str]) -> Option<(String, Value)> {
    let added = tokenizer["added_tokens"].as_array()?;
    let has = |name: &&&str| added.iter().any(|token| token["content"] == ***name);
    let name = names.iter().find(has)?;
    Some((setting.into(), (*name).into()))
}

/// Gives a `tokenizer.json` the run's template of special tokens. That of a pretrained model has the
/// run's source language. Any other ends each text. Returns whether the file has changed.
fn set_template(
    tokenizer: &mut Value,
    codec: &dyn Codec,
    is_own: bool,
    language: Option<&str>,
) -> Result<bool> {
    match (language, codec.vocabularies().eos_id) {
        (Some(language), _) => set_language(tokenizer, language, codec.target_id(language)?),
        (None, Some(id)) if is_own => set_end(tokenizer, &codec.target_token(id), id),
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokenisers_with_languages_have_the_classes_that_set_them() {
        let class = |layout, kind: &str, pieces: [Value; 2]| {
            let processor = json!({"type": "TemplateProcessing", "single": pieces});
            let mut tokenizer = json!({"model": {"type": kind}, "post_processor": processor});
            class_of(&mut tokenizer, layout)["tokenizer_class"].clone()
        };
        let text = || json!({"Sequence": {"id": "A"}});
        let language = || json!({"SpecialToken": {"id": "en_XX"}});
        let first = || [language(), text()];
        assert_eq!(class(Layout::M2m100, "BPE", first()), "NllbTokenizer");
        assert_eq!(class(Layout::Bart, "Unigram", first()), "MBart50Tokenizer");
        let last = [text(), language()];
        assert_eq!(class(Layout::Bart, "Unigram", last), "MBartTokenizer");
        for (layout, kind, pieces) in [
            (Layout::M2m100, "WordLevel", first()),
            (Layout::Bart, "BPE", [text(), text()]),
        ] {
            assert_eq!(class(layout, kind, pieces), "PreTrainedTokenizerFast");
        }
    }
}
