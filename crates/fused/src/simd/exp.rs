//! Exponentials of slices, and log-sum-exp, which normalises a softmax.

use pulp::{Simd, WithSimd};

use super::level::arch;

/// Returns the log-sum-exp `ln Σ exp(x)` of a slice, or minus infinity if the slice is empty. NaNs
/// are skipped.
///
/// The relative error of the sum is below 2e-5, and usually below 1e-6. Within one instruction-set
/// level, the result depends only on the slice.
///
/// ```
/// let x = [0.5f32, -1.0, 2.0];
/// let exact = x.iter().map(|&x| f64::from(x).exp()).sum::<f64>().ln();
/// assert!((fused::log_sum_exp(&x) - exact).abs() < 1e-6);
/// ```
pub fn log_sum_exp(x: &[f32]) -> f64 {
    let largest = arch().dispatch(Largest(x));
    if largest.is_infinite() {
        return largest.into();
    }
    let sum = arch().dispatch(SumOfExp { x, largest });
    f64::from(largest) + sum.ln()
}

struct Largest<'a>(&'a [f32]);

impl WithSimd for Largest<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        largest(simd, self.0)
    }
}

/// Returns the largest element that is not NaN, or minus infinity if there is none.
#[inline(always)]
pub(crate) fn largest<S: Simd>(simd: S, x: &[f32]) -> f32 {
    let (vectors, tail) = S::as_simd_f32s(x);
    let lowest = simd.splat_f32s(f32::NEG_INFINITY);
    // For NaN, the comparison is false and selects `m`, the largest element so far.
    let larger = |m, x| simd.select_f32s(simd.greater_than_f32s(x, m), x, m);
    let mut m = vectors.iter().fold(lowest, |m, &x| larger(m, x));
    if !tail.is_empty() {
        let is_loaded = simd.mask_between_m32s(0, tail.len() as u32).mask();
        let x = simd.select_f32s(is_loaded, simd.partial_load_f32s(tail), lowest);
        m = larger(m, x);
    }
    simd.reduce_max_f32s(m)
}

/// Returns the largest element of a row of scores that is not NaN.
///
/// Returns `None` if the row is empty or all its elements are minus infinity. Returns minus
/// infinity if the row contains NaN but no element above minus infinity, so that the softmax of the
/// row is NaN.
#[cfg(feature = "flex")]
#[inline(always)]
pub(crate) fn largest_score<S: Simd>(simd: S, x: &[f32]) -> Option<f32> {
    let largest = largest(simd, x);
    let is_any = largest > f32::NEG_INFINITY || x.iter().any(|x| x.is_nan());
    is_any.then_some(largest)
}

struct SumOfExp<'a> {
    x: &'a [f32],
    largest: f32,
}

impl WithSimd for SumOfExp<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self { x, largest } = self;
        let (vectors, tail) = S::as_simd_f32s(x);
        let mut sum = 0.0;
        // Each lane sums at most 256 elements, which is accurate enough in f32.
        for block in vectors.chunks(256) {
            let mut sums = simd.splat_f32s(0.0);
            for &x in block {
                let x = simd.sub_f32s(x, simd.splat_f32s(largest));
                sums = simd.add_f32s(sums, exp(simd, x));
            }
            sum += f64::from(simd.reduce_sum_f32s(sums));
        }
        for &x in tail {
            if !x.is_nan() {
                sum += f64::from((x - largest).exp());
            }
        }
        sum
    }
}

/// Replaces each `x` by `exp(x - largest)` and returns the sum of the results. `largest` is an
/// upper bound of `x`, such as the maximum or the log-sum-exp. NaN stays NaN. If the last vector is
/// not full, its unused lanes add zeros to the sum. Minus infinities at the end of the slice also
/// add zeros, so they do not change a bit of the sum.
#[cfg(feature = "flex")]
#[inline(always)]
pub(crate) fn exponentiate<S: Simd>(simd: S, x: &mut [f32], largest: f32) -> f32 {
    let largest = simd.splat_f32s(largest);
    let mut sums = simd.splat_f32s(0.0);
    for x in x.chunks_mut(S::F32_LANES) {
        let count = x.len();
        let difference = simd.sub_f32s(simd.partial_load_f32s(x), largest);
        let is_number = simd.equal_f32s(difference, difference);
        let y = simd.select_f32s(is_number, exp(simd, difference), difference);
        simd.partial_store_f32s(x, y);
        if count == S::F32_LANES {
            sums = simd.add_f32s(sums, y);
        } else {
            sums = simd.add_f32s(sums, simd.partial_load_f32s(x));
        }
    }
    simd.reduce_sum_f32s(sums)
}

