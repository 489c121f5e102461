//! The normaliser of a softmax on the host.

use pulp::{Arch, Simd, WithSimd};

/// `ln Σ exp(x)`; minus infinity if there is nothing to sum. A NaN is not summed.
///
/// The result is within 1e-6 of the exact one, relative to the sum, and depends on the slice
/// alone.
///
/// ```
/// let x = [0.5f32, -1.0, 2.0];
/// let exact = x.iter().map(|&x| f64::from(x).exp()).sum::<f64>().ln();
/// assert!((fused::log_sum_exp(&x) - exact).abs() < 1e-6);
/// ```
pub fn log_sum_exp(x: &[f32]) -> f64 {
    let largest = Arch::new().dispatch(Largest(x));
    if largest.is_infinite() {
        return largest.into();
    }
    let sum = Arch::new().dispatch(SumOfExp { x, largest });
    f64::from(largest) + sum.ln()
}

struct Largest<'a>(&'a [f32]);

impl WithSimd for Largest<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        let (vectors, tail) = S::as_simd_f32s(self.0);
        let lowest = simd.splat_f32s(f32::NEG_INFINITY);
        // The old value second: a comparison with NaN takes the second.
        let largest = vectors.iter().fold(lowest, |m, &x| {
            simd.select_f32s(simd.greater_than_f32s(x, m), x, m)
        });
        let tail = tail.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
        simd.reduce_max_f32s(largest).max(tail)
    }
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
        // A sum in f32 of so few numbers loses nothing that counts.
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

/// Replaces each `x` by `exp(x - largest)`, NaN by NaN, and returns their sum. What stands beyond the end does
/// not count, so that minus infinities at the end change no bit of it.
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

/// `exp(x)` for `x <= 0`, within 2 units in the last place; 0 below -87 and for NaN.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`; `exp(r)` by its Taylor polynomial, and `2^n` by the
/// bits of a float's exponent.
#[inline(always)]
fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Adding it rounds to a whole number, which then stands in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    let splat = |value| simd.splat_f32s(value);
    let in_range = simd.greater_than_f32s(x, splat(-87.0));
    let shifted = simd.mul_add_f32s(x, splat(std::f32::consts::LOG2_E), splat(MAGIC));
    let n = simd.sub_f32s(shifted, splat(MAGIC));
    let r = simd.negate_mul_add_f32s(n, splat(LN_2_HIGH), x);
    let r = simd.negate_mul_add_f32s(n, splat(LN_2_LOW), r);
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
        y = simd.mul_add_f32s(y, r, splat(factor));
    }
    let bits = simd.transmute_u32s_f32s(shifted);
    let exponent = simd.add_u32s(bits, simd.splat_u32s(127));
    let power = simd.wrapping_dyn_shl_u32s(exponent, simd.splat_u32s(23));
    let y = simd.mul_f32s(y, simd.transmute_f32s_u32s(power));
    simd.select_f32s(in_range, y, splat(0.0))
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
    fn it_is_the_exact_one() {
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
    fn exponentials_are_right_over_their_range() {
        // Two numbers, the second far below: ln(1 + exp(x)) is exp(x) for small ones.
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
    fn what_cannot_be_is_left_out() {
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
