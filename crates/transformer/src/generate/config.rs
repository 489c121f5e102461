//! The settings of generation: decoding method, lengths and constraints.

use burn::config::Config;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, number};

/// The decoding method: how the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Method {
    /// Chooses the likeliest token at each step.
    Greedy,
    /// Draws each token from the model's distribution, after `temperature`, `top_k` and `top_p`
    /// have been applied to it in this order.
    Sample {
        /// Divisor of the logits, above 0. A value below 1 favours likely tokens, a value above 1
        /// unlikely tokens.
        temperature: f64,
        /// Number of likeliest tokens to draw from, at least 1; `None` sets no limit.
        top_k: Option<usize>,
        /// Minimum total probability of the tokens to draw from, in `(0, 1]`. Tokens are drawn from
        /// the smallest set of likeliest tokens that reaches it (nucleus sampling, Holtzman et al.
        /// 2020). `None` sets no limit.
        top_p: Option<f64>,
        /// Seed of the random draws. Those for source `i` depend only on `seed` and
        /// `first_source + i`.
        seed: u64,
        /// Index of the first source of this batch. It is 0, unless you generate a long list of
        /// sources in several batches.
        first_source: u64,
    },
    /// Beam search: keeps the `width` likeliest targets of each source (paper, section 6.1).
    ///
    /// A target is finished when its end symbol is among the best `width` continuations of its
    /// source. [`EarlyStopping`] says when the search for a source ends. A beam of width 1 decodes
    /// greedily: it ends at the first end symbol, whatever the length penalty.
    Beam {
        /// Number of targets that are kept per source, at least 1.
        width: usize,
        /// Divisor of the log-probabilities that makes up for the lower probability of longer
        /// targets.
        length_penalty: LengthPenalty,
    },
}

impl Method {
    /// Returns the width and the length penalty of a beam search; `None` for other methods.
    pub fn beam(self) -> Option<(usize, LengthPenalty)> {
        match self {
            Self::Beam {
                width,
                length_penalty,
            } => Some((width, length_penalty)),
            _ => None,
        }
    }
}

/// Length penalty: the divisor that turns a target's log-probability into its score.
///
/// Lengths are in tokens and include the end symbol, and a prefix if
/// [`count_prefix`](GenerateConfig::count_prefix) says so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LengthPenalty {
    /// The divisor is 1: the score is the log-probability.
    None,
    /// The divisor is the length, at least 1: the score is the mean log-probability per token.
    Average,
    /// The divisor is `((5 + length) / 6)^alpha` (GNMT, Wu et al. 2016, equation 14).
    Gnmt {
        /// Exponent, from 0 to 10. The Transformer paper uses 0.6.
        alpha: f64,
    },
    /// The divisor is `length^alpha`, as in Hugging Face transformers. A length of 0 counts as 1.
    Power {
        /// Exponent, from 0 to 10.
        alpha: f64,
    },
}

impl LengthPenalty {
    /// Returns the number by which the log-probability of a target of `length` tokens is divided.
    pub fn divisor(self, length: usize) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Average => length.max(1) as f64,
            Self::Gnmt { alpha } => ((5 + length) as f64 / 6.0).powf(alpha),
            Self::Power { alpha } => (length.max(1) as f64).powf(alpha),
        }
    }

    /// Returns an upper bound of the score with which an unfinished target can end.
    ///
    /// `log_probability` is the log-probability of the tokens so far. `max_length` is the maximum
    /// length of the target.
    pub(super) fn bound(self, log_probability: f64, max_length: usize) -> f64 {
        // More tokens can only lower the log-probability. A larger divisor can only raise a
        // negative score, and the maximum length has the largest divisor.
        log_probability.min(0.0) / self.divisor(max_length)
    }
}

/// The condition on which a beam search ends for a source.
///
/// It is the option `early_stopping` of Hugging Face transformers. A beam of width 1 always ends at
/// the first end symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EarlyStopping {
    /// The search ends when no unfinished target can become one of the `n_best` targets to return:
    /// `"never"` in Hugging Face transformers.
    Never,
    /// The search ends when `width` targets are finished and the likeliest unfinished target, if it
    /// ended now, would not have a better score than the worst of them: `False`, the default, in
    /// Hugging Face transformers.
    #[default]
    Heuristic,
    /// The search ends when `width` targets are finished: `True` in Hugging Face transformers.
    Full,
}

