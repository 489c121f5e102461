//! The generation settings of a folder: `generation_config.json`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::generate::{EarlyStopping, GenerateDefaults, LengthPenalty, Method};
use crate::weights::error::WeightsError;
use crate::weights::fields::Fields;
use crate::weights::json::{CONFIG, is_empty};
use crate::weights::stacks::Stacks;

/// File name of a folder's generation settings.
const GENERATION: &str = "generation_config.json";

/// Maximum width of a beam. A wider one is probably a mistake.
const MAX_WIDTH: usize = 1024;

/// Settings that are ignored. They concern sampling, padding, the way of computation and its
/// maximum time, further results, timestamps of speech, tasks, or the file itself.
const NEUTRAL: &[&str] = &[
    "_from_model_config",
    "alignment_heads",
    "assistant_confidence_threshold",
    "cache_implementation",
    "disable_compile",
    "is_multilingual",
    "low_memory",
    "max_initial_timestamp_index",
    "max_matching_ngram_size",
    "max_time",
    "min_p",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "prev_sot_token_id",
    "prefill_chunk_size",
    "remove_invalid_values",
    "return_dict_in_generate",
    "task_specific_params",
    "temperature",
    "top_h",
    "top_k",
    "top_p",
    "transformers_version",
    "typical_p",
    "use_cache",
];

/// Settings that are supported only with the given value, which has no effect.
const WITHOUT_EFFECT: &[(&str, f64)] = &[
    ("diversity_penalty", 0.0),
    ("encoder_no_repeat_ngram_size", 0.0),
    ("encoder_repetition_penalty", 1.0),
    ("epsilon_cutoff", 0.0),
    ("eta_cutoff", 0.0),
    ("guidance_scale", 1.0),
    ("min_new_tokens", 0.0),
    ("num_beam_groups", 1.0),
    ("num_return_sequences", 1.0),
    ("penalty_alpha", 0.0),
];

/// Generation settings that are not supported. If there is no `generation_config.json`, they are
/// rejected in the `config.json`, where other unknown names are settings of the model.
const UNSUPPORTED: &[&str] = &[
    "constraints",
    "exponential_decay_length_penalty",
    "force_words_ids",
    "sequence_bias",
    "stop_strings",
];

/// Reads the generation settings of a Hugging Face folder: those of `generation_config.json` or, if
/// there is no such file, of `config.json`. `model` is the configuration of the folder's model or stack.
///
/// ```no_run
/// use burn::tensor::Device;
/// use transformer::weights::{ModelFolder, read_generation};
///
/// let folder = "nllb-200-distilled-600M";
/// let imported = ModelFolder::open(folder)?.import()?;
/// let defaults = read_generation(folder, &imported.stacks)?;
/// let model = imported.transformer(&Device::flex())?;
///
/// let source = [256_047, 94_124, 2]; // from the tokeniser
/// let config = defaults.config(200);
/// let outputs = model.complete(&[source], &[defaults.prefix], &config)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// A file cannot be read, has a setting that is not valid, not supported or not of this model, or
/// lacks the start token of a model with an encoder.
pub fn read_generation(
    folder: impl AsRef<Path>,
    model: impl Into<Stacks>,
) -> Result<GenerateDefaults, WeightsError> {
    let folder = folder.as_ref();
    let mut fields = Fields::read(&folder.join(CONFIG), CONFIG)?;
    let path = folder.join(GENERATION);
    if path.exists() {
        let config = std::mem::replace(&mut fields, Fields::read(&path, GENERATION)?);
        // In some folders, only `config.json` has the tokens that begin and end targets.
        for name in ["decoder_start_token_id", "bos_token_id", "eos_token_id"] {
            if let Some(value) = config.fields.get(name) {
                let field = fields.fields.entry(name.into()).or_default();
                if field.is_null() {
                    field.clone_from(value);
                }
            }
        }
    }
    let stacks = model.into();
    let size = stacks.nearest().target_vocab_size;
    let read = read(&mut fields, size, stacks.encoder.is_none())?;
    let is_own = fields.file == GENERATION;
    for (name, neutral) in WITHOUT_EFFECT {
        let value: Option<f64> = fields.optional(name)?;
        if let Some(value) = value.filter(|value| value != neutral) {
            return Err(fields.refuse(name, &value, neutral));
        }
    }
    for (name, value) in &fields.fields {
        let name = name.as_str();
        let is_known = if is_own {
            NEUTRAL.contains(&name)
        } else {
            !UNSUPPORTED.contains(&name)
        };
        if !is_known && !is_empty(value) {
            return Err(fields.refuse(name, value, &"null"));
        }
    }
    Ok(read)
}

