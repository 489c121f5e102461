//! Flags of beam search, and checks of the settings of a generation.

use clap::{Args, ValueEnum};
use training::error::UsageError;
use transformer::generate::{GenerateConfig, LengthPenalty, Method};
use transformer::{ConfigError, TransformerConfig};

use super::check::needs;
use super::parse::{name_of, number, whole_number};

/// Maximum width of a beam. A wider one is probably a mistake, and would take minutes for a line.
const MAX_BEAM: usize = 10_000;

/// Choices of `--length-penalty`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Penalty {
    /// By log-probability
    None,
    /// By mean log-probability per token
    Average,
    /// By log-probability / ((5 + length) / 6)^alpha, as in the paper
    Gnmt,
    /// By log-probability / length^alpha, as in Hugging Face's library
    Power,
}

/// Flags of a beam search.
#[derive(Clone, Debug, Default, Args)]
pub struct BeamArgs {
    /// Width of the beam, 1 for greedy decoding [default: 1, or what the files of a pretrained model say]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub beam: Option<usize>,
    /// How outputs of different lengths are compared; needs a beam [default: gnmt, or what the files of a pretrained model say]
    #[arg(long, value_name = "RULE")]
    pub length_penalty: Option<Penalty>,
    /// Exponent of --length-penalty gnmt or power; needs a beam [default: 0.6 for gnmt and 1 for power, or what the files of a pretrained model say]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = number("a number from 0 to 10, such as 0.6"))]
    pub alpha: Option<f64>,
}

impl BeamArgs {
    /// Returns a beam search if the flags ask for one, else `default`, the method that comes with the
    /// model. A width or a length penalty that is not given comes from it.
    ///
    /// # Errors
    ///
    /// Flags that cannot be combined.
    pub fn method_or(&self, default: Method) -> Result<Method, UsageError> {
        let (name, alpha) = (self.length_penalty.map(name_of), self.alpha);
        let own = default.beam();
        let width = self.beam.or(own.map(|(width, _)| width));
        needs("--length-penalty", name, "--beam", width.is_some())?;
        needs("--alpha", alpha, "--beam", width.is_some())?;
        let Some(width) = width else {
            return Ok(default);
        };
        let default = own.map(|(_, penalty)| penalty);
        let length_penalty = match (self.length_penalty, default) {
            (None, Some(default)) if alpha.is_none() => default,
            (None, Some(LengthPenalty::Power { .. })) | (Some(Penalty::Power), _) => {
                LengthPenalty::Power {
                    alpha: alpha.unwrap_or(1.0),
                }
            }
            (None | Some(Penalty::Gnmt), _) => LengthPenalty::Gnmt {
                alpha: alpha.unwrap_or(0.6),
            },
            (Some(Penalty::None), _) => LengthPenalty::None,
            (Some(Penalty::Average), _) => LengthPenalty::Average,
        };
        let is_plain = [LengthPenalty::None, LengthPenalty::Average].contains(&length_penalty);
        let needed = "--length-penalty gnmt or power";
        needs("--alpha", alpha, needed, !is_plain)?;
        if width == 1 && self.length_penalty.is_none() && alpha.is_none() {
            return Ok(Method::Greedy);
        }
        Ok(Method::Beam {
            width,
            length_penalty,
        })
    }
}

/// Returns the maximum number of targets that are generated at once, at least 1. More would need
/// too much memory for the decoder cache, or for the logits.
fn max_rows(config: &GenerateConfig, model: &TransformerConfig) -> usize {
    /// Maximum number of elements of a decoder cache, and of logits, for more than one target. In
    /// f32, they take 16 GB.
    const MOST: usize = 4_000_000_000;
    let cache = 2 * model.n_decoder_layers * model.d_model * config.max_length;
    (MOST / cache.max(model.target_vocab_size)).max(1)
}

/// Returns `default`, or the largest batch size that [`check_generation`] accepts if that is
/// smaller. If it accepts none, returns 1.
pub fn usual_batch_size(
    config: &GenerateConfig,
    model: &TransformerConfig,
    default: usize,
) -> usize {
    let most = max_rows(config, model) / config.rows_per_source();
    default.min(most.max(1))
}

/// Checks the settings of a generation. Rejects a batch size of 0, and a beam, a number of samples or
/// a batch size whose decoder cache or logits would need too much memory.
///
/// # Errors
///
/// The first setting that is out of range.
pub fn check_generation(
    config: &GenerateConfig,
    model: &TransformerConfig,
    batch_size: usize,
) -> Result<(), UsageError> {
    config.validate().map_err(wrong)?;
    let max_rows = max_rows(config, model);
    let rows = config.rows_per_source();
    let at_most = |flag, value, most: usize| {
        let expected = format!("must be at most {most}, for the time and the memory that it takes");
        Err(UsageError::new(flag, value, expected))
    };
    let (flag, most) = match config.method {
        Method::Beam { .. } => ("--beam", max_rows.min(MAX_BEAM)),
        _ => ("--n-best", max_rows),
    };
    if rows > most {
        return at_most(flag, rows, most);
    }
    match batch_size {
        0 => Err(UsageError::new("--batch-size", 0, "must be at least 1")),
        size if size > max_rows / rows => at_most("--batch-size", size, max_rows / rows),
        _ => Ok(()),
    }
}

/// Converts an error about a generation setting, which is named by its flag.
fn wrong(error: ConfigError) -> UsageError {
    let mut error = UsageError::from(error);
    let expected = error.expected.replace("max_length", "--max-length");
    error.expected = expected.replace("the beam's width", "--beam");
    error
}