/// Below this, an exponential counts as 0. It would be less than 1e-20 of the largest one, and its
/// products with small gradients would be subnormal numbers, which are slow.
const LEAST: f32 = -46.0;

/// Returns `exp(x)` for `x <= 0` with an error of at most 2 units in the last place. The result is
/// 0 for `x <= LEAST` and for NaN.
///
/// With `x = n ln 2 + r` and `|r| <= ln 2 / 2`, the result is `2^n exp(r)`. A Taylor polynomial
/// computes `exp(r)`. Setting the exponent's bits computes `2^n`.
#[inline(always)]
fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Adding this constant rounds a number to an integer and leaves the integer in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    let splat = |value| simd.splat_f32s(value);
    let in_range = simd.greater_than_f32s(x, splat(LEAST));
    let shifted = simd.mul_add_e_f32s(x, splat(std::f32::consts::LOG2_E), splat(MAGIC));
    let n = simd.sub_f32s(shifted, splat(MAGIC));
    let r = simd.negate_mul_add_e_f32s(n, splat(LN_2_HIGH), x);
    let r = simd.negate_mul_add_e_f32s(n, splat(LN_2_LOW), r);
    let mut y = splat(1.0 / 5040.0);
    for factor in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        y = simd.mul_add_e_f32s(y, r, splat(factor));
    }
    let bits = simd.transmute_u32s_f32s(shifted);
    let exponent = simd.add_u32s(bits, simd.splat_u32s(127));
    let power = simd.wrapping_dyn_shl_u32s(exponent, simd.splat_u32s(23));
    let y = simd.mul_f32s(y, simd.transmute_f32s_u32s(power));
    simd.select_f32s(in_range, y, splat(0.0))
}

/// Returns `exp(x)` of a single `x <= 0` by the same polynomial as [`exp`]. The result is 0 below
/// -87, and NaN for NaN.
#[cfg(feature = "flex")]
#[inline(always)]
pub(crate) fn exp_scalar(x: f32) -> f32 {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    const MAGIC: f32 = 12_582_912.0;
    let shifted = x * std::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let mut y = 1.0 / 5040.0;
    for factor in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        y = y * r + factor;
    }
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    // A comparison with NaN is false, so NaN stays NaN.
    if x < -87.0 { 0.0 } else { y * power }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(x: &[f32]) -> f64 {
        let largest = x.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x.into()));
        let sum: f64 = x.iter().map(|&x| (f64::from(x) - largest).exp()).sum();
        largest + sum.ln()
    }

    #[test]
    fn log_sum_exp_is_accurate() {
        for n in [1, 2, 15, 16, 17, 100, 10_007] {
            for scale in [0.0, 0.1, 1.0, 30.0, 1e4] {
                let x: Vec<f32> = (0..n)
                    .map(|i| (((i * 7919) % 1009) as f32 / 504.0 - 1.0) * scale)
                    .collect();
                let (actual, expected) = (log_sum_exp(&x), exact(&x));
                let tolerance = 1e-6 * expected.abs().max(1.0);
                assert!(
                    (actual - expected).abs() < tolerance,
                    "{n}, {scale}: {actual}, {expected}"
                );
            }
        }
    }

    #[test]
    fn exponentials_are_accurate_over_their_range() {
        // The log-sum-exp of 0 and x is ln(1 + exp(x)), which is about exp(x) if x is far below 0.
        // Sixteen copies of both add ln(16).
        for i in 0..8600 {
            let x = -0.01 * i as f32;
            let all = [0.0, x].repeat(16);
            let expected = (1.0 + f64::from(x).exp()).ln() + 16f64.ln();
            let actual = log_sum_exp(&all);
            assert!(
                (actual - expected).abs() < 5e-7,
                "{x}: {actual}, {expected}"
            );
        }
    }

    #[test]
    fn minus_infinity_and_nan_are_skipped() {
        let nothing = f32::NEG_INFINITY;
        for n in [1, 16, 33] {
            assert_eq!(log_sum_exp(&vec![nothing; n]), f64::NEG_INFINITY);
            let mut x = vec![nothing; n];
            x[n / 2] = 3.0;
            assert_eq!(log_sum_exp(&x), 3.0);
            x[0] = f32::NAN;
            if n > 1 {
                assert_eq!(log_sum_exp(&x), 3.0);
            }
        }
        assert_eq!(log_sum_exp(&[]), f64::NEG_INFINITY);
    }
}
