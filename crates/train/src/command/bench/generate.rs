//! Targets from sources, by random weights, of a fixed length.

use std::time::Instant;

use anyhow::Result;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde::Serialize;
use transformer::Transformer;
use transformer::generate::{GenerateConfig, LengthPenalty, Method};

use super::{BOS, Bench, EOS, Sizes, mebibytes};
use crate::cli::check_generation;
use crate::memory::{forget_peak_rss, peak_rss_bytes};

/// Runs of which the best counts, after one that does not.
const RUNS: usize = 3;

/// One line of the result.
#[derive(Clone, Debug, Serialize)]
struct Measurement {
    what: &'static str,
    shape: &'static str,
    backend: String,
    /// Sources at a time.
    batch: usize,
    /// Tokens of each source and target.
    length: usize,
    /// Layers a side.
    n_layers: usize,
    /// Whether fast paths were taken.
    fused: bool,
    /// Width of the beam; 1 is greedy decoding.
    beam: usize,
    /// Target tokens a second, of one hypothesis for each source.
    tokens_per_second: f64,
    /// The most memory that the process held meanwhile, where the system tells.
    peak_rss_bytes: Option<u64>,
}

pub(super) const HEADER: &str = "shape  batch  beam   tokens/s  peak memory  backend";

/// Measures one shape; prints a line for each batch and beam.
pub(super) fn run(bench: &Bench) -> Result<()> {
    let sizes = &bench.sizes;
    let model_config = sizes.config();
    let model = model_config.init_seeded(0, &bench.device)?;
    let batches = bench
        .args
        .batch_size
        .map_or(vec![1, sizes.batch], |only| vec![only]);
    let beams = bench.args.beam.map_or(vec![1, 5], |only| vec![only]);
    for &batch in &batches {
        for &beam in &beams {
            let config = generation(sizes, beam);
            check_generation(&config, &model_config, batch)?;
            forget_peak_rss();
            let measurement = Measurement {
                what: "generate",
                shape: bench.shape.name(),
                backend: bench.name.to_string(),
                batch,
                length: sizes.length,
                n_layers: sizes.n_layers,
                fused: !bench.args.no_fused,
                beam,
                tokens_per_second: speed(&model, sizes, batch, &config)?,
                peak_rss_bytes: peak_rss_bytes(),
            };
            bench.print(&measurement, || {
                format!(
                    "{:<5}  {:>5}  {:>4}  {:>9.0}  {:>11}  {}",
                    measurement.shape,
                    measurement.batch,
                    measurement.beam,
                    measurement.tokens_per_second,
                    mebibytes(measurement.peak_rss_bytes),
                    measurement.backend
                )
            })?;
        }
    }
    Ok(())
}

/// Greedy decoding, or a beam, to the full length.
fn generation(sizes: &Sizes, beam: usize) -> GenerateConfig {
    let method = match beam {
        1 => Method::Greedy,
        width => Method::Beam {
            width,
            length_penalty: LengthPenalty::Average,
        },
    };
    GenerateConfig::new(BOS, sizes.length)
        .with_eos_id(Some(EOS))
        .with_min_length(sizes.length)
        .with_method(method)
}

/// Target tokens a second, of targets of a fixed length.
fn speed(model: &Transformer, sizes: &Sizes, batch: usize, config: &GenerateConfig) -> Result<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let sources: Vec<Vec<u32>> = (0..batch).map(|_| sizes.sequence(&mut rng)).collect();
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
    Ok((batch * sizes.length) as f64 / best)
}
