//! The configuration of a generation.

use burn::config::Config;
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// The decoding method: how the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Method {
    /// Chooses the likeliest token at each step.
    Greedy,
    /// Draws each token from the model's distribution, to which temperature, `top_k` and `top_p`
    /// are applied in this order.
    Sample {
        /// Divisor of the logits, above 0: below 1 favours likely tokens, above 1 unlikely ones.
        temperature: f64,
        /// Number of likeliest tokens to draw from, at least 1; `None` is all.
        top_k: Option<usize>,
        /// Total probability of the likeliest tokens to draw from, in `(0, 1]`; `None` is 1
        /// (nucleus sampling, Holtzman et al. 2020).
        top_p: Option<f64>,
        /// Seed. The draws for source `i` depend on `seed` and `first_source + i` alone.
        seed: u64,
        /// Index of the first source: 0, unless a long list is generated in several batches.
        first_source: u64,
    },
    /// Keeps the `width` likeliest targets of each source (beam search; paper, section 6.1).
    ///
    /// A target is finished when its end symbol is among the best `width` continuations of its
    /// source. The search for a source ends when no unfinished target can still become one of the
    /// `n_best`. A beam of width 1 is greedy decoding; it ends at the first end symbol for any
    /// length penalty.
    Beam {
        /// Number of targets that are kept per source, at least 1.
        width: usize,
        /// Penalty that compensates for the lower probability of longer targets.
        length_penalty: LengthPenalty,
    },
}

/// The divisor of a target's log-probability. Lengths include the end symbol.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum LengthPenalty {
    /// 1: the score is the log-probability.
    None,
    /// The length: the score is the mean log-probability per token.
    Average,
    /// `((5 + length) / 6)^alpha` (GNMT, Wu et al. 2016, equation 14).
    Gnmt {
        /// Exponent, from 0 to 10; the paper uses 0.6.
        alpha: f64,
    },
}

impl LengthPenalty {
    /// Returns the divisor for a target of `length` tokens.
    pub fn divisor(self, length: usize) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Average => length.max(1) as f64,
            Self::Gnmt { alpha } => ((5 + length) as f64 / 6.0).powf(alpha),
        }
    }

    /// Returns the best score with which an unfinished target can still end, given its
    /// log-probability, its length and its maximum length in tokens.
    pub(super) fn bound(self, log_probability: f64, length: usize, max_length: usize) -> f64 {
        // More tokens can only lower the log-probability, and a larger divisor only raises a
        // negative score.
        let best = log_probability.min(0.0);
        best / self.divisor(max_length.max(length + 1))
    }
}

/// A maximum target length that is a function of the source length.
///
/// It ends targets in which the model repeats itself endlessly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthLimit {
    /// Number of target tokens per source token.
    pub per_token: f64,
    /// Number of additional target tokens.
    pub more: usize,
}

impl LengthLimit {
    /// Returns the maximum target length for a source of `source_len` tokens.
    pub fn of(self, source_len: usize) -> usize {
        (self.per_token * source_len as f64) as usize + self.more
    }
}

/// The settings of a generation.
///
/// ```
/// use transformer::generate::{GenerateConfig, Method};
///
/// let config = GenerateConfig::new(1, 50).with_min_length(3);
/// assert!(config.validate().is_ok());
/// let error = config.with_min_length(60).validate().unwrap_err();
/// assert_eq!(error.to_string(), "min_length is 60, but must be at most max_length (50)");
/// ```
#[derive(Config, Debug, PartialEq)]
pub struct GenerateConfig {
    /// Begin symbol: the token that precedes every target.
    pub bos_id: u32,
    /// End symbol: the token that ends a target. `None`, the default, decodes `max_length` tokens.
    pub eos_id: Option<u32>,
    /// Maximum number of tokens of a target, including the end symbol.
    pub max_length: usize,
    /// Minimum number of tokens of a target before its end symbol. If it equals `max_length`, the
    /// end symbol is never generated.
    #[config(default = 0)]
    pub min_length: usize,
    /// Decoding method.
    #[config(default = "Method::Greedy")]
    pub method: Method,
    /// Number of targets per source: the best of the beam, or the number of samples.
    #[config(default = 1)]
    pub n_best: usize,
    /// Divisor of the logits of tokens that the target already has (CTRL, Keskar et al. 2019,
    /// section 4.1). Negative logits are multiplied by it. Above 1 it discourages repetition.
    #[config(default = 1.0)]
    pub repetition_penalty: f64,
    /// Number of tokens of the n-grams that a target has at most once, as `no_repeat_ngram_size` in
    /// fairseq and Hugging Face; 0, the default, allows repetition.
    ///
    /// The begin symbol and a forced prefix belong to the target. The prefix itself may have
    /// repeated n-grams, and the end symbol is always allowed from `min_length` on. A target for
    /// which every token is banned ends there and is not finished, even before `min_length`; a beam
    /// search drops it if another target of its source can be continued.
    #[config(default = 0)]
    pub no_repeat_ngram: usize,
    /// Token ids that are never generated.
    #[config(default = "Vec::new()")]
    pub forbidden: Vec<u32>,
    /// Maximum target length by source length, in addition to `max_length`. A decoder without
    /// sources ignores it.
    #[config(default = "None")]
    pub length_limit: Option<LengthLimit>,
}

impl GenerateConfig {
    /// Checks every field.
    ///
    /// # Errors
    ///
    /// Names the first field that is not valid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let at_least_1 = |field, value: usize| match value {
            0 => Err(ConfigError::new(field, value, "at least 1")),
            _ => Ok(()),
        };
        let positive = |field, value: f64| match value {
            x if x > 0.0 && x.is_finite() => Ok(()),
            _ => Err(ConfigError::new(field, value, "a positive number")),
        };
        at_least_1("max_length", self.max_length)?;
        if self.min_length > self.max_length {
            return Err(ConfigError::new(
                "min_length",
                self.min_length,
                format!("at most {{max_length}} ({})", self.max_length),
            ));
        }
        at_least_1("n_best", self.n_best)?;
        if !(1e-3..=1e3).contains(&self.repetition_penalty) {
            let expected = "a number from 0.001 to 1000; 1 changes nothing";
            let value = self.repetition_penalty;
            return Err(ConfigError::new("repetition_penalty", value, expected));
        }
        match self.method {
            Method::Greedy => {
                if self.n_best > 1 {
                    return Err(ConfigError::new(
                        "n_best",
                        self.n_best,
                        "1 for greedy decoding, which has one result: {method|use a beam, or sampling}",
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
                    return Err(ConfigError::new("top_p", p, "above 0 and at most 1"));
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
                        format!("at most {{width|the beam's width}} ({width})"),
                    ));
                }
                if let LengthPenalty::Gnmt { alpha } = length_penalty {
                    // A much larger exponent makes the divisors infinite.
                    if !(0.0..=10.0).contains(&alpha) {
                        return Err(ConfigError::new("alpha", alpha, "a number from 0 to 10"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the maximum number of rows that one source has in a step.
    pub fn rows_per_source(&self) -> usize {
        match self.method {
            Method::Greedy => 1,
            Method::Sample { .. } => self.n_best,
            Method::Beam { width, .. } => width,
        }
    }

    /// Returns the length penalty of a beam search; none for other methods.
    pub(super) fn length_penalty(&self) -> LengthPenalty {
        match self.method {
            Method::Beam { length_penalty, .. } => length_penalty,
            _ => LengthPenalty::None,
        }
    }
}
