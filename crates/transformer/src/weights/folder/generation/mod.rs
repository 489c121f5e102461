//! The generation settings of a folder: `generation_config.json`.

mod method;
mod speech;
mod write;

use std::path::Path;

use serde_json::{Value, json};

pub use self::write::hugging_face_generation;

use self::method::read_method;
use self::speech::start_of_speech;
use crate::TransformerConfig;
use crate::generate::{EarlyStopping, GenerateDefaults};
use crate::weights::error::WeightsError;
use crate::weights::fields::Fields;
use crate::weights::json::{CONFIG, is_empty};
use crate::weights::stacks::Stacks;

/// File name of a folder's generation settings.
const GENERATION: &str = "generation_config.json";

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
    ("num_beam_groups", 1.0),
    ("num_return_sequences", 1.0),
    ("penalty_alpha", 0.0),
];

/// Settings that are read. [`NEUTRAL`] and the others have the rest.
const READ: &[&str] = &[
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "decoder_start_token_id",
    "do_sample",
    "early_stopping",
    "eos_token_id",
    "forced_bos_token_id",
    "forced_decoder_ids",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "num_beams",
    "renormalize_logits",
    "repetition_penalty",
    "suppress_tokens",
];

/// Returns whether a field of `config.json` is one of generation, which [`read_generation`] reads.
pub(super) fn is_of_generation(name: &str) -> bool {
    let mut lists = [READ, NEUTRAL, UNSUPPORTED].into_iter();
    lists.any(|list| list.contains(&name)) || WITHOUT_EFFECT.iter().any(|(known, _)| *known == name)
}

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
    read_folder(folder, &model.into()).map_err(|error| error.at(folder))
}

fn read_folder(folder: &Path, stacks: &Stacks) -> Result<GenerateDefaults, WeightsError> {
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
    let read = read(&mut fields, &stacks.nearest(), stacks.encoder.is_none())?;
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

/// Takes the settings that are supported out of `fields`. `is_decoder` says whether there is no
/// encoder.
fn read(
    fields: &mut Fields,
    model: &TransformerConfig,
    is_decoder: bool,
) -> Result<GenerateDefaults, WeightsError> {
    let size = model.target_vocab_size;
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
    // The library `transformers` counts the start token as a token of the target. If it is also the
    // end token, targets could not end.
    if no_repeat_ngram == 1 && start_id.is_some_and(|id| end_ids.contains(&id)) {
        let expected = "0 or at least 2 for a model whose start token is its end token";
        return Err(fields.refuse("no_repeat_ngram_size", &1, &expected));
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
    // The library `transformers` counts the prompt of speech in neither, up to the last position.
    let with_prompt = |most: usize| {
        let most = most.saturating_add(speech.len());
        most.min(model.max_len.saturating_sub(1))
    };
    let (max_new, max_length) = if speech.is_empty() {
        let beside = |most: usize| most.saturating_sub(begin).max(1);
        (max_new, max_length.map(beside))
    } else {
        (max_new.map(with_prompt), max_length.map(with_prompt))
    };
    // `min_new_tokens` replaces `min_length`.
    let min_length: usize = fields.optional("min_length")?.unwrap_or(0);
    let min_new: usize = fields.optional("min_new_tokens")?.unwrap_or(0);
    let (min_length, min_new_tokens) = match (start_id, min_new) {
        (_, 0) => (min_length.saturating_sub(begin), 0),
        (None, _) => (0, min_new),
        (Some(_), _) if speech.is_empty() => (min_new, 0),
        (Some(_), _) => return Err(fields.refuse("min_new_tokens", &min_new, &"0 for speech")),
    };
    let (max_length, max_new_tokens) = match (start_id, max_new) {
        (None, Some(_)) => (None, max_new),
        _ => (max_new.or(max_length), None),
    };
    let least = min_length.max(min_new_tokens);
    if let Some(most) = max_new.or(max_length).filter(|most| least > *most) {
        let beside = max_new.map_or("max_length", |_| "max_new_tokens");
        let (name, begin) = match min_new {
            0 => ("min_length", begin),
            _ => ("min_new_tokens", 0),
        };
        let expected = format!("at most {} beside this {beside}", most + begin);
        return Err(fields.refuse(name, &(least + begin), &expected));
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
        min_length,
        min_new_tokens,
        max_length,
        max_new_tokens,
        early_stopping,
        force_end: !forced_last.is_empty(),
        normalize_first: !renormalizes,
        ..GenerateDefaults::new(start_id, eos_id)
    })
}