/// Takes the settings that are supported out of `fields`. `size` is the size of the vocabulary, and
/// `is_decoder` says whether there is no encoder.
fn read(
    fields: &mut Fields,
    size: usize,
    is_decoder: bool,
) -> Result<GenerateDefaults, WeightsError> {
    let bos_id: Option<u32> = fields.optional("bos_token_id")?;
    let start_id = fields.optional("decoder_start_token_id")?.or(bos_id);
    let start_id = match start_id {
        // Nothing precedes the prompt of a decoder alone.
        _ if is_decoder => None,
        None => Some(fields.required("decoder_start_token_id")?),
        found => found,
    };
    // `transformers` ends a target with any of them. The first is the one that may be forced.
    let end_ids = fields.ids("eos_token_id")?;
    let eos_id = end_ids.first().copied();
    let forced_last = fields.ids("forced_eos_token_id")?;
    if forced_last.iter().any(|&id| Some(id) != eos_id) {
        let name = "forced_eos_token_id";
        return Err(fields.refuse(name, &json!(forced_last), &"eos_token_id"));
    }
    let forced_first: Option<u32> = fields.optional("forced_bos_token_id")?;
    let speech = start_of_speech(fields)?;
    let suppressed = fields.ids("suppress_tokens")?;
    let suppressed_first = fields.ids("begin_suppress_tokens")?;
    let words: Option<Vec<Vec<u32>>> = fields.optional("bad_words_ids")?;
    let mut bad_words = Vec::new();
    for word in words.unwrap_or_default() {
        match word[..] {
            // The library `transformers` skips end symbols among them.
            [id] if end_ids.contains(&id) => {}
            [id] => bad_words.push(id),
            _ => return Err(fields.refuse("bad_words_ids", &json!(word), &"one token a word")),
        }
    }
    for (name, ids) in [
        ("decoder_start_token_id", start_id.as_slice()),
        ("eos_token_id", &end_ids),
        ("forced_bos_token_id", forced_first.as_slice()),
        ("forced_decoder_ids", &speech),
        ("suppress_tokens", &suppressed),
        ("begin_suppress_tokens", &suppressed_first),
        ("bad_words_ids", &bad_words),
    ] {
        if let Some(id) = ids.iter().find(|&&id| id as usize >= size) {
            return Err(fields.refuse(name, id, &format!("a token below {size}")));
        }
    }
    let method = read_method(fields, is_decoder)?;
    let early_stopping: Option<Value> = fields.optional("early_stopping")?;
    let early_stopping = match early_stopping.unwrap_or(json!(false)) {
        Value::Bool(false) => EarlyStopping::Heuristic,
        Value::Bool(true) => EarlyStopping::Full,
        Value::String(never) if never == "never" => EarlyStopping::Never,
        other => {
            let expected = "true, false or \"never\"";
            return Err(fields.refuse("early_stopping", &other, &expected));
        }
    };
    let no_repeat_ngram: Option<usize> = fields.optional("no_repeat_ngram_size")?;
    let no_repeat_ngram = no_repeat_ngram.unwrap_or(0);
    let penalty: f64 = fields.optional("repetition_penalty")?.unwrap_or(1.0);
    let renormalizes = fields.optional("renormalize_logits")?.unwrap_or(false);
    if renormalizes && (forced_first.is_some() || penalty != 1.0) {
        let expected = "false together with forced_bos_token_id or repetition_penalty";
        return Err(fields.refuse("renormalize_logits", &true, &expected));
    }
    // The library `transformers` counts the start token as a token of the target. If the start
    // token is also the end token, avoiding repetitions would keep targets from ending.
    if start_id.is_some_and(|id| end_ids.contains(&id)) {
        let model = "for a model whose start token is its end token";
        if penalty != 1.0 {
            return Err(fields.refuse("repetition_penalty", &penalty, &format!("1 {model}")));
        }
        if no_repeat_ngram == 1 {
            let expected = format!("0 or at least 2 {model}");
            return Err(fields.refuse("no_repeat_ngram_size", &1, &expected));
        }
    }
    // `max_length` and `min_length` count the start token, or the prompt of a decoder alone, and
    // `max_new_tokens` does not.
    let begin = usize::from(start_id.is_some());
    let max_new: Option<usize> = fields.optional("max_new_tokens")?;
    let max_length: Option<usize> = fields.optional("max_length")?;
    for (name, most) in [("max_new_tokens", max_new), ("max_length", max_length)] {
        if most == Some(0) {
            return Err(fields.refuse(name, &0, &"at least 1"));
        }
    }
    let max_length = max_length.map(|most| most.saturating_sub(begin).max(1));
    let min_length: Option<usize> = fields.optional("min_length")?;
    let least = min_length.map_or(0, |least| least.saturating_sub(begin));
    let (max_length, max_new_tokens) = match (start_id, max_new) {
        (None, Some(_)) => (None, max_new),
        _ => (max_new.or(max_length), None),
    };
    if let Some(most) = max_length.filter(|most| least > *most) {
        let name = max_new.map_or("max_length", |_| "max_new_tokens");
        let expected = format!("at most {} beside this {name}", most + begin);
        return Err(fields.refuse("min_length", &(least + begin), &expected));
    }
    Ok(GenerateDefaults {
        stop_ids: end_ids.into_iter().skip(1).collect(),
        method,
        // Whisper's tokens before a text are given to the decoder, and not forced.
        count_prefix: speech.is_empty(),
        prefix: forced_first.into_iter().chain(speech).collect(),
        forbidden: [suppressed, bad_words].concat(),
        forbidden_first: suppressed_first,
        no_repeat_ngram,
        repetition_penalty: penalty,
        min_length: least,
        max_length,
        max_new_tokens,
        early_stopping,
        force_end: !forced_last.is_empty(),
        normalize_first: !renormalizes,
        ..GenerateDefaults::new(start_id, eos_id)
    })
}

