//! Flags of `eval`.

use std::path::PathBuf;

use clap::Args;
use training::data::Split;

use super::metric::MetricArgs;
use super::parse::{fields, one_of, whole_number};
use super::search::BeamArgs;
use super::settings::LengthArgs;
use super::trained::TrainedArgs;

/// Flags of `eval`.
#[derive(Clone, Debug, Args)]
pub struct EvalArgs {
    /// The model.
    #[command(flatten, next_help_heading = "Model")]
    pub trained: TrainedArgs,
    /// Texts to translate, one per line (text only) [default: the run's validation split]
    #[arg(long, help_heading = "Data", value_name = "FILE", requires = "target")]
    pub source: Option<PathBuf>,
    /// Reference translations of --source, line by line
    #[arg(long, help_heading = "Data", value_name = "FILE", requires = "source")]
    pub target: Option<PathBuf>,
    /// Pairs of texts and references in one file: lines `SOURCE<TAB>TARGET`, or JSON Lines with the
    /// run's fields
    #[arg(long, help_heading = "Data", value_name = "FILE", conflicts_with_all = ["source", "target"])]
    pub pairs: Option<PathBuf>,
    /// Fields of source and target in JSON Lines [default: the run's]
    #[arg(long, help_heading = "Data", value_name = "SOURCE,TARGET", value_parser = fields, requires = "pairs", conflicts_with = "source")]
    pub fields: Option<[String; 2]>,
    /// Replace invalid UTF-8 instead of rejecting it
    #[arg(long, help_heading = "Data")]
    pub lossy: bool,
    /// How translations are compared with references.
    #[command(flatten, next_help_heading = "Scores")]
    pub metric: MetricArgs,
    /// Split to evaluate [default: test; text: validation, the only one]. Without --eval-lengths, the
    /// same sequences are evaluated as in training
    #[arg(long, help_heading = "Data", value_parser = one_of([("validation", Split::Validation), ("test", Split::Test)]), conflicts_with_all = ["source", "pairs"])]
    pub split: Option<Split>,
    /// Sequences in a batch [default: at most 250, fewer for wide beams and
    /// long sequences]
    #[arg(long, help_heading = "Speed and memory", value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub batch_size: Option<usize>,
    #[command(flatten, next_help_heading = "Search")]
    pub beam: BeamArgs,
    /// Never generate the same n-gram of N tokens twice within an output; 0 sets no limit [default:
    /// 0, or what the files of a pretrained model say]
    #[arg(long, help_heading = "Search", value_name = "N", conflicts_with = "eval_lengths", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub no_repeat_ngram: Option<usize>,
    /// Write the outputs to this file, one per line in the order of the split. If the name ends with
    /// .jsonl, .ndjson or .json, each line is a JSON object with source, reference and hypothesis
    #[arg(long, help_heading = "Output", value_name = "FILE", conflicts_with_all = ["eval_lengths"])]
    pub hypotheses: Option<PathBuf>,
    /// Evaluation of each length on the split, instead of the split's usual sequences.
    #[command(flatten, next_help_heading = "Lengths")]
    pub lengths: LengthArgs,
    /// Quantise the weights to 8 bits first
    #[arg(long, help_heading = "Speed and memory", conflicts_with_all = ["eval_lengths"])]
    pub int8: bool,
    /// Print one JSON object, or one per length
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}
