//! Writes the generation settings of a folder.

use serde_json::{Map, Value, json};

use crate::generate::{EarlyStopping, GenerateDefaults, LengthPenalty, Method};

/// Returns the fields of `generation_config.json` for generation settings that
/// [`read_generation`](super::read_generation) may have returned. The caller adds `pad_token_id`.
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
        let most = match defaults.prefix.len() {
            // The prompt of speech is not counted.
            prompt if !defaults.count_prefix => most.saturating_sub(prompt).max(1),
            _ => most + begin,
        };
        set("max_length", most.into());
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
    if defaults.min_new_tokens > 0 {
        set("min_new_tokens", defaults.min_new_tokens.into());
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
