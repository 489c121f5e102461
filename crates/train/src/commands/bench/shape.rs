//! Sizes of the measured models and sequences.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use training::error::UsageError;
use transformer::{NormPlacement, TransformerConfig};

use crate::args::{BenchArgs, Shape, name_of, set};

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
        (0..self.length)
            .map(|_| rng.random_range(ids.clone()))
            .collect()
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
    let (flag, value, other) = match args.batch_size {
        Some(_) => ("--batch-size", batch, length),
        None => ("--length", length, batch),
    };
    let (most, name) = (MOST_TOKENS / other, name_of(shape));
    let expected =
        format!("must be at most {most} for batches of {batch} x {length} tokens, of shape {name}");
    Err(UsageError::new(flag, value, expected))
}
