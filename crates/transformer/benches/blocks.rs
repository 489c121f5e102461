//! Measures the forward and backward pass of each block of the base model of Vaswani et al. (2017),
//! with and without the operations of `fused`. The inputs are 16 sequences of 64 tokens.
//!
//! Run with `cargo bench -p transformer --bench blocks`.
#![allow(missing_docs)] // Criterion's macros create public functions.

use std::hint::black_box;

use burn::tensor::{Device, Distribution, Int, Tensor};
use criterion::{Criterion, criterion_group, criterion_main};
use transformer::{AttentionMask, CrossEntropy, Memory, TransformerConfig};

const BATCH: usize = 16;
const LENGTH: usize = 64;
const VOCAB_SIZE: usize = 10_000;

fn random(width: usize, device: &Device) -> Tensor<3> {
    let uniform = Distribution::Uniform(-1.0, 1.0);
    Tensor::random([BATCH, LENGTH, width], uniform, device).require_grad()
}

fn backward<const D: usize>(y: Tensor<D>) {
    black_box(y.sum().backward());
}

fn blocks(criterion: &mut Criterion) {
    let device = Device::flex().autodiff();
    device.seed(0);
    let config = TransformerConfig::new(VOCAB_SIZE, VOCAB_SIZE)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(1)
        .with_dropout(0.1);
    let valid = "the configuration is valid";
    let model = config.init_seeded(0, &device).expect(valid);
    let (encoder, decoder) = (&model.encoder, &model.decoder);
    let layer = config.encoder().layer;
    let self_attention = layer.attention.init_self_attention(&device).expect(valid);
    let cross_attention = layer.attention.init_cross_attention(&device).expect(valid);
    let feed_forward = layer.feed_forward.init(&device).expect(valid);
    let loss = CrossEntropy::new(0.1).expect(valid);

    let (x, states) = (
        random(config.d_model, &device),
        random(config.d_model, &device),
    );
    let logits = random(VOCAB_SIZE, &device);
    let ids = Distribution::Uniform(1.0, VOCAB_SIZE as f64);
    let ids = Tensor::<2, Int>::random([BATCH, LENGTH], ids, &device);
    let mask = AttentionMask::causal(LENGTH, &device);
    // An autodiff graph allows only one backward pass. All passes of this benchmark use the memory,
    // so it is detached from its graph.
    let encoded = model.encode(ids.clone(), None).states().clone();
    let memory = Memory::new(encoded.detach(), None);
    for is_fused in [true, false] {
        let _fast_paths = fused::fast_paths(is_fused);
        let mut group = criterion.benchmark_group(if is_fused { "fused" } else { "plain" });
        group.sample_size(10);
        let mut bench = |name: &str, run: &(dyn Fn() + Sync)| {
            group.bench_function(name, |bencher| {
                bencher.iter(|| fused::in_pool(&device, run));
            });
        };
        bench("input layer", &|| {
            backward(encoder.input.forward(ids.clone(), 0))
        });
        bench("self-attention", &|| {
            backward(self_attention.forward(x.clone(), Some(&mask), None));
        });
        bench("cross-attention", &|| {
            backward(cross_attention.forward(x.clone(), states.clone(), None));
        });
        bench("feed-forward", &|| {
            backward(feed_forward.forward(x.clone()))
        });
        bench("encoder layer", &|| {
            backward(encoder.forward_layers(x.clone(), None));
        });
        bench("decoder layer", &|| {
            let mut cache = decoder.new_cache();
            backward(decoder.forward_layers(x.clone(), &memory, &mut cache));
        });
        bench("generator", &|| backward(decoder.logits(x.clone())));
        bench("loss", &|| {
            backward(loss.forward(logits.clone(), ids.clone()));
        });
        group.finish();
    }
}

criterion_group!(benches, blocks);
criterion_main!(benches);
