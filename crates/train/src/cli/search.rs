//! Flags of every search, and what no search can be made with.

use std::fmt;

use clap::{Args, ValueEnum};
use transformer::TransformerConfig;
use transformer::generate::{GenerateConfig, LengthPenalty, Method};

use super::whole_number;
use crate::error::UsageError;

/// What makes up for the fact that longer targets are less likely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Penalty {
    /// Nothing
    None,
    /// The mean log-probability of a token counts
    Average,
    /// The log-probability over ((5 + length) / 6)^alpha counts, as in the paper
    Gnmt,
}

/// Flags of a beam search.
#[derive(Clone, Debug, Default, Args)]
pub struct BeamArgs {
    /// Width of the beam, 1 for greedy decoding [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub beam: Option<usize>,
    /// How targets of different lengths are compared; needs --beam [default: gnmt]
    #[arg(long)]
    pub length_penalty: Option<Penalty>,
    /// Exponent of --length-penalty gnmt; needs --beam [default: 0.6]
    #[arg(long, allow_negative_numbers = true)]
    pub alpha: Option<f64>,
}

impl BeamArgs {
    /// Greedy decoding, or a beam.
    ///
    /// # Errors
    ///
    /// Flags that do not go together.
    pub fn method(&self) -> Result<Method, UsageError> {
        let is_beam = self.beam.is_some();
        let penalty = self.length_penalty.unwrap_or(Penalty::Gnmt);
        let name = self
            .length_penalty
            .and_then(|penalty| penalty.to_possible_value());
        let name = name.as_ref().map(|value| value.get_name());
        needs("--length-penalty", name, "--beam", is_beam)?;
        needs("--alpha", self.alpha, "--beam", is_beam)?;
        let is_gnmt = penalty == Penalty::Gnmt;
        needs("--alpha", self.alpha, "--length-penalty gnmt", is_gnmt)?;
        let is_plain = self.length_penalty.is_none() && self.alpha.is_none();
        Ok(match self.beam {
            None => Method::Greedy,
            Some(1) if is_plain => Method::Greedy,
            Some(width) => Method::Beam {
                width,
                length_penalty: match penalty {
                    Penalty::None => LengthPenalty::None,
                    Penalty::Average => LengthPenalty::Average,
                    Penalty::Gnmt => LengthPenalty::Gnmt {
                        alpha: self.alpha.unwrap_or(0.6),
                    },
                },
            },
        })
    }
}

/// Refuses no lines at a time.
///
/// # Errors
///
/// A size of 0.
pub fn check_batch_size(batch_size: Option<usize>) -> Result<(), UsageError> {
    match batch_size {
        Some(0) => Err(UsageError::new("--batch-size", 0, "must be at least 1")),
        _ => Ok(()),
    }
}

/// Checks every setting, and refuses what no machine could hold.
///
/// # Errors
///
/// The first flag that no generation can be made with.
pub fn check_generation(
    config: &GenerateConfig,
    model: &TransformerConfig,
    batch_size: usize,
) -> Result<(), UsageError> {
    /// Numbers in a cache, 16 GB of them.
    const MOST: usize = 4_000_000_000;
    config.validate()?;
    let cache = 2 * model.n_decoder_layers * model.d_model * model.max_len;
    let most_rows = (MOST / cache.max(model.target_vocab_size)).max(1);
    let rows = config.rows_per_source();
    let at_most = |flag, value, most: usize| {
        let expected = format!("must be at most {most}, for the memory that it takes");
        Err(UsageError::new(flag, value, expected))
    };
    if rows > most_rows {
        let flag = match config.method {
            Method::Beam { .. } => "--beam",
            _ => "--n-best",
        };
        return at_most(flag, rows, most_rows);
    }
    if batch_size > most_rows / rows {
        return at_most("--batch-size", batch_size, most_rows / rows);
    }
    Ok(())
}

/// Refuses a flag that says nothing without another one.
pub(crate) fn needs(
    flag: &str,
    value: Option<impl fmt::Display>,
    other: &str,
    is_there: bool,
) -> Result<(), UsageError> {
    match value {
        Some(value) if !is_there => Err(UsageError::new(flag, value, format!("needs {other}"))),
        _ => Ok(()),
    }
}
