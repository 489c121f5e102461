//! Dot products and scaled sums of slices.

use pulp::Simd;

/// Returns `Σ a_i b_i` of two slices of the same length.
#[inline(always)]
pub(crate) fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let (a, a_tail) = S::as_simd_f32s(a);
    let (b, b_tail) = S::as_simd_f32s(b);
    let mut sum = simd.splat_f32s(0.0);
    for (&a, &b) in a.iter().zip(b) {
        sum = simd.mul_add_e_f32s(a, b, sum);
    }
    if !a_tail.is_empty() {
        let (a, b) = (
            simd.partial_load_f32s(a_tail),
            simd.partial_load_f32s(b_tail),
        );
        sum = simd.mul_add_e_f32s(a, b, sum);
    }
    simd.reduce_sum_f32s(sum)
}

/// Adds `factor * from` to `to`. Both slices must have the same length.
#[inline(always)]
pub(crate) fn add_scaled<S: Simd>(simd: S, to: &mut [f32], factor: f32, from: &[f32]) {
    let factor = simd.splat_f32s(factor);
    let (to, to_tail) = S::as_mut_simd_f32s(to);
    let (from, from_tail) = S::as_simd_f32s(from);
    for (to, &from) in to.iter_mut().zip(from) {
        *to = simd.mul_add_e_f32s(factor, from, *to);
    }
    if !to_tail.is_empty() {
        let (old, from) = (
            simd.partial_load_f32s(to_tail),
            simd.partial_load_f32s(from_tail),
        );
        simd.partial_store_f32s(to_tail, simd.mul_add_e_f32s(factor, from, old));
    }
}
