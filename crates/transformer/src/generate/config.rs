//! What to search for, and how.

use burn::config::Config;
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Method {
    /// The likeliest token at each step.
    Greedy,
    /// Drawn from the model's distribution, narrowed in this order: temperature, `top_k`,
    /// `top_p`.
    Sample {
        /// Logits are divided by it: above 0; less than 1 is bolder, more is more random.
        temperature: f64,
        /// Only the likeliest so many tokens; at least 1.
        top_k: Option<usize>,
        /// Only the fewest likeliest tokens that have this probability together, in `(0, 1]`
        /// (nucleus sampling, Holtzman et al. 2020).
        top_p: Option<f64>,
        /// The draws of source `i` are a function of (`seed`, `first_source + i`) alone.
        seed: u64,
        /// Number of the first source: 0, unless a long list is generated in batches.
        first_source: u64,
    },
    /// The likeliest `width` targets at each step (paper, section 6.1). A beam of width 1 is
    /// greedy decoding, and ends at the first end symbol whatever the penalty.
    ///
    /// A target is finished when its end symbol is among the best `width` continuations of its
    /// source; the search for a source ends when no target under way could still be among the
    /// `n_best`.
    Beam {
        /// At least 1.
        width: usize,
        /// Makes up for the fact that longer targets are less likely.
        length_penalty: LengthPenalty,
    },
}

/// What a target's log-probability is divided by. Lengths count the end symbol.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum LengthPenalty {
    /// 1.
    None,
    /// The length: the score is the mean log-probability of a token.
    Average,
    /// `((5 + length) / 6)^alpha` (GNMT, Wu et al. 2016, equation 14); the paper takes 0.6.
    Gnmt {
        /// From 0 to 10.
        alpha: f64,
    },
}

impl LengthPenalty {
    /// The divisor for a target of `length` tokens.
    pub fn divisor(self, length: usize) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Average => length.max(1) as f64,
            Self::Gnmt { alpha } => ((5 + length) as f64 / 6.0).powf(alpha),
        }
    }

    /// The best score that a target under way can still end with, if it has this log-probability,
    /// `length` tokens, and room for `max_length`.
    pub(super) fn bound(self, log_probability: f64, length: usize, max_length: usize) -> f64 {
        // More tokens can only lower the log-probability, and a larger divisor only raises a
        // negative score.
        let best = log_probability.min(0.0);
        best / self.divisor(max_length.max(length + 1))
    }
}

/// How long a target may become, by the length of its source: a model that has lost its way repeats
/// itself without end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LengthLimit {
    /// Tokens of the target for each token of the source.
    pub per_token: f64,
    /// Tokens besides.
    pub more: usize,
}

impl LengthLimit {
    /// The most tokens of a target of a source of so many.
    pub fn of(self, source: usize) -> usize {
        (self.per_token * source as f64) as usize + self.more
    }
}

/// Everything that defines a generation.
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
    /// The token that every target begins after.
    pub bos_id: u32,
    /// The token that ends a target; none, as it is unless you set it, if only `max_length` does.
    pub eos_id: Option<u32>,
    /// The most tokens of a target; the end symbol is one of them.
    pub max_length: usize,
    /// The fewest tokens of a target before its end symbol; with as many as `max_length`, no
    /// target has room for its end.
    #[config(default = 0)]
    pub min_length: usize,
    /// How the next token is chosen.
    #[config(default = "Method::Greedy")]
    pub method: Method,
    /// Number of targets for each source: the best `n_best` of a beam, or so many samples.
    #[config(default = 1)]
    pub n_best: usize,
    /// Logits of tokens that the target has already are divided by it, or multiplied if they are
    /// negative (CTRL, Keskar et al. 2019, section 4.1): above 1 discourages repetition.
    #[config(default = 1.0)]
    pub repetition_penalty: f64,
    /// Tokens that are never generated.
    #[config(default = "Vec::new()")]
    pub forbidden: Vec<u32>,
    /// What a target may have by its source, besides `max_length`; where there are sources.
    #[config(default = "None")]
    pub length_limit: Option<LengthLimit>,
}

impl GenerateConfig {
    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first field that no generation can be made with.
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
                format!("at most max_length ({})", self.max_length),
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
                        "1 for greedy decoding, which has one answer: use a beam, or sampling",
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
                        format!("at most the beam's width ({width})"),
                    ));
                }
                if let LengthPenalty::Gnmt { alpha } = length_penalty {
                    // More would make every divisor infinite.
                    if !(0.0..=10.0).contains(&alpha) {
                        return Err(ConfigError::new("alpha", alpha, "a number from 0 to 10"));
                    }
                }
            }
        }
        Ok(())
    }

    /// The most rows that one source has at a time.
    pub fn rows_per_source(&self) -> usize {
        match self.method {
            Method::Greedy => 1,
            Method::Sample { .. } => self.n_best,
            Method::Beam { width, .. } => width,
        }
    }

    pub(super) fn length_penalty(&self) -> LengthPenalty {
        match self.method {
            Method::Beam { length_penalty, .. } => length_penalty,
            _ => LengthPenalty::None,
        }
    }
}