/// Takes the decoding method: a beam, which decodes greedily if its width is 1, or the sample of a decoder
/// alone, such as a chat model.
fn read_method(fields: &mut Fields, is_decoder: bool) -> Result<Method, WeightsError> {
    let width: usize = fields.optional("num_beams")?.unwrap_or(1);
    if !(1..=MAX_WIDTH).contains(&width) {
        let expected = format!("at least 1 and at most {MAX_WIDTH}");
        return Err(fields.refuse("num_beams", &width, &expected));
    }
    let alpha: f64 = fields.optional("length_penalty")?.unwrap_or(1.0);
    if !(0.0..=10.0).contains(&alpha) {
        return Err(fields.refuse("length_penalty", &alpha, &"a number from 0 to 10"));
    }
    if !fields.optional("do_sample")?.unwrap_or(false) {
        let length_penalty = LengthPenalty::Power { alpha };
        return Ok(Method::Beam {
            width,
            length_penalty,
        });
    }
    if !is_decoder {
        return Err(fields.refuse("do_sample", &true, &"false for a model with an encoder"));
    }
    if width > 1 {
        return Err(fields.refuse("num_beams", &width, &"1 with do_sample true"));
    }
    for (name, neutral) in [("min_p", 0.0), ("top_h", 1.0), ("typical_p", 1.0)] {
        let value: Option<f64> = fields.optional(name)?;
        if let Some(value) = value.filter(|value| *value != neutral) {
            return Err(fields.refuse(name, &value, &format!("{neutral} with do_sample true")));
        }
    }
    let top_k: Option<usize> = fields.optional("top_k")?;
    let top_p: Option<f64> = fields.optional("top_p")?;
    let temperature: f64 = fields.optional("temperature")?.unwrap_or(1.0);
    if !(temperature > 0.0 && temperature.is_finite()) {
        return Err(fields.refuse(
            "temperature",
            &temperature,
            &"a positive number with do_sample true",
        ));
    }
    if let Some(p) = top_p.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
        return Err(fields.refuse(
            "top_p",
            &p,
            &"a number above 0 and at most 1 with do_sample true",
        ));
    }
    Ok(Method::Sample {
        temperature,
        // The default of `transformers`, where 0 is no limit.
        top_k: Some(top_k.unwrap_or(50)).filter(|&k| k > 0),
        top_p: top_p.filter(|&p| p < 1.0),
        seed: 0,
        first_source: 0,
    })
}

