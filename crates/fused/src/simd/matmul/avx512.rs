//! The packed path with the instructions of AVX-512 for bfloat16.

use std::arch::x86_64::{__m512bh, __m512i, _mm512_dpbf16_ps};
use std::mem::transmute;

use pulp::Arch;
use pulp::x86::V4;

use super::format::Format;
use super::part::{Part, ROWS, SCRATCH, VECTORS};
use crate::simd::level::arch;

/// The format with two bfloat16 elements in a word. A value of this type proves that the CPU
/// has AVX-512 BF16.
#[derive(Clone, Copy)]
pub(super) struct Bf16(V4);

impl Bf16 {
    /// Returns the format if the process's instruction-set level and the CPU support it.
    pub fn of_level() -> Option<Self> {
        match arch() {
            Arch::V4(simd) if is_x86_feature_detected!("avx512bf16") => Some(Self(simd)),
            _ => None,
        }
    }
}

impl Format<V4> for Bf16 {
    const ELEMENTS: usize = 2;

    #[inline(always)]
    #[allow(unsafe_code)] // The CPU has this instruction.
    fn multiply_add(
        self,
        _: V4,
        x: pulp::f32x16,
        w: pulp::f32x16,
        sum: pulp::f32x16,
    ) -> pulp::f32x16 {
        let [x, w]: [__m512i; 2] = [pulp::cast(x), pulp::cast(w)];
        // SAFETY: the types have the same size and no invalid bits; `self` proves that the CPU
        // has the instruction.
        let sum = unsafe {
            let x = transmute::<__m512i, __m512bh>(x);
            let w = transmute::<__m512i, __m512bh>(w);
            _mm512_dpbf16_ps(pulp::cast(sum), x, w)
        };
        pulp::cast(sum)
    }
}

#[allow(unsafe_code)] // The CPU has these instructions.
pub(super) fn compute(part: Part<'_, '_, '_>, format: Bf16) {
    // SAFETY: `format` proves that the CPU has the instructions.
    unsafe { packed(part, format) }
}

#[target_feature(
    enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bf16"
)]
fn packed(mut part: Part<'_, '_, '_>, format: Bf16) {
    part.direct_sums();
    part.sums.clear();
    let (mut packed_x, mut packed_w) = SCRATCH.take();
    part.packed::<_, _, ROWS, ROWS, VECTORS>(format.0, format, &mut packed_x, &mut packed_w);
    SCRATCH.set((packed_x, packed_w));
}
