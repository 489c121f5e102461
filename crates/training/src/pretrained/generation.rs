//! The settings of generation that a folder has.

use std::path::Path;

use serde_json::{Map, Value};
use transformer::generate::{EarlyStopping, LengthPenalty, Method};

use crate::error::UsageError;
use crate::files::read_regular;

/// Maximum size of a file of settings, in MiB.
const LARGEST: u64 = 64;

/// The settings of generation in `generation_config.json`, or in `config.json`.
#[derive(Clone, Debug)]
pub(super) struct Generation {
    /// The first token of every target, which is not part of the output.
    pub start_token: u32,
    pub end_token: Option<u32>,
    /// The first token of every output.
    pub forced_first: Option<u32>,
    /// Tokens that are never generated.
    pub suppressed: Vec<u32>,
    pub method: Method,
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
    /// If a file cannot be read, or asks for something that this crate does not have.
    pub fn read(folder: &Path) -> Result<Self, UsageError> {
        let mut fields = object(&folder.join("config.json"))?;
        let path = folder.join("generation_config.json");
        let path = match path.exists() {
            // What a folder has of both, `generation_config.json` says.
            true => {
                fields.extend(object(&path)?);
                path
            }
            false => folder.join("config.json"),
        };
        let fields = Fields {
            path: &path,
            fields,
        };
        let number = |name: &str| fields.number(name);
        let id = |name: &str| fields.whole(name);
        let start = match id("decoder_start_token_id")? {
            Some(start) => Some(start),
            None => id("bos_token_id")?,
        };
        let start_token =
            start.ok_or_else(|| fields.wrong("decoder_start_token_id", "is missing"))?;
        for (name, expected) in [
            ("num_beam_groups", 1.0),
            ("diversity_penalty", 0.0),
            ("encoder_no_repeat_ngram_size", 0.0),
            ("penalty_alpha", 0.0),
        ] {
            if number(name)?.is_some_and(|found| found != expected) {
                return Err(fields.wrong(name, &format!("must be {expected}")));
            }
        }
        if fields.get("do_sample") == Some(&Value::Bool(true)) {
            return Err(fields.wrong("do_sample", "must be false"));
        }
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
        let method = match count("num_beams")?.unwrap_or(1) {
            0 | 1 => Method::Greedy,
            width => Method::Beam {
                width,
                length_penalty: LengthPenalty::Power { alpha },
            },
        };
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
            // It counts the start token.
            None => count("max_length")?.map(|most| most.saturating_sub(1).max(1)),
        };
        // The last token that fits is forced to be the end symbol, which is not shown.
        let max_length = match id("forced_eos_token_id")? {
            Some(_) => max_length.map(|most: usize| most.saturating_sub(1).max(1)),
            None => max_length,
        };
        Ok(Self {
            start_token,
            end_token: match fields.ids("eos_token_id")?[..] {
                [] => None,
                [id] => Some(id),
                _ => return Err(fields.wrong("eos_token_id", "must be one token")),
            },
            forced_first: id("forced_bos_token_id")?,
            suppressed,
            method,
            early_stopping,
            no_repeat_ngram: count("no_repeat_ngram_size")?.unwrap_or(0),
            repetition_penalty: number("repetition_penalty")?.unwrap_or(1.0),
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
