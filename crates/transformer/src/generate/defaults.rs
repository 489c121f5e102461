//! Generation settings that come with a model, or with a data set.

use serde::{Deserialize, Serialize};

use super::config::{EarlyStopping, GenerateConfig, Method};

/// Default generation settings of a model or a data set, such as those in a Hugging Face folder.
///
/// [`config`](Self::config) returns them as a [`GenerateConfig`], which lacks the prefix.
///
/// ```
/// use transformer::generate::{GenerateDefaults, Method};
///
/// let defaults = GenerateDefaults { min_length: 3, ..GenerateDefaults::new(1, Some(2)) };
/// let config = defaults.config(50);
/// assert_eq!((config.min_length, config.max_length), (3, 50));
/// assert_eq!(config.method, Method::Greedy);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerateDefaults {
    /// Id of the begin symbol, the token that precedes every target; `None` for a decoder alone, whose
    /// prompts have what they need.
    pub bos_id: Option<u32>,
    /// Id of the end symbol; `None` if targets have none.
    pub eos_id: Option<u32>,
    /// Ids of further symbols that end a target.
    pub stop_ids: Vec<u32>,
    /// Decoding method. A beam of width 1 decodes greedily.
    pub method: Method,
    /// Token ids with which every target begins.
    pub prefix: Vec<u32>,
    /// Whether the length penalty counts the tokens of `prefix`.
    pub count_prefix: bool,
    /// Token ids that are never generated, except by `prefix` or `force_end`.
    pub forbidden: Vec<u32>,
    /// Token ids that are not generated as the first token after `prefix`.
    pub forbidden_first: Vec<u32>,
    /// Length, in tokens, of the n-grams that a target must not repeat; 0 for no such limit.
    pub no_repeat_ngram: usize,
    /// Repetition penalty; 1 for none.
    pub repetition_penalty: f64,
    /// Minimum number of tokens of a target before its end symbol.
    pub min_length: usize,
    /// Maximum number of tokens of a target, end symbol included; `None` if the caller chooses it.
    pub max_length: Option<usize>,
    /// Maximum number of tokens after a prompt; `None` for no such limit.
    pub max_new_tokens: Option<usize>,
    /// Minimum number of tokens after a prompt.
    pub min_new_tokens: usize,
    /// Condition that ends a beam search.
    pub early_stopping: EarlyStopping,
    /// Whether a target that reaches its maximum length ends with the end symbol.
    pub force_end: bool,
    /// Whether a beam search normalises the logits before the constraints change them.
    pub normalize_first: bool,
}

impl GenerateDefaults {
    /// Returns the settings of greedy decoding without constraints.
    pub fn new(bos_id: impl Into<Option<u32>>, eos_id: Option<u32>) -> Self {
        Self {
            bos_id: bos_id.into(),
            eos_id,
            stop_ids: Vec::new(),
            method: Method::Greedy,
            prefix: Vec::new(),
            count_prefix: true,
            forbidden: Vec::new(),
            forbidden_first: Vec::new(),
            no_repeat_ngram: 0,
            repetition_penalty: 1.0,
            min_length: 0,
            max_length: None,
            max_new_tokens: None,
            min_new_tokens: 0,
            early_stopping: EarlyStopping::default(),
            force_end: false,
            normalize_first: false,
        }
    }

    /// Returns the settings of a generation. Targets have at most `default_max_length` tokens if the field
    /// `max_length` is `None`. For another maximum, change the result. Samples have the seed 0, unless
    /// `method` has another.
    pub fn config(&self, default_max_length: usize) -> GenerateConfig {
        let method = match self.method {
            Method::Beam { width: 1, .. } => Method::Greedy,
            method => method,
        };
        GenerateConfig::new(self.max_length.unwrap_or(default_max_length))
            .with_bos_id(self.bos_id)
            .with_eos_id(self.eos_id)
            .with_stop_ids(self.stop_ids.clone())
            .with_method(method)
            .with_min_length(self.min_length)
            .with_max_new_tokens(self.max_new_tokens)
            .with_min_new_tokens(self.min_new_tokens)
            .with_count_prefix(self.count_prefix)
            .with_repetition_penalty(self.repetition_penalty)
            .with_no_repeat_ngram(self.no_repeat_ngram)
            .with_forbidden(self.forbidden.clone())
            .with_forbidden_first(self.forbidden_first.clone())
            .with_early_stopping(self.early_stopping)
            .with_force_end(self.force_end)
            .with_normalize_first(self.normalize_first)
    }
}
