//! Reads the generation settings in a Hugging Face folder.

use std::path::Path;

use serde_json::{Map, Value};
use transformer::generate::{EarlyStopping, LengthPenalty};

use crate::error::UsageError;
use crate::files::read_regular;

/// Maximum size of a file of settings, in MiB.
const LARGEST: u64 = 64;

/// Settings that are read.
const READ: &[&str] = &[
    "bad_words_ids",
    "bos_token_id",
    "decoder_start_token_id",
    "early_stopping",
    "eos_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "no_repeat_ngram_size",
    "num_beams",
    "renormalize_logits",
    "repetition_penalty",
    "suppress_tokens",
];

/// Settings that are ignored. They concern sampling, padding, the way of computation and its
/// maximum time, further results, or the file itself.
const NEUTRAL: &[&str] = &[
    "_from_model_config",
    "cache_implementation",
    "max_time",
    "min_p",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "remove_invalid_values",
    "return_dict_in_generate",
    "temperature",
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
    "begin_suppress_tokens",
    "constraints",
    "do_sample",
    "exponential_decay_length_penalty",
    "force_words_ids",
    "forced_decoder_ids",
    "sequence_bias",
    "stop_strings",
];

/// The generation settings in `generation_config.json` or, if this file does not exist, in
/// `config.json`.
#[derive(Clone, Debug)]
pub(super) struct Generation {
    /// The first token of every target, which is not part of the output.
    pub start_token: u32,
    pub end_token: Option<u32>,
    /// The first token of every output.
    pub forced_first: Option<u32>,
    /// Whether an output that reaches its maximum length ends with the end symbol.
    pub force_end: bool,
    /// Tokens that are never generated.
    pub suppressed: Vec<u32>,
    /// Beam width and length penalty; a width of 1 is greedy decoding.
    pub beam: (usize, LengthPenalty),
    /// Whether a beam search normalises logits before the constraints change them.
    pub normalize_first: bool,
    pub early_stopping: EarlyStopping,
    pub no_repeat_ngram: usize,
    pub repetition_penalty: f64,
    pub min_length: usize,
    /// Maximum number of tokens of an output.
    pub max_length: Option<usize>,
}

impl Generation {
    /// Reads the settings of a folder.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, has a setting that is wrong or not supported, or lacks the start
    /// token.
    pub fn read(folder: &Path) -> Result<Self, UsageError> {
        let config = object(&folder.join("config.json"))?;
        let path = folder.join("generation_config.json");
        let (path, fields) = if path.exists() {
            let mut fields = object(&path)?;
            // In some folders, only `config.json` has the tokens that begin and end targets.
            for name in ["decoder_start_token_id", "bos_token_id", "eos_token_id"] {
                if let Some(value) = config.get(name) {
                    let field = fields.entry(name).or_insert(Value::Null);
                    if field.is_null() {
                        field.clone_from(value);
                    }
                }
            }
            (path, fields)
        } else {
            (folder.join("config.json"), config)
        };
        let is_own = path.ends_with("generation_config.json");
        let fields = Fields {
            path: &path,
            fields,
        };
        fields.check(is_own)?;
        let number = |name: &str| fields.number(name);
        let id = |name: &str| fields.whole(name);
        let start = match id("decoder_start_token_id")? {
            Some(start) => Some(start),
            None => id("bos_token_id")?,
        };
        let start_token =
            start.ok_or_else(|| fields.wrong("decoder_start_token_id", "is missing"))?;
        let mut suppressed = fields.ids("suppress_tokens")?;
        for word in fields.lists("bad_words_ids")? {
            match word[..] {
                [id] => suppressed.push(id),
                _ => return Err(fields.wrong("bad_words_ids", "must have words of one token")),
            }
        }
        let alpha = number("length_penalty")?.unwrap_or(1.0);
        if !(0.0..=10.0).contains(&alpha) {
            return Err(fields.wrong("length_penalty", "must be a number from 0 to 10"));
        }
        let count = |name: &str| fields.whole(name).map(|n| n.map(|n| n as usize));
        let beam = (
            count("num_beams")?.unwrap_or(1).max(1),
            LengthPenalty::Power { alpha },
        );
        let early_stopping = match fields.get("early_stopping") {
            None | Some(Value::Bool(false)) => EarlyStopping::Heuristic,
            Some(Value::Bool(true)) => EarlyStopping::Full,
            Some(Value::String(never)) if never == "never" => EarlyStopping::Never,
            Some(_) => {
                return Err(fields.wrong("early_stopping", "must be true, false or \"never\""));
            }
        };
        let max_length = match count("max_new_tokens")? {
            Some(most) => Some(most),
            // `max_length` counts the start token, and `max_new_tokens` does not.
            None => count("max_length")?.map(|most| most.saturating_sub(1).max(1)),
        };
        let end_token = match fields.ids("eos_token_id")?[..] {
            [] => None,
            [id] => Some(id),
            _ => return Err(fields.wrong("eos_token_id", "must be one token")),
        };
        let forced_last = fields.ids("forced_eos_token_id")?;
        if forced_last.iter().any(|&id| Some(id) != end_token) {
            return Err(fields.wrong("forced_eos_token_id", "must be eos_token_id"));
        }
        let forced_first = id("forced_bos_token_id")?;
        let renormalize = fields.get("renormalize_logits") == Some(&Value::Bool(true));
        let no_repeat_ngram = count("no_repeat_ngram_size")?.unwrap_or(0);
        let repetition_penalty = number("repetition_penalty")?.unwrap_or(1.0);
        if renormalize && (forced_first.is_some() || repetition_penalty != 1.0) {
            let what = "is not supported together with forced_bos_token_id or repetition_penalty";
            return Err(fields.wrong("renormalize_logits", what));
        }
        // The library `transformers` counts the start token as a token of the target. If the start
        // token is also the end token, avoiding repetitions would keep targets from ending.
        if end_token == Some(start_token) {
            let what = "is not supported for a model whose start token is its end token";
            if repetition_penalty != 1.0 {
                return Err(fields.wrong("repetition_penalty", what));
            }
            if no_repeat_ngram == 1 {
                return Err(fields.wrong("no_repeat_ngram_size", what));
            }
        }
        Ok(Self {
            start_token,
            end_token,
            forced_first,
            force_end: !forced_last.is_empty(),
            normalize_first: !renormalize,
            suppressed,
            beam,
            early_stopping,
            no_repeat_ngram,
            repetition_penalty,
            min_length: count("min_length")?.map_or(0, |least| least.saturating_sub(1)),
            max_length,
        })
    }
}

