//! `train bench`: how fast a backend is.

mod generate;
mod train;

use std::cell::Cell;

use anyhow::Result;
use burn::tensor::Device;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use serde::Serialize;
use transformer::{NormPlacement, TransformerConfig};

use crate::cli::{BenchArgs, Measured, Shape, needs};
use crate::device::{Backend, DeviceName};
use crate::error::UsageError;
use crate::fit::Precision;
use crate::output;

/// Ids of special tokens; sources are drawn from the others.
const BOS: u32 = 1;
const EOS: u32 = 2;

/// What is measured: a model, and sequences.
struct Sizes {
    vocab_size: usize,
    d_model: usize,
    n_heads: usize,
    n_layers: usize,
    d_ff: usize,
    batch: usize,
    length: usize,
}

impl Shape {
    /// Those that take minutes, not hours, without an accelerator.
    const USUAL: [Self; 3] = [Self::Tiny, Self::Copy, Self::Base];

    fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Copy => "copy",
            Self::Base => "base",
            Self::Big => "big",
        }
    }

    fn sizes(self) -> Sizes {
        let [vocab_size, d_model, n_heads, n_layers, d_ff, batch, length] = match self {
            Self::Tiny => [16, 64, 4, 2, 256, 32, 16],
            Self::Copy => [11, 512, 8, 2, 2048, 80, 10],
            Self::Base => [10_000, 512, 8, 6, 2048, 16, 64],
            Self::Big => [32_000, 1024, 16, 6, 4096, 32, 128],
        };
        Sizes {
            vocab_size,
            d_model,
            n_heads,
            n_layers,
            d_ff,
            batch,
            length,
        }
    }
}

impl Sizes {
    fn config(&self) -> TransformerConfig {
        TransformerConfig::new(self.vocab_size, self.vocab_size)
            .with_d_model(self.d_model)
            .with_n_heads(self.n_heads)
            .with_n_encoder_layers(self.n_layers)
            .with_n_decoder_layers(self.n_layers)
            .with_d_ff(self.d_ff)
            .with_max_len(self.length.max(512))
            .with_norm_placement(NormPlacement::Pre)
    }

    /// Random tokens of the full length, none of them special.
    fn sequence(&self, rng: &mut ChaCha8Rng) -> Vec<u32> {
        let ids = EOS + 1..self.vocab_size as u32;
        (0..self.length)
            .map(|_| rng.random_range(ids.clone()))
            .collect()
    }
}

/// One shape on one backend.
struct Bench<'a> {
    args: &'a BenchArgs,
    shape: Shape,
    sizes: Sizes,
    name: DeviceName,
    device: Device,
    /// Printed before the first line of a table.
    header: &'a Cell<Option<&'static str>>,
}

impl Bench<'_> {
    /// Prints a measurement, as JSON or as a row of the table.
    fn print(&self, measurement: &impl Serialize, row: impl FnOnce() -> String) -> Result<()> {
        if self.args.json {
            return output::result(&serde_json::to_string(measurement)?);
        }
        if let Some(header) = self.header.take() {
            output::result(header)?;
        }
        output::result(&row())
    }
}

fn mebibytes(bytes: Option<u64>) -> String {
    bytes.map_or("-".into(), |bytes| {
        format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
    })
}

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, or a device that does not come up.
pub fn run(args: &BenchArgs) -> Result<()> {
    check(args)?;
    let _fast_paths = fused::fast_paths(!args.no_fused);
    let names = match args.all {
        false => vec![DeviceName::choose(args.backend.as_deref())?],
        true => Backend::ALL
            .into_iter()
            .filter(|backend| backend.is_built_in())
            .map(|backend| backend.name().parse())
            .collect::<Result<_, _>>()?,
    };
    let header = Cell::new(Some(match args.what {
        Measured::Generate => generate::HEADER,
        Measured::Train => train::HEADER,
    }));
    let shapes = args.shape.map_or(Shape::USUAL.to_vec(), |only| vec![only]);
    // What cannot be is said before anything is measured.
    for &shape in &shapes {
        sizes(args, shape)?;
    }
    let precision = args.precision.unwrap_or_default();
    for shape in shapes {
        for &name in &names {
            let sizes = sizes(args, shape)?;
            let bench = Bench {
                args,
                shape,
                sizes,
                name,
                device: name.open_as(|device| precision.configure(device))?,
                header: &header,
            };
            match args.what {
                Measured::Generate => generate::run(&bench)?,
                Measured::Train => train::run(&bench)?,
            }
        }
    }
    Ok(())
}

/// Tokens of a batch beyond which a typing error is more likely than such a machine.
const MOST_TOKENS: usize = 1 << 20;

fn sizes(args: &BenchArgs, shape: Shape) -> Result<Sizes, UsageError> {
    let own = shape.sizes();
    let sizes = Sizes {
        batch: args.batch_size.unwrap_or(own.batch),
        length: args.length.unwrap_or(own.length),
        n_layers: args.layers.unwrap_or(own.n_layers),
        ..own
    };
    let Sizes { batch, length, .. } = sizes;
    if batch * length > MOST_TOKENS {
        let (flag, value, other, what) = match args.batch_size {
            Some(_) => ("--batch-size", batch, length, "sequences of so many tokens"),
            None => ("--length", length, batch, "tokens in a batch of so many"),
        };
        let most = MOST_TOKENS / other;
        let expected = format!(
            "must be at most {most} {what}, {other}, of shape {}",
            shape.name()
        );
        return Err(UsageError::new(flag, value, expected));
    }
    Ok(sizes)
}

fn check(args: &BenchArgs) -> Result<(), UsageError> {
    for (flag, value, largest) in [
        ("--batch-size", args.batch_size, 1 << 16),
        ("--beam", args.beam, 1 << 10),
        ("--length", args.length, 1 << 14),
        ("--layers", args.layers, 1 << 6),
    ] {
        if let Some(value) = value
            && !(1..=largest).contains(&value)
        {
            let expected = format!("must be at least 1 and at most {largest}");
            return Err(UsageError::new(flag, value, expected));
        }
    }
    let is_generate = args.what == Measured::Generate;
    needs("--beam", args.beam, "--what generate", is_generate)?;
    let precision = args.precision.map(Precision::name);
    needs("--precision", precision, "--what train", !is_generate)?;
    let operations = args.operations.then_some("");
    needs("--operations", operations, "--what train", !is_generate)
}