/// Takes the tokens that follow the start token of a target of Whisper: language and task, which a
/// model of English lacks, and `<|notimestamps|>`.
///
/// Whisper detects a language that is not given, and `transformers` then leaves out a task that is
/// not given. Here, they are English and `transcribe`.
fn start_of_speech(fields: &mut Fields) -> Result<Vec<u32>, WeightsError> {
    // Only Whisper has this token.
    let Some(last) = fields.optional("no_timestamps_token_id")? else {
        return Ok(Vec::new());
    };
    fields.expect(&["return_timestamps"], json!(false))?;
    let forced: Option<Vec<(usize, Option<u32>)>> = fields.optional("forced_decoder_ids")?;
    let forced = forced.unwrap_or_default();
    if (1..).zip(&forced).any(|(at, (index, _))| at != *index) {
        let expected = "the indices from 1 on";
        return Err(fields.refuse("forced_decoder_ids", &json!(forced), &expected));
    }
    let mut tokens: Vec<Option<u32>> = forced.into_iter().map(|(_, id)| id).collect();
    let names = ["language", "task"];
    let given: [Option<String>; 2] = [fields.optional(names[0])?, fields.optional(names[1])?];
    if given.iter().any(Option::is_some) {
        tokens.clear();
    }
    let usual = [("lang_to_id", "<|en|>"), ("task_to_id", "transcribe")];
    for (index, (given, (table, usual))) in given.into_iter().zip(usual).enumerate() {
        let ids: BTreeMap<String, u32> = fields.optional(table)?.unwrap_or_default();
        if given.is_none() && ids.is_empty() {
            continue;
        }
        let id = |name: &str| ids.get(name).or(ids.get(&format!("<|{name}|>"))).copied();
        tokens.resize(tokens.len().max(index + 1), None);
        tokens[index] = match given {
            Some(given) => match id(&given) {
                None => {
                    let expected = format!("a name of {table}");
                    return Err(fields.refuse(names[index], &given, &expected));
                }
                id => id,
            },
            None => tokens[index].or(id(usual)),
        };
    }
    let mut tokens: Vec<u32> = tokens.into_iter().flatten().collect();
    if tokens.last() != Some(&last) {
        tokens.push(last);
    }
    Ok(tokens)
}

/// Returns the fields of `generation_config.json` for generation settings that
/// [`read_generation`] may have returned. The caller adds `pad_token_id`.
pub fn hugging_face_generation(defaults: &GenerateDefaults) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.into(), value);
    set("decoder_start_token_id", defaults.bos_id.into());
    if let Some(eos_id) = defaults.eos_id {
        let ids: Vec<u32> = [&[eos_id], &*defaults.stop_ids].concat();
        set(
            "eos_token_id",
            if ids.len() == 1 {
                eos_id.into()
            } else {
                json!(ids)
            },
        );
        if defaults.force_end {
            set("forced_eos_token_id", eos_id.into());
        }
    }
    // `min_length` and `max_length` count the start token.
    let begin = usize::from(defaults.bos_id.is_some());
    if let Some(most) = defaults.max_length {
        set("max_length", (most + begin).into());
    }
    match defaults.method {
        // The file is that of a model that was not read from a folder.
        Method::Greedy => return fields,
        Method::Beam {
            width,
            length_penalty,
        } => {
            set("num_beams", width.into());
            if let LengthPenalty::Power { alpha } = length_penalty {
                set("length_penalty", alpha.into());
            }
        }
        Method::Sample {
            temperature,
            top_k,
            top_p,
            ..
        } => {
            set("do_sample", true.into());
            set("temperature", temperature.into());
            set("top_k", top_k.unwrap_or(0).into());
            set("top_p", top_p.unwrap_or(1.0).into());
        }
    }
    match &defaults.prefix[..] {
        [] => {}
        [first] => {
            set("forced_bos_token_id", (*first).into());
        }
        [tokens @ .., last] => {
            let forced: Vec<(usize, &u32)> = (1..).zip(tokens).collect();
            set("forced_decoder_ids", json!(forced));
            set("no_timestamps_token_id", (*last).into());
        }
    }
    for (name, ids) in [
        ("suppress_tokens", &defaults.forbidden),
        ("begin_suppress_tokens", &defaults.forbidden_first),
    ] {
        if !ids.is_empty() {
            set(name, json!(ids));
        }
    }
    if defaults.no_repeat_ngram > 0 {
        set("no_repeat_ngram_size", defaults.no_repeat_ngram.into());
    }
    if defaults.repetition_penalty != 1.0 {
        set("repetition_penalty", defaults.repetition_penalty.into());
    }
    if defaults.min_length > 0 {
        set("min_length", (defaults.min_length + begin).into());
    }
    if let Some(most) = defaults.max_new_tokens {
        set("max_new_tokens", most.into());
    }
    let early_stopping = match defaults.early_stopping {
        EarlyStopping::Heuristic => json!(false),
        EarlyStopping::Full => json!(true),
        EarlyStopping::Never => json!("never"),
    };
    set("early_stopping", early_stopping);
    if !defaults.normalize_first {
        set("renormalize_logits", true.into());
    }
    fields
}
