//! Measures generation by a model with random weights. The outputs have a fixed length.

use std::time::Instant;

use anyhow::Result;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde_json::json;
use training::memory::reset_peak_rss;
use transformer::generate::{GenerateConfig, Hypothesis, LengthPenalty, Method};
use transformer::{Transformer, weights};

use super::shape::{BOS, Bench, EOS, Sizes};
use crate::args::check_generation;

/// Number of measured repetitions, after one repetition to warm up. The fastest repetition counts.
const RUNS: usize = 3;

pub(super) const HEADER: &str = "shape batch beam tokens/s    MiB backend";

/// Measures generation with the sizes of one shape, and prints a line for each batch size and beam
/// width.
pub(super) fn run(bench: &Bench) -> Result<()> {
    let (args, sizes) = (bench.args, &bench.sizes);
    let mut model = sizes.model.init_seeded(0, &bench.device)?;
    if args.int8 {
        model = weights::quantize_int8(model);
    }
    let only = |size| vec![size];
    let batches = args.batch_size.map_or(vec![1, sizes.batch], only);
    let beams = args.beam.map_or(vec![1, 5], only);
    for &batch in &batches {
        for &beam in &beams {
            let config = generation(sizes, beam);
            check_generation(&config, &sizes.model, batch)?;
            reset_peak_rss();
            let tokens_per_second = speed(&model, sizes, batch, &config)?;
            let columns = format!("{beam:>4} {tokens_per_second:>8.0}");
            let figures = json!({
                "int8": args.int8,
                "beam": beam,
                "tokens_per_second": tokens_per_second,
            });
            bench.print(batch, figures, &columns)?;
        }
    }
    Ok(())
}

/// Returns the settings of greedy decoding if `beam` is 1, else of a beam search. All outputs have
/// exactly `sizes.length` tokens.
fn generation(sizes: &Sizes, beam: usize) -> GenerateConfig {
    let method = match beam {
        1 => Method::Greedy,
        width => Method::Beam {
            width,
            length_penalty: LengthPenalty::Average,
        },
    };
    GenerateConfig::new(sizes.length)
        .with_bos_id(Some(BOS))
        .with_eos_id(Some(EOS))
        .with_min_length(sizes.length)
        .with_method(method)
}

/// Returns the target tokens per second of the fastest repetition.
fn speed(model: &Transformer, sizes: &Sizes, batch: usize, config: &GenerateConfig) -> Result<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let sources: Vec<Vec<u32>> = (0..batch).map(|_| sizes.sequence(&mut rng)).collect();
    let mut best = f64::INFINITY;
    for run in 0..=RUNS {
        let begun = Instant::now();
        let found = model.generate(&sources, config)?;
        let seconds = begun.elapsed().as_secs_f64();
        let is_whole = |found: &Vec<Hypothesis>| found[0].tokens.len() == sizes.length;
        assert!(found.iter().all(is_whole));
        if run > 0 {
            best = best.min(seconds);
        }
    }
    Ok((batch * sizes.length) as f64 / best)
}
