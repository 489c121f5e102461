//! Measures training steps: forward pass, backward pass and Adam, with dropout.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use burn::tensor::Device;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use serde_json::json;
use training::collective::Collective;
use training::config::{Precision, RunConfig};
use training::data::share::shares;
use training::data::{Batch, Example};
use training::memory::reset_peak_rss;
use training::trainer::Learner;

use super::shape::{BOS, Bench, Sizes};

/// Number of steps before the measurement. During them, backends tune their kernels and allocators
/// reserve memory.
const WARM_UP: usize = 3;

/// Minimum duration of a measurement without `--steps`, in seconds.
const SECONDS: f64 = 5.0;

/// Minimum number of measured steps without `--steps`.
const STEPS: usize = 5;

pub(super) const HEADER: &str =
    "shape batch length step ms forward backward  update tokens/s GFLOP/s    MiB backend";

/// Measures training steps with the sizes of one shape, and prints a line with the results.
pub(super) fn run(bench: &Bench) -> Result<()> {
    let (sizes, batch) = (&bench.sizes, bench.sizes.batch);
    let precision = bench.args.precision.unwrap_or(Precision::F32);
    reset_peak_rss();
    let device = bench.device.clone().autodiff();
    let mut config = RunConfig {
        model: sizes.model.clone().with_dropout(0.1),
        ..RunConfig::copy()
    };
    config.execution.precision = precision;
    let mut learner = Learner::new(&config, config.model.init_seeded(0, &device)?)?;
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let (group, rank) = (bench.group, bench.group.rank());
    let mut parts: [Vec<f64>; 5] = Default::default();
    let given = bench.args.steps.map(|steps| (steps, 0.0));
    let (least, seconds) = given.unwrap_or((STEPS, SECONDS));
    let mut begun = Instant::now();
    let mut profile = None;
    for index in 0.. {
        if index == WARM_UP {
            begun = Instant::now();
            profile = Some(fused::Profile::start());
        }
        let steps = index.saturating_sub(WARM_UP);
        let is_done = steps >= least && begun.elapsed().as_secs_f64() >= seconds;
        // All processes take as many steps as rank 0.
        if !group.any(rank == 0 && !is_done) {
            break;
        }
        let examples: Vec<Example> = (0..batch).map(|_| example(sizes, &mut rng)).collect();
        let own = &examples[shares(&examples, group.size())[rank].clone()];
        let times = step(&mut learner, own, batch * sizes.length, &device, group)?;
        if index >= WARM_UP {
            let parts = parts.iter_mut().zip(times);
            parts.for_each(|(part, time)| part.push(time));
        }
    }
    let steps = parts[0].len() as f64;
    let times = profile.map(|profile| profile.times()).unwrap_or_default();
    let times = times.into_iter();
    let operations = times.map(|(name, time)| (name, 1e3 * time.as_secs_f64() / steps));
    let [step, forward, backward, exchange, optimizer] = parts.map(|part| 1e3 * median(part));
    let tokens_per_second = 1e3 * (batch * sizes.length) as f64 / step;
    let gflops = step_operations(sizes, batch) / step / 1e6;
    let length = sizes.length;
    let columns = format!(
        "{length:>6} {step:>7.1} {forward:>7.1} {backward:>8.1} {optimizer:>7.1} \
         {tokens_per_second:>8.0} {gflops:>7.1}"
    );
    // Times are medians, but those of operations are means, of forward and backward pass together.
    let figures = json!({
        "precision": precision,
        "step_ms": step,
        "forward_ms": forward,
        "backward_ms": backward,
        "exchange_ms": (group.size() > 1).then_some(exchange),
        "optimizer_ms": optimizer,
        "operations_ms": operations.collect::<BTreeMap<_, _>>(),
        "tokens_per_second": tokens_per_second,
        "gflops": gflops,
    });
    bench.print(batch, figures, &columns)
}

/// Returns a random example. Its target is the begin symbol followed by the source, so that source
/// and labels have the same number of tokens.
fn example(sizes: &Sizes, rng: &mut ChaCha8Rng) -> Example {
    let source = sizes.sequence(rng);
    let mut target = vec![BOS];
    target.extend(&source);
    Example { source, target }
}

/// Takes a training step with the examples of this process, and returns five durations in seconds.
///
/// These are the durations of the whole step, its forward pass, its backward pass, its exchange of
/// gradients and parameters, and its update. `tokens` is the number of labels of all processes.
fn step(
    learner: &mut Learner,
    examples: &[Example],
    tokens: usize,
    device: &Device,
    group: &dyn Collective,
) -> Result<[f64; 5]> {
    let begun = Instant::now();
    let batch = Batch::new(examples, device);
    let (loss, unsmoothed) = learner.loss(batch, tokens);
    device.sync()?;
    let forward = begun.elapsed();
    let gradients = learner.gradients(loss);
    device.sync()?;
    let backward = begun.elapsed();
    let before = learner.exchange_seconds;
    let (gradients, _) = learner.exchange(gradients, Some(unsmoothed.inner()), group);
    learner.update(1e-4, gradients, None, 1.0, group);
    device.sync()?;
    let step = begun.elapsed();
    let exchange = learner.exchange_seconds - before;
    let [step, forward, backward] = [step, forward, backward].map(|time| time.as_secs_f64());
    let update = step - backward - exchange;
    Ok([step, forward, backward - forward, exchange, update])
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the number of floating-point operations in a step. Only matmuls count. A backward pass
/// has twice as many operations as a forward pass.
fn step_operations(sizes: &Sizes, batch: usize) -> f64 {
    let (model, length) = (&sizes.model, sizes.length);
    let (v, n) = (model.target_vocab_size, model.n_encoder_layers);
    let [v, n, d, f, t] = [v, n, model.d_model, model.d_ff, length].map(|x| x as f64);
    let attention = 4.0 * d * d + 2.0 * t * d;
    let feed_forward = 2.0 * d * f;
    let per_token = n * (3.0 * attention + 2.0 * feed_forward) + d * v;
    3.0 * 2.0 * per_token * (batch * length) as f64
}

#[cfg(test)]
mod tests {
    use transformer::TransformerConfig;

    use super::*;
    use crate::commands::bench::shape::Shape;

    #[test]
    fn step_operations_count_the_matmuls() {
        // Multiplications for each token, counted by hand. Each of 3 attentions has 4 projections
        // with `[8, 8]` weights, and 2 matmuls with the keys and the values of 16 tokens, which are
        // `[16, 8]`. Each of 2 feed-forward networks has 2 matmuls with `[8, 32]` weights. The
        // matmul for the logits has `[8, 16]` weights.
        let model = TransformerConfig::new(16, 16)
            .with_d_model(8)
            .with_n_encoder_layers(1)
            .with_n_decoder_layers(1)
            .with_d_ff(32);
        let sizes = Sizes {
            model,
            batch: 3,
            length: 16,
        };
        let macs = 3 * (4 * 8 * 8 + 2 * 16 * 8) + 2 * 2 * 8 * 32 + 8 * 16;
        assert_eq!(step_operations(&sizes, 3), f64::from(6 * macs * 3 * 16));
        // A step of the base model takes about 3.0e11 operations.
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