/// A maximum target length that depends on the source length.
///
/// The limit is `per_token * source_len + more` tokens, rounded down. It ends targets in which the
/// model would repeat itself endlessly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthLimit {
    /// Number of target tokens allowed per source token.
    pub per_token: f64,
    /// Number of target tokens allowed in addition, for a source of any length.
    pub more: usize,
}

impl LengthLimit {
    /// Returns the maximum target length for a source of `source_len` tokens.
    pub fn of(self, source_len: usize) -> usize {
        ((self.per_token * source_len as f64) as usize).saturating_add(self.more)
    }
}

/// Settings of a generation.
///
/// ```
/// use transformer::generate::{GenerateConfig, Method};
///
/// let config = GenerateConfig::new(50).with_bos_id(Some(1)).with_min_length(3);
/// assert!(config.validate().is_ok());
/// let error = config.with_min_length(60).validate().unwrap_err();
/// assert_eq!(error.to_string(), "min_length is 60, but must be at most max_length (50)");
/// ```
#[derive(Config, Debug, PartialEq)]
#[non_exhaustive]
pub struct GenerateConfig {
    /// Id of the begin symbol, the token that precedes every target: `decoder_start_token_id` in
    /// Hugging Face transformers. With `None`, the default, each target needs a prefix, as the
    /// prompt of a language model.
    pub bos_id: Option<u32>,
    /// Id of the end symbol, the token that ends a target. With `None`, the default, targets end at
    /// their maximum length, or earlier if every next token is banned.
    pub eos_id: Option<u32>,
    /// Ids of further symbols that end a target as `eos_id` does, such as the end of a turn of a chat
    /// model, whose `eos_token_id` is a list in Hugging Face transformers. None of them is forced.
    #[config(default = "Vec::new()")]
    pub stop_ids: Vec<u32>,
    /// Maximum number of tokens in a target, including the end symbol, but not the begin symbol, which
    /// `max_length` of Hugging Face transformers counts. It must not exceed the model's `max_len`, which
    /// limits targets anyway if `max_new_tokens` is given.
    pub max_length: usize,
    /// Minimum number of tokens in a target before its end symbol, of which a prefix or prompt is a part.
    /// If `min_length` equals `max_length`, the end symbol is never generated, except by `force_end`.
    #[config(default = 0)]
    pub min_length: usize,
    /// Decoding method.
    #[config(default = "Method::Greedy")]
    pub method: Method,
    /// Maximum number of targets to return per source: the best targets of a beam, or all samples.
    #[config(default = 1)]
    pub n_best: usize,
    /// Repetition penalty (CTRL, Keskar et al. 2019, section 4.1) for tokens that the target
    /// already has: it divides their positive logits, and multiplies their negative logits. A value
    /// above 1 discourages repetition. The begin symbol and a forced prefix count as part of the
    /// target, as in Hugging Face transformers.
    #[config(default = 1.0)]
    pub repetition_penalty: f64,
    /// Length, in tokens, of the n-grams that a target must not repeat. With 0, the default, a
    /// target may repeat anything. In fairseq and Hugging Face transformers, this is
    /// `no_repeat_ngram_size`.
    ///
    /// The begin symbol and a forced prefix count as part of the target. The setting bans neither
    /// tokens of the prefix nor the end symbol. If every next token of a target is banned, the
    /// target ends there unfinished, even before `min_length`. A beam search drops such a target if
    /// another target of its source has a next token.
    #[config(default = 0)]
    pub no_repeat_ngram: usize,
    /// Token ids that are never generated, except in a forced prefix or by `force_end`.
    #[config(default = "Vec::new()")]
    pub forbidden: Vec<u32>,
    /// Token ids that are not generated as the first token after the prefix:
    /// `begin_suppress_tokens` in Hugging Face transformers.
    #[config(default = "Vec::new()")]
    pub forbidden_first: Vec<u32>,
    /// Condition on which a beam search ends for a source.
    #[config(default = "EarlyStopping::Heuristic")]
    pub early_stopping: EarlyStopping,
    /// Whether the end symbol is forced, with probability 1, as the last token that fits into a
    /// target: `forced_eos_token_id` in Hugging Face transformers. If a forced prefix has a token
    /// at this position, its token is kept. The setting has no effect without `eos_id`.
    #[config(default = false)]
    pub force_end: bool,
    /// Whether a beam search normalises the logits before the constraints change them, as in
    /// Hugging Face transformers. The probabilities of the allowed tokens then need not sum to 1.
    /// Otherwise, as in CTranslate2, they do.
    #[config(default = false)]
    pub normalize_first: bool,
    /// Limit of the target length that depends on the source length, in addition to `max_length`.
    /// With `None`, the default, `max_length` is the only limit. The limit is raised if it leaves
    /// no room for `min_length` tokens, or for a forced prefix and one more token. A decoder
    /// that completes prompts has no sources, and rejects this setting.
    #[config(default = "None")]
    pub length_limit: Option<LengthLimit>,
    /// Maximum number of tokens after the prefix or prompt of each target, in addition to
    /// `max_length`: `max_new_tokens` in Hugging Face transformers. With `None`, the default,
    /// `max_length` is the only limit. A prefix of as many tokens as the model's `max_len` gets none.
    #[config(default = "None")]
    pub max_new_tokens: Option<usize>,
    /// Minimum number of tokens after the prefix or prompt of each target and before its end symbol, in
    /// addition to `min_length`: `min_new_tokens` in Hugging Face transformers. A target that reaches its
    /// maximum length before them ends there.
    #[config(default = 0)]
    pub min_new_tokens: usize,
    /// Whether a length penalty counts the tokens of a prefix. Hugging Face transformers counts a
    /// forced begin symbol, but not the tokens that it is given. The prompt of a decoder without a
    /// memory is never counted.
    #[config(default = true)]
    pub count_prefix: bool,
}

