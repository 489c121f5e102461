//! Training steps: forward pass, backward pass and Adam, with dropout.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use burn::tensor::Device;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde::Serialize;

use super::{BOS, Bench, Sizes, mebibytes};
use crate::batch::Batch;
use crate::config::RunConfig;
use crate::fit::{Learner, Precision};
use crate::memory::{forget_peak_rss, peak_rss_bytes};
use crate::output;
use crate::task::Example;

/// Steps before the measurement: backends tune, allocators fill.
const WARM_UP: usize = 3;

/// A measurement takes at least so long, and so many steps.
const SECONDS: f64 = 5.0;
const STEPS: usize = 5;

/// One line of the result.
#[derive(Clone, Debug, Serialize)]
struct Measurement {
    what: &'static str,
    shape: &'static str,
    backend: String,
    /// Sequences in a step.
    batch: usize,
    /// Tokens of each source and target.
    length: usize,
    /// Layers a side.
    n_layers: usize,
    precision: Precision,
    /// Whether fast paths were taken.
    fused: bool,
    /// Median time of a step.
    step_ms: f64,
    /// Medians of its parts.
    forward_ms: f64,
    backward_ms: f64,
    optimizer_ms: f64,
    /// Means of what its operations take, forward and backward, where they can be told apart.
    operations_ms: BTreeMap<&'static str, f64>,
    /// Target tokens a second.
    tokens_per_second: f64,
    /// Billions of floating-point operations a second, counted from the shapes.
    gflops: f64,
    /// The most memory that the process held meanwhile, where the system tells.
    peak_rss_bytes: Option<u64>,
}

pub(super) const HEADER: &str = "shape  batch  length   step ms  forward  backward  optimizer   tokens/s  GFLOP/s  peak memory  backend";

/// Measures one shape; prints a line.
pub(super) fn run(bench: &Bench) -> Result<()> {
    let sizes = &bench.sizes;
    let batch = sizes.batch;
    let precision = bench.args.precision.unwrap_or_default();
    forget_peak_rss();
    let device = bench.device.clone().autodiff();
    let model = sizes.config();
    let model = model.with_dropout(0.1);
    let config = RunConfig {
        model,
        precision,
        ..RunConfig::copy()
    };
    let mut learner = Learner::new(&config, config.model.init_seeded(0, &device)?)?;
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut parts: [Vec<f64>; 4] = Default::default();
    let mut begun = Instant::now();
    let mut profile = None;
    for index in 0.. {
        if index == WARM_UP {
            begun = Instant::now();
            profile = Some(fused::Profile::start());
        }
        let steps = index.saturating_sub(WARM_UP);
        if steps >= STEPS && begun.elapsed() >= Duration::from_secs_f64(SECONDS) {
            break;
        }
        let examples: Vec<Example> = (0..batch).map(|_| example(sizes, &mut rng)).collect();
        let times = step(&mut learner, &examples, &device)?;
        if index >= WARM_UP {
            for (part, time) in parts.iter_mut().zip(times) {
                part.push(time);
            }
        }
    }
    let steps = parts[0].len() as f64;
    let mean_ms = 1e3 * parts[0].iter().sum::<f64>() / steps;
    let operations_ms = profile
        .map(|profile| profile.times())
        .unwrap_or_default()
        .into_iter()
        .map(|(name, time)| (name, 1e3 * time.as_secs_f64() / steps))
        .collect();
    let [step, forward, backward, optimizer] = parts.map(median);
    let measurement = Measurement {
        what: "train",
        shape: bench.shape.name(),
        backend: bench.name.to_string(),
        batch,
        length: sizes.length,
        n_layers: sizes.n_layers,
        precision,
        fused: !bench.args.no_fused,
        step_ms: 1e3 * step,
        forward_ms: 1e3 * forward,
        backward_ms: 1e3 * backward,
        optimizer_ms: 1e3 * optimizer,
        operations_ms,
        tokens_per_second: (batch * sizes.length) as f64 / step,
        gflops: step_operations(sizes, batch) / step / 1e9,
        peak_rss_bytes: peak_rss_bytes(),
    };
    bench.print(&measurement, || {
        format!(
            "{:<5}  {:>5}  {:>6}  {:>8.1}  {:>7.1}  {:>8.1}  {:>9.1}  {:>9.0}  {:>7.1}  {:>11}  {}",
            measurement.shape,
            batch,
            measurement.length,
            measurement.step_ms,
            measurement.forward_ms,
            measurement.backward_ms,
            measurement.optimizer_ms,
            measurement.tokens_per_second,
            measurement.gflops,
            mebibytes(measurement.peak_rss_bytes),
            measurement.backend
        )
    })?;
    match bench.args.operations && !bench.args.json {
        true => print_operations(&measurement, mean_ms),
        false => Ok(()),
    }
}

