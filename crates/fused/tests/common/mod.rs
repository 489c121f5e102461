//! Numbers and comparisons for the tests.
#![allow(dead_code)] // each test program uses its own part

use burn::tensor::TensorData;

/// Numbers from -1 to 1 without a pattern that a sum would show.
pub fn numbers(n: usize, seed: usize) -> Vec<f64> {
    let number = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f64 / 1001.0 - 1.0;
    (0..n).map(number).collect()
}

/// The same in f32, times `scale`.
pub fn floats(n: usize, seed: usize, scale: f32) -> Vec<f32> {
    let numbers = numbers(n, seed).into_iter();
    numbers.map(|x| x as f32 * scale).collect()
}

/// Differences are relative to the largest number, or to 1 if all are small.
pub fn assert_close(name: &str, actual: &TensorData, expected: &[f64], tolerance: f64) {
    assert_eq!(actual.num_elements(), expected.len(), "{name}");
    let largest = expected.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
    for (actual, expected) in actual.iter::<f64>().zip(expected) {
        assert!(
            (actual - expected).abs() < tolerance * largest,
            "{name}: {actual}, not {expected}"
        );
    }
}
