//! Flags of `score`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::TypedValueParser;
use training::error::UsageError;
use training::metrics::Tokenizer;

use super::check::needs;
use super::parse::{described, parser, seed, whole_number};
use super::values::BLEU_TOKENIZER;

/// Maximum number of bootstrap samples, which limits the memory and the time of a bootstrap.
const MAX_SAMPLES: usize = 1_000_000;

/// Flags of `score`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
With several references, BLEU counts the matches of an n-gram up to its largest count in any reference, and its brevity penalty uses the reference length closest to that of the output. chrF uses the reference with the best score, and the error rates use the one with the fewest edits. All files have the same number of lines.

--paired-bs draws the segments that sacreBLEU draws with the same seed (SACREBLEU_SEED), and gives its p-values and confidence intervals.")]
pub struct ScoreArgs {
    /// File of a model's outputs, one segment per line; - for standard input
    pub hypotheses: PathBuf,
    /// File of the references, one segment per line; several files for several references of each
    /// segment
    #[arg(required = true, num_args = 1..)]
    pub references: Vec<PathBuf>,
    /// File of another model's outputs, which is scored, too; may be given several times
    #[arg(long, value_name = "FILE")]
    pub compare: Vec<PathBuf>,
    /// Test by paired bootstrap resampling whether BLEU and chrF of each --compare differ from
    /// those of HYPOTHESES, the baseline; needs --compare
    #[arg(long)]
    pub paired_bs: bool,
    /// Samples of the bootstrap; needs --paired-bs [default: 1000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub paired_bs_n: Option<usize>,
    /// Seed of the samples; needs --paired-bs [default: 12345]
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Flags about the comparison of texts.
    #[command(flatten)]
    pub metric: MetricArgs,
    /// Print one JSON object, or one per file of outputs
    #[arg(long)]
    pub json: bool,
}

/// Settings of a paired bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// Number of samples, at least 1.
    pub samples: usize,
    /// Seed of the samples.
    pub seed: u64,
}

impl ScoreArgs {
    /// Returns the settings of the paired bootstrap; `None` without `--paired-bs`.
    ///
    /// # Errors
    ///
    /// A number of samples that is out of range, or flags that cannot be combined.
    pub fn bootstrap(&self) -> Result<Option<Bootstrap>, UsageError> {
        let (is_given, is_compared) = (self.paired_bs, !self.compare.is_empty());
        needs("--paired-bs-n", self.paired_bs_n, "--paired-bs", is_given)?;
        needs("--seed", self.seed, "--paired-bs", is_given)?;
        needs(
            "--paired-bs",
            is_given.then_some(""),
            "--compare",
            is_compared,
        )?;
        let samples = self.paired_bs_n.unwrap_or(1000);
        if !(1..=MAX_SAMPLES).contains(&samples) {
            let expected = format!("must be at least 1 and at most {MAX_SAMPLES}");
            return Err(UsageError::new("--paired-bs-n", samples, expected));
        }
        Ok(is_given.then_some(Bootstrap {
            samples,
            seed: self.seed.unwrap_or(12345),
        }))
    }
}

/// Flags about the comparison of texts.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct MetricArgs {
    /// BLEU tokenisation
    #[arg(long, default_value = "13a", value_parser = bleu_tokenizer())]
    pub tokenize: Tokenizer,
    /// Ignore case
    #[arg(long)]
    pub lower_case: bool,
}

fn bleu_tokenizer() -> impl TypedValueParser<Value = Tokenizer> {
    parser(described(BLEU_TOKENIZER), |name| {
        let found = Tokenizer::ALL.into_iter().find(|one| one.name() == name);
        found.expect("clap checks the name")
    })
}
