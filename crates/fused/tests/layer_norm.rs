//! Compares layer norm with the formula in f64, and its gradients with finite differences of the
//! formula.

mod common;

use burn::tensor::{Device, Tensor, TensorData};
use common::{assert_close, elements};
use proptest::prelude::*;

const EPSILON: f64 = 1e-5;
const TOLERANCE: f64 = 2e-5;

/// Returns the layer norm of each row or, if `beta` is empty, its RMS norm.
fn by_hand(x: &[f64], gamma: &[f64], beta: &[f64]) -> Vec<f64> {
    let width = gamma.len();
    let zeros = vec![0.0; width];
    let (factor, beta) = match beta {
        [] => (0.0, &zeros[..]),
        beta => (1.0, beta),
    };
    let row = |x: &[f64]| -> Vec<f64> {
        let mean = factor * x.iter().sum::<f64>() / width as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
        let scaled = x.iter().zip(gamma).zip(beta);
        scaled
            .map(|((x, gamma), beta)| (x - mean) / (variance + EPSILON).sqrt() * gamma + beta)
            .collect()
    };
    x.chunks(width).flat_map(row).collect()
}

fn check(rows: usize, width: usize, offset: f64, seed: usize) {
    for with_beta in [true, false] {
        check_one(rows, width, offset, seed, with_beta);
    }
}

fn check_one(rows: usize, width: usize, offset: f64, seed: usize, with_beta: bool) {
    let x: Vec<f64> = elements(rows * width, seed)
        .iter()
        .map(|x| x + offset)
        .collect();
    let (gamma, mut beta) = (elements(width, seed + 1), elements(width, seed + 2));
    let dy = elements(rows * width, seed + 3);
    let device = Device::flex().autodiff();
    let data = |elements: &[f64]| -> Vec<f32> { elements.iter().map(|&x| x as f32).collect() };
    let matrix = |elements: &[f64]| {
        Tensor::<2>::from_data(TensorData::new(data(elements), [rows, width]), &device)
    };
    let row = |elements: &[f64]| {
        Tensor::<1>::from_data(TensorData::new(data(elements), [width]), &device).require_grad()
    };
    let leaves = (matrix(&x).require_grad(), row(&gamma), row(&beta));
    let given = with_beta.then(|| leaves.2.clone());
    let y = fused::layer_norm(leaves.0.clone(), leaves.1.clone(), given, EPSILON);
    if !with_beta {
        beta.clear();
    }
    let gradients = (y.clone() * matrix(&dy)).sum().backward();
    assert_close("y", &y.into_data(), &by_hand(&x, &gamma, &beta), TOLERANCE);

    let loss = |x: &[f64], gamma: &[f64], beta: &[f64]| -> f64 {
        let y = by_hand(x, gamma, beta);
        y.iter().zip(&dy).map(|(y, dy)| y * dy).sum()
    };
    let differences = |at: &[f64], loss: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        let step = 1e-5;
        let moved = |i: usize, by: f64| {
            let mut at = at.to_vec();
            at[i] += by;
            loss(&at)
        };
        (0..at.len())
            .map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step))
            .collect()
    };
    let found = leaves.0.grad(&gradients).unwrap().into_data();
    assert_close(
        "dx",
        &found,
        &differences(&x, &|x| loss(x, &gamma, &beta)),
        TOLERANCE,
    );
    let found = leaves.1.grad(&gradients).unwrap().into_data();
    let expected = differences(&gamma, &|gamma| loss(&x, gamma, &beta));
    assert_close("dgamma", &found, &expected, TOLERANCE);
    let found = leaves.2.grad(&gradients);
    assert_eq!(found.is_some(), with_beta);
    let Some(found) = found.map(Tensor::into_data) else {
        return;
    };
    let expected = differences(&beta, &|beta| loss(&x, &gamma, beta));
    assert_close("dbeta", &found, &expected, TOLERANCE);
}

#[test]
fn values_and_gradients_follow_the_formula() {
    for (rows, width) in [(1, 2), (3, 8), (7, 33), (5, 64), (2, 70)] {
        check(rows, width, 0.0, 5);
    }
    // With a mean far from zero, only the rounding of the inputs to f32 may reduce the precision.
    check(3, 40, 5.0, 6);
}

#[test]
fn sums_over_many_rows_are_complete() {
    let device = Device::flex().autodiff();
    let [rows, width] = [3000, 24];
    let x = elements(rows * width, 1)
        .iter()
        .map(|&x| x as f32)
        .collect();
    let x = Tensor::<2>::from_data(TensorData::new::<f32, _>(x, [rows, width]), &device);
    let gamma = Tensor::<1>::ones([width], &device).require_grad();
    let beta = Tensor::<1>::zeros([width], &device).require_grad();
    let y = fused::layer_norm(x, gamma.clone(), beta.clone(), EPSILON);
    let gradients = (y.clone() * y.clone()).sum().backward();
    // The loss is `Σ y²`. Gamma is 1 and beta is 0, so `y` holds the normalised rows. Therefore,
    // `dgamma = 2 Σ y²` and `dbeta = 2 Σ y`, which are sums over the rows.
    let expected: Vec<f64> = y.clone().square().sum_dim(0).into_data().iter().collect();
    let expected: Vec<f64> = expected.iter().map(|x| 2.0 * x).collect();
    let found = gamma.grad(&gradients).unwrap().into_data();
    assert_close("dgamma", &found, &expected, TOLERANCE);
    let expected: Vec<f64> = y.sum_dim(0).into_data().iter().collect();
    let expected: Vec<f64> = expected.iter().map(|x| 2.0 * x).collect();
    let found = beta.grad(&gradients).unwrap().into_data();
    assert_close("dbeta", &found, &expected, TOLERANCE);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn any_size_follows_the_formula(rows in 1..6usize, width in 2..40usize, seed in 0..1000usize) {
        check(rows, width, 0.3, seed);
    }
}

#[test]
#[should_panic(expected = "x is [1, 3], but gamma is [2] and beta [3]")]
fn different_sizes_are_rejected() {
    let device = Device::flex();
    let ones = |n: usize| Tensor::<1>::ones([n], &device);
    fused::layer_norm(Tensor::ones([1, 3], &device), ones(2), ones(3), EPSILON);
}

#[test]
fn rms_norm_has_the_same_bits_without_autodiff() {
    let norm = |device: &Device| {
        let data = |shape: &[usize], seed| {
            let elements = elements(shape.iter().product(), seed);
            TensorData::from(&elements.iter().map(|&x| x as f32).collect::<Vec<f32>>()[..])
        };
        // A transposed tensor is not contiguous.
        let x = Tensor::<1>::from_data(data(&[37, 5], 1), device).reshape([37, 5]);
        let gamma = Tensor::<1>::from_data(data(&[37], 2), device);
        fused::layer_norm(x.transpose(), gamma, None, EPSILON).into_data()
    };
    let device = Device::flex();
    assert_eq!(norm(&device), norm(&device.autodiff()));
}
