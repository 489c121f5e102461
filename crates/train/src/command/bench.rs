//! `train bench`: how fast a backend is.

use std::time::Instant;

use anyhow::Result;
use burn::tensor::{Device, Tensor};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use transformer::generate::{GenerateConfig, LengthPenalty, Method};
use transformer::{NormPlacement, Transformer, TransformerConfig};

use crate::cli::{BenchArgs, Shape, check_generation};
use crate::device::DeviceName;
use crate::error::UsageError;
use crate::memory::{forget_peak_rss, peak_rss_bytes};
use crate::output;

/// Runs of which the best counts, after one that does not.
const RUNS: usize = 3;

/// Ids of special tokens; sources are drawn from the others.
const BOS: u32 = 1;
const EOS: u32 = 2;

/// One line of the result.
#[derive(Clone, Debug, Serialize)]
struct Measurement {
    what: &'static str,
    shape: &'static str,
    backend: String,
    /// Sources at a time.
    batch: usize,
    /// Width of the beam; 1 is greedy decoding.
    beam: usize,
    /// Target tokens a second, of one hypothesis for each source.
    tokens_per_second: f64,
    /// The most memory that the process held meanwhile, where the system tells.
    peak_rss_bytes: Option<u64>,
}

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
    const ALL: [Self; 3] = [Self::Tiny, Self::Copy, Self::Base];

    fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Copy => "copy",
            Self::Base => "base",
        }
    }

    fn sizes(self) -> Sizes {
        let [vocab_size, d_model, n_heads, n_layers, d_ff, batch, length] = match self {
            Self::Tiny => [16, 64, 4, 2, 256, 32, 16],
            Self::Copy => [11, 512, 8, 2, 2048, 80, 10],
            Self::Base => [10_000, 512, 8, 6, 2048, 16, 64],
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

    /// Greedy decoding, or a beam, to the full length.
    fn generation(&self, beam: usize) -> GenerateConfig {
        let method = match beam {
            1 => Method::Greedy,
            width => Method::Beam {
                width,
                length_penalty: LengthPenalty::Average,
            },
        };
        GenerateConfig::new(BOS, self.length)
            .with_eos_id(Some(EOS))
            .with_min_length(self.length)
            .with_method(method)
    }
}

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, or a device that does not come up.
pub fn run(args: &BenchArgs) -> Result<()> {
    let name = DeviceName::choose(args.backend.as_deref())?;
    for (flag, value, largest) in [
        ("--batch-size", args.batch_size, 1 << 16),
        ("--beam", args.beam, 1 << 10),
        ("--length", args.length, 1 << 14),
    ] {
        if let Some(value) = value
            && !(1..=largest).contains(&value)
        {
            let expected = format!("must be at least 1 and at most {largest}");
            return Err(UsageError::new(flag, value, expected).into());
        }
    }
    let device = name.open()?;
    let mut header = (!args.json).then_some("shape  batch  beam   tokens/s  peak memory");
    for shape in Shape::ALL {
        if args.shape.is_some_and(|only| only != shape) {
            continue;
        }
        let mut sizes = shape.sizes();
        sizes.length = args.length.unwrap_or(sizes.length);
        let model_config = sizes.config();
        let model = model_config.init_seeded(0, &device)?;
        let batches = args
            .batch_size
            .map_or(vec![1, sizes.batch], |only| vec![only]);
        let beams = args.beam.map_or(vec![1, 5], |only| vec![only]);
        for &batch in &batches {
            for &beam in &beams {
                let config = sizes.generation(beam);
                check_generation(&config, &model_config, batch)?;
                forget_peak_rss();
                let measurement = Measurement {
                    what: "generate",
                    shape: shape.name(),
                    backend: name.to_string(),
                    batch,
                    beam,
                    tokens_per_second: generate(&model, &sizes, batch, &config, &device)?,
                    peak_rss_bytes: peak_rss_bytes(),
                };
                if let Some(header) = header.take() {
                    output::result(header)?;
                }
                output::result(&measurement.line(args.json)?)?;
            }
        }
    }
    Ok(())
}

impl Measurement {
    fn line(&self, json: bool) -> Result<String> {
        if json {
            return Ok(serde_json::to_string(self)?);
        }
        let memory = self.peak_rss_bytes.map_or("-".into(), |bytes| {
            format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
        });
        Ok(format!(
            "{:<5}  {:>5}  {:>4}  {:>9.0}  {memory:>11}",
            self.shape, self.batch, self.beam, self.tokens_per_second
        ))
    }
}

/// Target tokens a second, of targets of a fixed length.
fn generate(
    model: &Transformer,
    sizes: &Sizes,
    batch: usize,
    config: &GenerateConfig,
    device: &Device,
) -> Result<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut source = || -> Vec<u32> {
        let ids = EOS + 1..sizes.vocab_size as u32;
        (0..sizes.length)
            .map(|_| rng.random_range(ids.clone()))
            .collect()
    };
    let sources: Vec<Vec<u32>> = (0..batch).map(|_| source()).collect();
    let mut best = f64::INFINITY;
    for run in 0..=RUNS {
        let begun = Instant::now();
        let found = model.generate(&sources, config)?;
        let seconds = begun.elapsed().as_secs_f64();
        assert!(
            found
                .iter()
                .all(|found| found[0].tokens.len() == sizes.length)
        );
        if run > 0 {
            best = best.min(seconds);
        }
    }
    // What is still under way on a device is not this measurement's.
    Tensor::<1>::zeros([1], device).into_data();
    Ok((batch * sizes.length) as f64 / best)
}
