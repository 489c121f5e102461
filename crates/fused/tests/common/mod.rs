//! Test data and comparisons.
#![allow(dead_code)] // Each test program uses only some of these functions.

use burn::tensor::TensorData;

/// Returns `n` elements from -1 to 1 that look random but depend only on the index and `seed`.
pub fn elements(n: usize, seed: usize) -> Vec<f64> {
    let number = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f64 / 1001.0 - 1.0;
    (0..n).map(number).collect()
}

/// Returns [`elements`] in f32, times `scale`.
pub fn floats(n: usize, seed: usize, scale: f32) -> Vec<f32> {
    let elements = elements(n, seed).into_iter();
    elements.map(|x| x as f32 * scale).collect()
}

/// Checks that the elements of `actual` and `expected` agree within `tolerance`.
///
/// Differences are relative to the largest expected absolute value, or to 1 if all are smaller.
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
