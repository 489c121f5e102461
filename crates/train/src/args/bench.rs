//! Flags of `bench`.

use clap::{Args, ValueEnum};
use training::config::Precision;

use super::parse::{chosen, whole_within};

/// Kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Measured {
    /// Generation with random weights, outputs of a fixed length
    Generate,
    /// Training steps with dropout 0.1 and Adam
    Train,
}

/// Sizes of the measured models and batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shape {
    /// d_model 64, 2 layers per side, vocabulary 16, batch 32, length 16
    Tiny,
    /// The Annotated Transformer's copy task: d_model 512, 2 layers, vocabulary 11, batch 80,
    /// length 10
    Copy,
    /// The paper's base model: d_model 512, 6 layers, vocabulary 10000, batch 16, length 64
    Base,
    /// For an accelerator: d_model 1024, 6 layers, vocabulary 32000, batch 32, length 128
    Big,
}

/// Flags of `bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// What to measure
    #[arg(long, default_value = "generate")]
    pub what: Measured,
    /// Model to measure [default: all but big]
    #[arg(long)]
    pub shape: Option<Shape>,
    /// Sequences in a batch [default: the shape's own; generate: also 1]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_within(1, 65_536))]
    pub batch_size: Option<usize>,
    /// Width of the beam, 1 for greedy decoding (generate only) [default: 1 and 5]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_within(1, 1024))]
    pub beam: Option<usize>,
    /// Tokens of every source and target [default: the shape's own]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_within(1, 16_384))]
    pub length: Option<usize>,
    /// Number of layers in the encoder, and in the decoder [default: the shape's own]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_within(1, 64))]
    pub layers: Option<usize>,
    /// Backend and device, `NAME` or `NAME:INDEX` [default: see `train backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// Number format of the model's computations (train only) [default: f32]
    #[arg(long, value_parser = chosen::<Precision>(Precision::choices))]
    pub precision: Option<Precision>,
    /// Quantise the model to 8 bits first (generate only)
    #[arg(long)]
    pub int8: bool,
    /// Switch off the fast paths, so that only the backend's own operations are used
    #[arg(long)]
    pub no_fused: bool,
    /// Measure every backend of this build
    #[arg(long, conflicts_with = "backend")]
    pub all: bool,
    /// Print one JSON object per line, with the time of each kind of operation
    #[arg(long)]
    pub json: bool,
}
