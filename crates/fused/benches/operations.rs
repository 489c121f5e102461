//! Measures operations on their fast paths and in plain Burn, with the backward pass of operations
//! that have one: `cargo bench -p fused --bench operations`. Most shapes are those of the base
//! model of Vaswani et al. (2017), with a vocabulary of 10,000 tokens and 16 sequences of 64
//! tokens.
#![allow(missing_docs)] // Criterion's macros create public functions.

use std::cell::RefCell;
use std::hint::black_box;

use burn::tensor::{Bool, Device, Distribution, Int, Tensor};
use criterion::{Criterion, criterion_group, criterion_main};
use fused::{Activation, Adam, AdamState, CacheIndex, Function};

const BATCH: usize = 16;
const LENGTH: usize = 64;
const D_MODEL: usize = 512;
const N_HEADS: usize = 8;
const D_FF: usize = 2048;
const VOCAB_SIZE: usize = 10_000;
const DROPOUT: f64 = 0.1;

/// Number of elements of the parameter that Adam updates.
const PARAMETERS: usize = 1 << 22;

const ADAM: Adam = Adam {
    learning_rate: 1e-4,
    beta_1: 0.9,
    beta_2: 0.98,
    epsilon: 1e-9,
    weight_decay: 0.0,
    time: 10,
};

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    let device = Device::flex().autodiff();
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), &device).require_grad()
}

/// Runs attention in plain Burn, forward and backward, as a model computes it where there is no
/// fast path.
fn plain_attention(query: Tensor<4>, key: Tensor<4>, value: Tensor<4>, mask: &Tensor<4, Bool>) {
    let [query, key, value] = [query, key, value].map(|x| x.swap_dims(1, 2));
    let [batch, n_heads, t, d_head] = query.dims();
    let s = key.dims()[2];
    let scores = (query / (d_head as f64).sqrt()).matmul(key.swap_dims(2, 3));
    let mask = mask.clone().expand([batch, n_heads, t, s]);
    let weights = burn::tensor::activation::softmax(scores.mask_fill(mask, -1e30), 3);
    let context = fused::dropout(weights, DROPOUT)
        .matmul(value)
        .swap_dims(1, 2);
    backward(context.reshape([batch, t, n_heads * d_head]));
}

fn backward<const D: usize>(y: Tensor<D>) {
    black_box(y.sum().backward());
}

