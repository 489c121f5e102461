//! The element types of files, and their conversion to f32.

use burn::tensor::{bf16, f16};

use super::error::WeightsError;
use super::header::INT8;

/// Checks that a tensor has a supported floating-point type or is a quantised matrix.
pub(super) fn check_float(name: &str, dtype: &str) -> Result<(), WeightsError> {
    match dtype {
        "f64" | "f32" | "f16" | "bf16" | INT8 => Ok(()),
        _ => Err(WeightsError::Dtype {
            name: name.into(),
            dtype: dtype.into(),
            expected: "f32, f16, bf16 or f64, or i8 with scales in f32",
        }),
    }
}

/// Returns the size of an element in bytes.
///
/// # Panics
///
/// If `dtype` is not f16, bf16, f32 or f64.
pub(super) fn size_of_element(dtype: &str) -> usize {
    match dtype {
        "f32" => 4,
        "f16" | "bf16" => 2,
        "f64" => 8,
        other => unreachable!("{other} was rejected before"),
    }
}

/// Converts little-endian elements of type `dtype` to f32, and appends them to `all`.
///
/// # Panics
///
/// If `dtype` is not f16, bf16, f32 or f64.
pub(super) fn extend_f32(all: &mut Vec<f32>, dtype: &str, bytes: &[u8]) {
    fn extend<const N: usize>(all: &mut Vec<f32>, bytes: &[u8], from: impl Fn([u8; N]) -> f32) {
        all.extend(bytes.as_chunks().0.iter().map(|&x| from(x)));
    }
    match dtype {
        "f32" => extend(all, bytes, f32::from_le_bytes),
        "f16" => extend(all, bytes, |x| f16::from_le_bytes(x).to_f32()),
        "bf16" => extend(all, bytes, |x| bf16::from_le_bytes(x).to_f32()),
        "f64" => extend(all, bytes, |x| f64::from_le_bytes(x) as f32),
        other => unreachable!("{other} was rejected before"),
    }
}
