//! Flags of `bench`, the sizes of the measured models and sequences, and the printed lines.

use anyhow::Result;
use burn::tensor::Device;
use clap::{Args, ValueEnum};
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use serde_json::{Value, json};
use training::collective::Collective;
use training::config::Precision;
use training::error::UsageError;
use training::memory::peak_rss_bytes;
use transformer::{NormPlacement, TransformerConfig};

use crate::args::{chosen, name_of, set, whole_within};
use crate::device::DeviceName;
use crate::terminal::output;

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
    /// Steps to measure (train only) [default: those of 5 seconds, at least 5]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_within(1, 1_000_000))]
    pub steps: Option<usize>,
    /// Quantise the model to 8 bits first (generate only)
    #[arg(long)]
    pub int8: bool,
    /// Switch off the fast paths, so that only the backend's own operations are used
    #[arg(long)]
    pub no_fused: bool,
    /// Measure every backend of this build
    #[arg(long, conflicts_with = "backend")]
    pub all: bool,
    /// Print one JSON object per line, for --what train with the time of each kind of operation
    #[arg(long)]
    pub json: bool,
}

/// Id of the begin symbol.
pub(super) const BOS: u32 = 1;

/// Id of the end symbol. Sources consist of larger ids only.
pub(super) const EOS: u32 = 2;

/// Sizes of a model and of its batches.
pub(super) struct Sizes {
    pub(super) model: TransformerConfig,
    /// Number of sequences in a batch.
    pub(super) batch: usize,
    /// Number of tokens in each source and target.
    pub(super) length: usize,
}

impl Shape {
    /// Shapes that are measured by default. Without an accelerator they take minutes, not hours.
    pub(super) const USUAL: [Self; 3] = [Self::Tiny, Self::Copy, Self::Base];

    pub(super) fn sizes(self) -> Sizes {
        let [vocab_size, d_model, n_heads, n_layers, d_ff, batch, length] = match self {
            Self::Tiny => [16, 64, 4, 2, 256, 32, 16],
            Self::Copy => [11, 512, 8, 2, 2048, 80, 10],
            Self::Base => [10_000, 512, 8, 6, 2048, 16, 64],
            Self::Big => [32_000, 1024, 16, 6, 4096, 32, 128],
        };
        let model = TransformerConfig::new(vocab_size, vocab_size)
            .with_d_model(d_model)
            .with_n_heads(n_heads)
            .with_n_encoder_layers(n_layers)
            .with_n_decoder_layers(n_layers)
            .with_d_ff(d_ff)
            .with_norm_placement(NormPlacement::Pre);
        Sizes {
            model,
            batch,
            length,
        }
    }
}

impl Sizes {
    /// Returns a sequence of `length` random token ids without special tokens.
    pub(super) fn sequence(&self, rng: &mut ChaCha8Rng) -> Vec<u32> {
        let ids = EOS + 1..self.model.source_vocab_size as u32;
        let ids = (0..self.length).map(|_| rng.random_range(ids.clone()));
        ids.collect()
    }
}

/// Maximum number of tokens in a batch. A larger number is probably a typing error.
const MOST_TOKENS: usize = 1 << 20;

/// Returns the sizes of a shape, overridden by the flags.
///
/// # Errors
///
/// A batch of more than [`MOST_TOKENS`] tokens.
pub(super) fn sizes(args: &BenchArgs, shape: Shape) -> Result<Sizes, UsageError> {
    let mut sizes = shape.sizes();
    set(&mut sizes.batch, args.batch_size);
    set(&mut sizes.length, args.length);
    set(&mut sizes.model.n_encoder_layers, args.layers);
    set(&mut sizes.model.n_decoder_layers, args.layers);
    let (batch, length) = (sizes.batch, sizes.length);
    sizes.model.max_len = length.max(512);
    if batch * length <= MOST_TOKENS {
        return Ok(sizes);
    }
    let (flag, value, other, of) = match args.batch_size {
        Some(_) => ("--batch-size", batch, length, "sequences of {} tokens"),
        None => ("--length", length, batch, "batches of {} sequences"),
    };
    let (most, name) = (MOST_TOKENS / other, name_of(shape));
    let of = of.replace("{}", &other.to_string());
    let expected = format!("must be at most {most} for {of}, in shape {name}");
    Err(UsageError::new(flag, value, expected))
}

/// Inputs for measuring one shape on one backend. A shape is a model with its batch size and
/// sequence length.
pub(super) struct Bench<'a> {
    pub(super) args: &'a BenchArgs,
    /// Name of the shape.
    pub(super) shape: String,
    pub(super) sizes: Sizes,
    pub(super) name: DeviceName,
    pub(super) device: Device,
    /// The processes that take the measured steps together.
    pub(super) group: &'a dyn Collective,
}

impl Bench<'_> {
    /// Prints a measurement as JSON or as a row of the table. `figures` are its results, and
    /// `columns` is the text of the columns in the middle of the row.
    pub(super) fn print(&self, batch: usize, figures: Value, columns: &str) -> Result<()> {
        let Self { args, shape, .. } = self;
        let peak = peak_rss_bytes();
        if args.json {
            let mut line = json!({
                "what": name_of(args.what),
                "shape": shape,
                "backend": self.name.to_string(),
                "batch": batch,
                "length": self.sizes.length,
                "n_layers": self.sizes.model.n_encoder_layers,
                "fused": !args.no_fused,
                "peak_rss_bytes": peak,
            });
            for (name, value) in figures.as_object().into_iter().flatten() {
                line[name] = value.clone();
            }
            return output::result(&line.to_string());
        }
        let peak = peak.map_or("-".into(), |peak| (peak >> 20).to_string());
        let name = self.name;
        output::result(&format!("{shape:<5} {batch:>5} {columns} {peak:>6} {name}"))
    }
}
