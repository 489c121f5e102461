//! Measures a training step of burn-nn's own encoder and decoder, to compare it with
//! `train bench --what train`.
//!
//! Both programs use the same shapes, random batches without padding, dropout 0.1 and Adam. This
//! program prints the median time of at least five steps after three warm-up steps. It uses the
//! system's allocator and no label smoothing, because burn-nn is faster that way.
//!
//! Run it with `cargo run --release --example burn_nn -- tiny`. The argument names the
//! shapes: `tiny` (the default), `copy` or `base`.

#[path = "burn_nn/model.rs"]
mod model;

use std::time::{Duration, Instant};

use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Int, Tensor};
use training::memory::peak_rss_bytes;

use model::Model;

fn main() {
    let shape = std::env::args().nth(1).unwrap_or_else(|| "tiny".into());
    let [vocab_size, d_model, n_heads, n_layers, d_ff, batch, length] = match shape.as_str() {
        "tiny" => [16, 64, 4, 2, 256, 32, 16],
        "copy" => [11, 512, 8, 2, 2048, 80, 10],
        "base" => [10_000, 512, 8, 6, 2048, 16, 64],
        other => {
            eprintln!("{other} is no shape; there are tiny, copy and base");
            std::process::exit(2);
        }
    };
    let device = Device::flex().autodiff();
    let mut model = Model::new([vocab_size, d_model, n_heads, n_layers, d_ff], &device);
    let mut adam = AdamConfig::new().init();
    let ids = || {
        let range = Distribution::Uniform(3.0, vocab_size as f64);
        Tensor::<2, Int>::random([batch, length], range, &device)
    };
    let loss = CrossEntropyLossConfig::new().init(&device);
    let (warm_up, steps, seconds) = (3, 5, Duration::from_secs(5));
    let mut times = Vec::new();
    let mut begun = Instant::now();
    while times.len() < warm_up + steps || begun.elapsed() < seconds {
        if times.len() == warm_up {
            begun = Instant::now();
        }
        let step = Instant::now();
        let logits = model.forward(ids(), ids());
        let logits = logits.reshape([(batch * length) as i32, vocab_size as i32]);
        let loss = loss.forward(logits, ids().reshape([-1]));
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = adam.step(1e-4, model, gradients);
        device.sync().expect("flex has nothing to wait for");
        times.push(1e3 * step.elapsed().as_secs_f64());
    }
    let mut times = times.split_off(warm_up);
    times.sort_by(f64::total_cmp);
    println!(
        "burn-nn, {shape}: {:.1} ms a step, {} MiB",
        times[times.len() / 2],
        peak_rss_bytes().map_or(0, |bytes| bytes >> 20)
    );
}