/// Reads a JSON object.
pub(super) fn object(path: &Path) -> Result<Map<String, Value>, UsageError> {
    let wrong = |what: String| UsageError::new("folder", path.display(), what);
    let bytes = read_regular(path, LARGEST);
    let bytes = bytes.map_err(|error| wrong(format!("cannot be read ({error})")))?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(format!("is not a JSON object ({error})")))
}

/// The settings of a file.
struct Fields<'a> {
    path: &'a Path,
    fields: Map<String, Value>,
}

impl Fields<'_> {
    /// Rejects settings that change the outputs and are not supported. `is_own` says whether the
    /// file has only generation settings. If so, unknown settings are rejected, too.
    fn check(&self, is_own: bool) -> Result<(), UsageError> {
        for (name, value) in &self.fields {
            let name = name.as_str();
            let is_empty = match value {
                Value::Null | Value::Bool(false) => true,
                Value::Array(list) => list.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                _ => false,
            };
            if is_empty || READ.contains(&name) || NEUTRAL.contains(&name) {
                continue;
            }
            match WITHOUT_EFFECT.iter().find(|(known, _)| *known == name) {
                Some((_, neutral)) if value.as_f64() == Some(*neutral) => {}
                Some((_, neutral)) => return Err(self.wrong(name, &format!("must be {neutral}"))),
                None if is_own || UNSUPPORTED.contains(&name) => {
                    return Err(self.wrong(name, "is not supported"));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Returns a setting; `None` if it is missing or `null`.
    fn get(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn number(&self, name: &str) -> Result<Option<f64>, UsageError> {
        let value = self.get(name);
        let read = |value: &Value| {
            let number = value.as_f64();
            number.ok_or_else(|| self.wrong(name, "must be a number"))
        };
        value.map(read).transpose()
    }

    /// Returns a count or a token id.
    fn whole(&self, name: &str) -> Result<Option<u32>, UsageError> {
        let value = self.get(name);
        let read = |value: &Value| {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(|| self.wrong(name, "must be a whole number from 0"))
        };
        value.map(read).transpose()
    }

    /// Returns a list of token ids, which may be written as a single id.
    fn ids(&self, name: &str) -> Result<Vec<u32>, UsageError> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Number(_)) => Ok(self.whole(name)?.into_iter().collect()),
            Some(list) => serde_json::from_value(list.clone())
                .map_err(|_| self.wrong(name, "must be a list of token ids")),
        }
    }

    fn lists(&self, name: &str) -> Result<Vec<Vec<u32>>, UsageError> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(lists) => serde_json::from_value(lists.clone())
                .map_err(|_| self.wrong(name, "must be lists of token ids")),
        }
    }

    fn wrong(&self, name: &str, expected: &str) -> UsageError {
        let value = self
            .get(name)
            .map_or(String::new(), |value| format!(" {value}"));
        UsageError::new(
            "folder",
            self.path.display(),
            format!("{name}{value} {expected}"),
        )
    }
}