impl GenerateConfig {
    /// Checks the settings, except token ids, which are checked when a search begins.
    ///
    /// # Errors
    ///
    /// A field is not valid. The error names the first such field.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let at_least_1 = |field, value: usize| match value {
            0 => Err(ConfigError::new(field, value, "at least 1")),
            _ => Ok(()),
        };
        let positive = |field, value: f64| match value {
            x if x > 0.0 && x.is_finite() => Ok(()),
            _ => Err(ConfigError::new(field, number(value), "a positive number")),
        };
        at_least_1("max_length", self.max_length)?;
        if self.min_length > self.max_length {
            return Err(ConfigError::new(
                "min_length",
                self.min_length,
                format!("at most max_length ({})", self.max_length),
            ));
        }
        let most = self.max_new_tokens.unwrap_or(self.max_length);
        if self.min_new_tokens > most {
            let expected = format!("at most max_new_tokens or max_length ({most})");
            let value = self.min_new_tokens;
            return Err(ConfigError::new("min_new_tokens", value, expected));
        }
        if let Some(limit) = self.length_limit
            && !(limit.per_token >= 0.0 && limit.per_token.is_finite())
        {
            let value = number(limit.per_token);
            return Err(ConfigError::new(
                "length_limit",
                value,
                "a number of at least 0",
            ));
        }
        at_least_1("max_new_tokens", self.max_new_tokens.unwrap_or(1))?;
        at_least_1("n_best", self.n_best)?;
        if !(1e-3..=1e3).contains(&self.repetition_penalty) {
            let expected = "a number from 0.001 to 1000; 1 changes nothing";
            let value = number(self.repetition_penalty);
            return Err(ConfigError::new("repetition_penalty", value, expected));
        }
        match self.method {
            Method::Greedy => {
                if self.n_best > 1 {
                    return Err(ConfigError::new(
                        "n_best",
                        self.n_best,
                        "1 for greedy decoding, which has one result: use a beam, or sampling",
                    ));
                }
            }
            Method::Sample {
                temperature,
                top_k,
                top_p,
                ..
            } => {
                positive("temperature", temperature)?;
                at_least_1("top_k", top_k.unwrap_or(1))?;
                if let Some(p) = top_p
                    && !(p > 0.0 && p <= 1.0)
                {
                    return Err(ConfigError::new(
                        "top_p",
                        number(p),
                        "above 0 and at most 1",
                    ));
                }
            }
            Method::Beam {
                width,
                length_penalty,
            } => {
                at_least_1("width", width)?;
                if self.n_best > width {
                    return Err(ConfigError::new(
                        "n_best",
                        self.n_best,
                        format!("at most the beam's width ({width})"),
                    ));
                }
                if let LengthPenalty::Gnmt { alpha } | LengthPenalty::Power { alpha } =
                    length_penalty
                {
                    // A much larger exponent would make the divisors infinite.
                    if !(0.0..=10.0).contains(&alpha) {
                        return Err(ConfigError::new(
                            "alpha",
                            number(alpha),
                            "a number from 0 to 10",
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the maximum number of rows (targets being decoded) of one source in a step.
    pub fn rows_per_source(&self) -> usize {
        match self.method {
            Method::Greedy => 1,
            Method::Sample { .. } => self.n_best,
            Method::Beam { width, .. } => width,
        }
    }

    /// Returns the symbols that end a target.
    pub(super) fn end_ids(&self) -> impl Iterator<Item = u32> {
        self.eos_id.into_iter().chain(self.stop_ids.iter().copied())
    }

    /// Returns whether a token ends a target: whether it is `eos_id` or one of `stop_ids`.
    pub fn is_end(&self, token: u32) -> bool {
        self.end_ids().any(|id| id == token)
    }

    /// Returns the number of hypotheses that are kept for a source until its search ends.
    pub(super) fn n_kept(&self) -> usize {
        match (self.early_stopping, self.method) {
            (EarlyStopping::Never, _) => self.n_best,
            (_, Method::Beam { width, .. }) => width,
            _ => self.n_best,
        }
    }

    /// Returns the length penalty of a beam search, or [`LengthPenalty::None`] for other methods.
    pub(super) fn length_penalty(&self) -> LengthPenalty {
        let beam = self.method.beam();
        beam.map_or(LengthPenalty::None, |(_, penalty)| penalty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_are_those_of_the_formulas() {
        let gnmt = LengthPenalty::Gnmt { alpha: 2.0 };
        // With `alpha = 2`, the divisor of length 13 is `((5 + 13) / 6)^2`.
        assert_eq!(gnmt.divisor(13), 9.0);
        assert_eq!(gnmt.divisor(1), 1.0);
        assert_eq!(LengthPenalty::Average.divisor(13), 13.0);
        assert_eq!(LengthPenalty::Power { alpha: 2.0 }.divisor(13), 169.0);
        assert_eq!(LengthPenalty::Average.divisor(0), 1.0);
        assert_eq!(LengthPenalty::None.divisor(13), 1.0);
    }

    #[test]
    fn no_target_ends_with_a_better_score_than_the_bound() {
        let bound = |penalty: LengthPenalty| penalty.bound(-6.0, 4);
        assert_eq!(bound(LengthPenalty::None), -6.0);
        assert_eq!(bound(LengthPenalty::Average), -1.5);
        assert_eq!(LengthPenalty::Average.bound(1e-9, 4), 0.0);
    }

    #[test]
    fn each_method_decodes_its_number_of_rows() {
        let rows = |method| {
            let config = GenerateConfig::new(9)
                .with_bos_id(Some(1))
                .with_method(method)
                .with_n_best(3);
            config.rows_per_source()
        };
        let sample = Method::Sample {
            temperature: 1.0,
            top_k: None,
            top_p: None,
            seed: 0,
            first_source: 0,
        };
        let beam = Method::Beam {
            width: 5,
            length_penalty: LengthPenalty::None,
        };
        assert_eq!([Method::Greedy, sample, beam].map(rows), [1, 3, 5]);
    }
}
