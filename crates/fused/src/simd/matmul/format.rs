//! The number formats in which the packed path multiplies.
//!
//! Packed elements are *words* of 32 bits. In f32, a word is an element. In bfloat16, it is two
//! elements of consecutive rows of `W` (or columns of `x`), the first one in the lower bits. A word
//! is stored in the bits of an f32, so that both formats share the code for packed tiles of `x` and
//! packed panels of `W`.

use pulp::Simd;

/// A number format of words, in vectors of the instruction set `S`.
pub(super) trait Format<S: Simd>: Copy {
    /// Number of elements in a word.
    const ELEMENTS: usize;

    /// In each lane, multiplies each element of the word of `x` by the corresponding element of the
    /// word of `w`, and adds the products to `sum`.
    fn multiply_add(self, simd: S, x: S::f32s, w: S::f32s, sum: S::f32s) -> S::f32s;
}

/// The format with one f32 element in a word.
#[derive(Clone, Copy)]
pub(super) struct F32;

impl<S: Simd> Format<S> for F32 {
    const ELEMENTS: usize = 1;

    #[inline(always)]
    fn multiply_add(self, simd: S, x: S::f32s, w: S::f32s, sum: S::f32s) -> S::f32s {
        simd.mul_add_e_f32s(x, w, sum)
    }
}
