//! Measures matmul: `cargo bench -p fused --bench matmul`.
//!
//! - `base`: a decoding step of the base model of Vaswani et al. (2017), in bytes of weights per
//!   second. A step reads 109 MB of weights: six decoder layers, and an output layer for a
//!   vocabulary of 10,000 tokens. For comparison, `plain read` reads the same weights on all
//!   threads, except for a few elements, and only adds them up.
//! - `training`: the linear layers of a training step except the output layer, forward and
//!   backward, in floating-point operations per second. The model is the Annotated Transformer's
//!   copy model, with 800 source tokens and 800 target tokens.
//! - `vocabulary`: the logits of 64 sentences for half of NLLB's vocabulary, whose matrix is also
//!   the embedding, in floating-point operations per second.
#![allow(missing_docs)] // Criterion's macros create public functions.

use std::hint::black_box;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use fused::{Matrix, matmul};
use pulp::Arch;
use rayon::prelude::*;

/// Shapes `(input width, output width)` of the weights that a decoding step reads in one decoder
/// layer.
const LAYER: [(usize, usize); 6] = [
    (512, 1536),
    (512, 512),
    (512, 512),
    (512, 512),
    (512, 2048),
    (2048, 512),
];

fn step(criterion: &mut Criterion) {
    let shapes: Vec<(usize, usize)> = LAYER
        .iter()
        .cycle()
        .take(36)
        .copied()
        .chain([(512, 10_000)])
        .collect();
    let weights: Vec<Vec<f32>> = shapes
        .iter()
        .map(|(k, n)| (0..k * n).map(|i| (i % 1000) as f32 / 1e4).collect())
        .collect();
    let elements: usize = weights.iter().map(Vec::len).sum();
    let mut group = criterion.benchmark_group("base");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    group.throughput(Throughput::Bytes(4 * elements as u64));
    group.bench_function("plain read", |bencher| {
        let sum = |part: &[f32]| {
            Arch::new().dispatch(|| {
                let mut sums = [0.0f32; 64];
                for chunk in part.as_chunks::<64>().0 {
                    for (sum, x) in sums.iter_mut().zip(chunk) {
                        *sum += x;
                    }
                }
                sums.iter().sum::<f32>()
            })
        };
        let threads = rayon::current_num_threads();
        bencher.iter(|| -> f32 {
            let of = |weights: &Vec<f32>| -> f32 {
                weights
                    .par_chunks(weights.len().div_ceil(threads))
                    .map(sum)
                    .sum()
            };
            weights.iter().map(of).sum()
        });
    });
    for m in [1, 5, 16, 80] {
        let (x, mut y) = (vec![0.5; m * 2048], vec![0.0; m * 10_000]);
        group.bench_function(format!("{m} rows"), |bencher| {
            bencher.iter(|| {
                for (&(rows, columns), data) in shapes.iter().zip(&weights) {
                    let w = Matrix {
                        data,
                        rows,
                        columns,
                        row_stride: columns,
                        column_stride: 1,
                    };
                    let x = Matrix::contiguous(&x[..m * rows], m, rows);
                    let y = &mut y[..m * columns];
                    matmul(x, w, None, y);
                    black_box(y);
                }
            });
        });
    }
    group.finish();
}

/// Linear layers of two encoder layers and two decoder layers. Each entry holds the input width,
/// the output width, and the number of linear layers with these widths.
const LINEAR: [(usize, usize, u64); 5] = [
    (512, 1536, 4),
    (512, 512, 8),
    (512, 1024, 2),
    (512, 2048, 4),
    (2048, 512, 4),
];

fn transposed(data: &[f32], rows: usize, columns: usize) -> Matrix<'_> {
    Matrix {
        data,
        rows,
        columns,
        row_stride: 1,
        column_stride: rows,
    }
}

fn training(criterion: &mut Criterion) {
    const TOKENS: usize = 800;
    let elements: Vec<f32> = (0..2048 * 2048).map(|i| (i % 1000) as f32 / 1e4).collect();
    let mut y = vec![0.0; 2048 * 2048];
    let mut group = criterion.benchmark_group("training");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    let multiply_adds: u64 = LINEAR
        .iter()
        .map(|&(inputs, outputs, times)| (TOKENS * inputs * outputs) as u64 * times)
        .sum();
    group.throughput(Throughput::Elements(2 * multiply_adds));
    for (name, of) in [("y = x W", 0), ("gradients of x", 1), ("gradients of W", 2)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for (inputs, outputs, times) in LINEAR {
                    let plain = |rows, columns| {
                        Matrix::contiguous(&elements[..rows * columns], rows, columns)
                    };
                    let (x, w) = match of {
                        0 => (plain(TOKENS, inputs), plain(inputs, outputs)),
                        1 => (
                            plain(TOKENS, outputs),
                            transposed(&elements, outputs, inputs),
                        ),
                        _ => (
                            transposed(&elements, inputs, TOKENS),
                            plain(TOKENS, outputs),
                        ),
                    };
                    for _ in 0..times {
                        let y = &mut y[..x.rows * w.columns];
                        matmul(x, w, None, y);
                        black_box(y);
                    }
                }
            });
        });
    }
    group.finish();
}

fn vocabulary(criterion: &mut Criterion) {
    const D_MODEL: usize = 1024;
    const VOCABULARY: usize = 131_072;
    let mut group = criterion.benchmark_group("vocabulary");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    let embedding: Vec<f32> = (0..D_MODEL * VOCABULARY)
        .map(|i| (i % 1000) as f32 / 1e4)
        .collect();
    let m = 64;
    let (x, mut y) = (vec![0.5; m * D_MODEL], vec![0.0; m * VOCABULARY]);
    group.throughput(Throughput::Elements((2 * m * D_MODEL * VOCABULARY) as u64));
    group.bench_function(format!("{m} rows"), |bencher| {
        bencher.iter(|| {
            let w = transposed(&embedding, D_MODEL, VOCABULARY);
            matmul(Matrix::contiguous(&x, m, D_MODEL), w, None, &mut y);
            black_box(&y);
        });
    });
    group.finish();
}

criterion_group!(benches, step, training, vocabulary);
criterion_main!(benches);
