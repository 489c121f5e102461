//! Measures the time to generate targets of a fixed length with a small model, the time to read a
//! prompt, and the time of the search alone.
//!
//! Run with `cargo bench -p transformer --bench generate`.
#![allow(missing_docs)] // Criterion's macros create public functions.

use burn::tensor::Device;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use transformer::generate::{Autoregressive, GenerateConfig, LengthPenalty, Method, Search};
use transformer::{NormPlacement, TransformerConfig};

const LENGTH: usize = 16;

fn config(width: usize) -> GenerateConfig {
    let method = match width {
        1 => Method::Greedy,
        width => Method::Beam {
            width,
            length_penalty: LengthPenalty::Average,
        },
    };
    GenerateConfig::new(LENGTH)
        .with_bos_id(Some(1))
        .with_eos_id(Some(2))
        .with_min_length(LENGTH)
        .with_method(method)
}

/// Measures generation with a model of the sizes that the command `train bench` calls `tiny`.
fn tiny(criterion: &mut Criterion) {
    let model = TransformerConfig::new(16, 16)
        .with_d_model(64)
        .with_n_heads(4)
        .with_d_ff(256)
        .with_n_encoder_layers(2)
        .with_n_decoder_layers(2)
        .with_max_len(LENGTH)
        .with_norm_placement(NormPlacement::Pre)
        .init_seeded(0, &Device::flex())
        .expect("the configuration is valid");
    let mut group = criterion.benchmark_group("tiny");
    for batch in [1, 32] {
        let sources: Vec<Vec<u32>> = (0..batch)
            .map(|row| {
                (0..LENGTH as u32)
                    .map(|i| 3 + (row * 5 + i * 7) % 13)
                    .collect()
            })
            .collect();
        group.throughput(Throughput::Elements(u64::from(batch) * LENGTH as u64));
        for width in [1, 5] {
            let config = config(width);
            group.bench_function(format!("batch {batch}, beam {width}"), |bencher| {
                bencher.iter(|| {
                    model
                        .generate(&sources, &config)
                        .expect("the input is valid")
                });
            });
        }
    }
    group.finish();
}

/// Measures the first token after a prompt of 512 tokens, by a language model.
fn prompt(criterion: &mut Criterion) {
    let decoder = TransformerConfig::new(1, 32_000)
        .with_d_model(256)
        .with_n_heads(4)
        .with_d_ff(1024)
        .with_n_decoder_layers(4)
        .with_max_len(520)
        .decoder()
        .with_cross_attention(false)
        .init(&Device::flex())
        .expect("the configuration is valid");
    let prompt: Vec<u32> = (0..512).map(|i| i * 61 % 32_000).collect();
    let config = GenerateConfig::new(513);
    criterion.bench_function("prompt of 512 tokens", |bencher| {
        bencher.iter(|| {
            decoder
                .complete(None, &[&prompt], &config)
                .expect("the input is valid")
        });
    });
}

/// A model that takes almost no time, because its logits are always the same.
struct Free(Vec<f32>);

impl Autoregressive for Free {
    fn vocab_size(&self) -> usize {
        self.0.len()
    }

    fn step(&mut self, _: &[usize], tokens: &[u32]) -> Vec<f32> {
        self.0.repeat(tokens.len())
    }
}

/// Measures the search without a real model, with a vocabulary of 10,000 tokens.
fn search(criterion: &mut Criterion) {
    let logits: Vec<f32> = (0..10_000)
        .map(|i| ((i * 7919) % 10_007) as f32 / 1e3)
        .collect();
    let mut group = criterion.benchmark_group("search alone, 16 sources");
    group.throughput(Throughput::Elements(16 * LENGTH as u64));
    for width in [1, 5] {
        group.bench_function(format!("beam {width}"), |bencher| {
            bencher.iter(|| {
                let model = Free(logits.clone());
                let prefixes = vec![Vec::new(); 16];
                let search = Search::new(model, prefixes, config(width));
                let search = search.expect("the configuration is valid");
                search.run().expect("the logits are finite")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, tiny, prompt, search);
criterion_main!(benches);
