//! ReLU and other activations, dropout, Adam, sums of squares, log-sum-exp.

use burn::tensor::{Device, TensorData};
use fused::{Activation, Adam, AdamState};

use super::common::assert_close;
use super::random::{Random, dropout_mask, leaf, lock, tensor};
use super::report;

#[test]
fn relu_with_dropout() {
    let mut random = Random::new(1);
    let _guard = lock();
    for seed in 0..60 {
        let shape = [random.size(40), random.size(300)];
        let n = shape[0] * shape[1];
        let probability = [0.0, 0.3][random.below(2)];
        let (x, dy) = (random.numbers(n, 3.0), random.numbers(n, 1.0));
        let mask = dropout_mask(seed, shape, probability);
        let device = Device::flex().autodiff();
        device.seed(seed);
        let input = leaf(&x, shape);
        let y = fused::relu(input.clone(), probability);
        let gradients = (y.clone() * tensor(&dy, shape, &device)).sum().backward();
        let (y, dx) = (y.into_data(), input.grad(&gradients).unwrap().into_data());
        let expected: Vec<f64> = (0..n).map(|i| x[i].max(0.0) * mask[i]).collect();
        assert_close(&format!("y of {shape:?}"), &y, &expected, 1e-6);
        let slope = |i: usize| f64::from(x[i] > 0.0) * mask[i];
        let expected: Vec<f64> = (0..n).map(|i| dy[i] * slope(i)).collect();
        assert_close(&format!("dx of {shape:?}"), &dx, &expected, 1e-6);
        report("relu", &[&y, &dx]);
    }
}

/// This test only compares the instruction-set levels with each other.
///
/// `tests/activation.rs` compares the results with the formulas.
#[test]
fn other_activations() {
    let mut random = Random::new(2);
    for of in Activation::all() {
        for _ in 0..15 {
            let shape = [random.size(20), 2 * random.size(140)];
            let x = leaf(&random.numbers(shape[0] * shape[1], 6.0), shape);
            let y = fused::activate(x.clone(), of, 0.0);
            let gradients = y.clone().sum().backward();
            let dx = x.grad(&gradients).unwrap().into_data();
            report("activations", &[&y.into_data(), &dx]);
        }
    }
}

/// The dropout masks must be the same at every instruction-set level, so that a seed drops the same
/// elements at all levels.
#[test]
fn dropout() {
    let mut random = Random::new(3);
    let _guard = lock();
    for seed in 0..30 {
        let shape = [random.size(60), random.size(500)];
        let probability = 0.05 + 0.9 * random.below(100) as f64 / 100.0;
        let mask = dropout_mask(seed, shape, probability);
        let dropped = mask.iter().filter(|&&x| x == 0.0).count() as f64;
        let n = mask.len() as f64;
        let deviation = (n * probability * (1.0 - probability)).sqrt();
        assert!((dropped - n * probability).abs() < 6.0 * deviation + 1.0);
        let mask: Vec<f32> = mask.iter().map(|&x| x as f32).collect();
        report("dropout", &[&TensorData::new(mask, shape)]);
    }
}

/// This test only compares the instruction-set levels with each other.
///
/// `tests/adam.rs` compares the results with the formula.
#[test]
fn adam() {
    let mut random = Random::new(4);
    for _ in 0..30 {
        let n = random.size(3000);
        let device = Device::flex();
        let mut numbers = |scale| tensor(&random.numbers(n, scale), [n], &device);
        let (parameter, moment_1, gradient) = (numbers(1.0), numbers(0.1), numbers(1.0));
        let state = AdamState {
            parameter,
            part: 0..n,
            moment_1,
            moment_2: numbers(0.1).abs(),
        };
        let adam = Adam {
            learning_rate: 0.01,
            beta_1: 0.9,
            beta_2: 0.98,
            epsilon: 1e-9,
            weight_decay: 0.1,
            time: 3,
        };
        let state = adam.step(state, gradient, None);
        let [parameter, moment_1, moment_2] =
            [state.parameter, state.moment_1, state.moment_2].map(|x| x.into_data());
        report("adam", &[&parameter, &moment_1, &moment_2]);
    }
}

#[test]
fn sums_of_squares() {
    let mut random = Random::new(5);
    for _ in 0..60 {
        let n = random.size(129) * random.size(400);
        let x = random.numbers(n, 2.0);
        let expected: f64 = x.iter().map(|x| x * x).sum();
        let sum = fused::sum_of_squares(&tensor(&x, [n], &Device::flex())).into_data();
        assert_close(&format!("of {n}"), &sum, &[expected], 1e-6);
        report("sum_of_squares", &[&sum]);
    }
}

#[test]
fn log_sum_exp() {
    let mut random = Random::new(6);
    for _ in 0..120 {
        let (n, scale) = (
            random.size(129) * random.size(100),
            [0.1, 5.0, 80.0][random.below(3)],
        );
        let x = random.numbers(n, scale);
        let largest = x.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x));
        let sum: f64 = x.iter().map(|x| (x - largest).exp()).sum();
        let x: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        let found = TensorData::from([fused::log_sum_exp(&x) as f32]);
        let expected = largest + sum.ln();
        assert_close(&format!("of {n}, to {scale}"), &found, &[expected], 1e-6);
        report("log_sum_exp", &[&found]);
    }
}