fn operations(criterion: &mut Criterion) {
    let rows = BATCH * LENGTH;
    let device = Device::flex().autodiff();
    let x = random([rows, D_MODEL]);
    let y = random([rows, D_MODEL]);
    let inner = random([rows, D_FF]);
    let (gamma, beta) = (random([D_MODEL]), random([D_MODEL]));
    let (weight, bias) = (random([D_MODEL, D_FF]), random([D_FF]));
    let d_head = D_MODEL / N_HEADS;
    let packed = random([BATCH, LENGTH, 3 * N_HEADS, d_head]);
    let query = random([BATCH, LENGTH, N_HEADS, d_head]);
    let memory = random([BATCH, LENGTH, 2 * N_HEADS, d_head]);
    let mask = Tensor::<2, Bool>::tril_mask([LENGTH, LENGTH], 0, &device).unsqueeze();
    // `short` and `short_mask` have the shapes of the Annotated Transformer's copy task: 80
    // sequences of 10 tokens.
    let short = random([80, 10, 3 * N_HEADS, d_head]);
    let short_mask = Tensor::<2, Bool>::tril_mask([10, 10], 0, &device).unsqueeze();
    let logits = random([rows, VOCAB_SIZE]);
    let target = Tensor::<1, Int>::arange(1..rows as i64 + 1, &device);
    let (table, table_bias) = (random([D_MODEL, VOCAB_SIZE]), random([VOCAB_SIZE]));
    let plain_device = Device::flex();
    let gradient = random([PARAMETERS]).inner();
    let query_of_step = query.clone().inner().narrow(1, 0, 1);
    let scale = Tensor::<1>::from_data([0.5], &plain_device);
    for is_fused in [true, false] {
        let _fast_paths = fused::fast_paths(is_fused);
        let mut group = criterion.benchmark_group(if is_fused { "fused" } else { "plain" });
        group.sample_size(10);
        let mut bench = |name: &str, run: &dyn Fn()| {
            group.bench_function(name, |bencher| bencher.iter(run));
        };
        bench("linear", &|| {
            backward(fused::linear(x.clone(), weight.clone(), Some(bias.clone())));
        });
        bench("self-attention", &|| match fused::self_attention(
            &packed,
            N_HEADS,
            Some(&mask),
            DROPOUT,
        ) {
            Some(y) => backward(y),
            None => {
                let part = |first| packed.clone().narrow(2, first * N_HEADS, N_HEADS);
                plain_attention(part(0), part(1), part(2), &mask);
            }
        });
        bench(
            "self-attention, 80 sequences of 10 tokens",
            &|| match fused::self_attention(&short, N_HEADS, Some(&short_mask), DROPOUT) {
                Some(y) => backward(y),
                None => {
                    let part = |first| short.clone().narrow(2, first * N_HEADS, N_HEADS);
                    plain_attention(part(0), part(1), part(2), &short_mask);
                }
            },
        );
        bench("cross-attention", &|| match fused::cross_attention(
            &query,
            &memory,
            Some(&mask),
            DROPOUT,
        ) {
            Some(y) => backward(y),
            None => {
                let part = |first| memory.clone().narrow(2, first * N_HEADS, N_HEADS);
                plain_attention(query.clone(), part(0), part(1), &mask);
            }
        });
        bench("residual_norm", &|| {
            let (x, y, gamma, beta) = (x.clone(), y.clone(), gamma.clone(), beta.clone());
            backward(fused::residual_norm(x, y, gamma, beta, DROPOUT, 1e-5));
        });
        bench("residual_and_norm", &|| {
            let (x, y, gamma, beta) = (x.clone(), y.clone(), gamma.clone(), beta.clone());
            let (sum, norm) = fused::residual_and_norm(x, y, gamma, beta, DROPOUT, 1e-5);
            backward(sum + norm);
        });
        bench("residual", &|| {
            backward(fused::residual(x.clone(), y.clone(), DROPOUT));
        });
        bench("layer_norm", &|| {
            let (x, gamma, beta) = (x.clone(), gamma.clone(), beta.clone());
            backward(fused::layer_norm(x, gamma, beta, 1e-5));
        });
        let swiglu = Activation {
            function: Function::Swish,
            is_gated: true,
        };
        bench("activate (SwiGLU)", &|| {
            backward(fused::activate(inner.clone(), swiglu, DROPOUT));
        });
        bench("relu", &|| backward(fused::relu(inner.clone(), DROPOUT)));
        bench("dropout", &|| backward(fused::dropout(x.clone(), DROPOUT)));
        bench("cross_entropy", &|| {
            backward(fused::cross_entropy(logits.clone(), target.clone(), 0.1).0);
        });
        bench("linear_cross_entropy, 128 rows at a time", &|| {
            let (x, weight, bias) = (x.clone(), table.clone(), table_bias.clone());
            let (loss, _) = fused::linear_cross_entropy(x, weight, bias, target.clone(), 0.1, 128);
            backward(loss);
        });
        // This crate has no fallback in plain Burn for attention with a cache.
        if is_fused {
            bench("attention_step", &|| {
                let (query, memory) = (query_of_step.clone(), memory.clone().inner());
                let rows: Vec<u32> = (0..BATCH as u32).collect();
                black_box(fused::attention_step(
                    &query,
                    &memory,
                    CacheIndex::Rows(&rows),
                    LENGTH,
                    None,
                ));
            });
        }
        bench("sum_of_squares", &|| {
            black_box(fused::sum_of_squares(&weight.clone().inner()));
        });
        let zeros = Tensor::zeros([PARAMETERS], &plain_device);
        let moving = RefCell::new(Some(AdamState::new(zeros, 0..PARAMETERS)));
        let adam = |step: &dyn Fn(AdamState, Tensor<1>) -> AdamState| {
            let held = moving.take().expect("it was put back");
            moving.replace(Some(black_box(step(held, gradient.clone()))));
        };
        bench("Adam", &|| {
            adam(&|held, gradient| ADAM.step(held, gradient, None))
        });
        bench("Adam, and clipping", &|| {
            adam(&|held, gradient| ADAM.step(held, gradient, Some(&scale)));
        });
        bench("Adam, and the gradient's length", &|| {
            adam(&|held, gradient| ADAM.step_measured(held, gradient).0);
        });
        group.finish();
    }
}

criterion_group!(benches, operations);
criterion_main!(benches);