/// A line for each kind of operation, the longest first, and one for what is left of a mean step.
fn print_operations(measurement: &Measurement, mean_ms: f64) -> Result<()> {
    let operations_ms = &measurement.operations_ms;
    let mut lines: Vec<(&str, f64)> = operations_ms
        .iter()
        .map(|(name, ms)| (*name, *ms))
        .collect();
    if lines.is_empty() {
        let why = match measurement.fused {
            true => {
                "(there are no fast paths on this backend, and Burn's operations are not told apart)"
            }
            false => "(without fast paths, Burn's operations are not told apart)",
        };
        return output::result(&format!("       {why}"));
    }
    if measurement.precision != Precision::F32 {
        let which = "(only what is computed in f32 is told apart)";
        output::result(&format!("       {which}"))?;
    }
    lines.sort_by(|left, right| right.1.total_cmp(&left.1));
    let rest = mean_ms - lines.iter().map(|line| line.1).sum::<f64>();
    for (name, ms) in lines.into_iter().chain([("others", rest)]) {
        let share = 100.0 * ms / mean_ms;
        output::result(&format!("       {name:<13}  {ms:>8.2} ms  {share:>4.1} %"))?;
    }
    Ok(())
}

/// As many source as target tokens; the target is shifted by one.
fn example(sizes: &Sizes, rng: &mut ChaCha8Rng) -> Example {
    let source = sizes.sequence(rng);
    let mut target = vec![BOS];
    target.extend(&source);
    Example { source, target }
}

/// Seconds of the whole step, its forward pass, its backward pass and its update.
fn step(learner: &mut Learner, examples: &[Example], device: &Device) -> Result<[f64; 4]> {
    let begun = Instant::now();
    let batch = Batch::new(examples, 0, device);
    let tokens = batch.tokens;
    let loss = learner.loss(batch, tokens);
    device.sync()?;
    let forward = begun.elapsed();
    let gradients = learner.gradients(loss);
    device.sync()?;
    let backward = begun.elapsed();
    learner.update(1e-4, gradients, None, 1.0);
    device.sync()?;
    let step = begun.elapsed();
    Ok([step, forward, backward - forward, step - backward].map(|time| time.as_secs_f64()))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Floating-point operations of the matrix products of a step: a backward pass has twice the
/// forward pass's. Nothing else is counted.
fn step_operations(sizes: &Sizes, batch: usize) -> f64 {
    let &Sizes {
        vocab_size,
        d_model,
        n_layers,
        d_ff,
        length,
        ..
    } = sizes;
    let [v, d, n, f, t] = [vocab_size, d_model, n_layers, d_ff, length].map(|x| x as f64);
    let attention = 4.0 * d * d + 2.0 * t * d;
    let feed_forward = 2.0 * d * f;
    let per_token = n * (3.0 * attention + 2.0 * feed_forward) + d * v;
    3.0 * 2.0 * per_token * (batch * length) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Shape;

    #[test]
    fn operations_are_those_of_the_products() {
        // By hand: 3 attentions of 4 products of [8, 8] and two of [16, 8], 2 feed-forward
        // networks of 2 products of [8, 32], and logits of 16.
        let sizes = Sizes {
            vocab_size: 16,
            d_model: 8,
            n_heads: 2,
            n_layers: 1,
            d_ff: 32,
            batch: 3,
            length: 16,
        };
        let macs = 3 * (4 * 8 * 8 + 2 * 16 * 8) + 2 * 2 * 8 * 32 + 8 * 16;
        assert_eq!(step_operations(&sizes, 3), f64::from(6 * macs * 3 * 16));
        // A base step is known to be about 3.0e11.
        let base = Shape::Base.sizes();
        let operations = step_operations(&base, base.batch);
        assert!((operations / 3.0e11 - 1.0).abs() < 0.05, "{operations:e}");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![5.0]), 5.0);
    }
}
