//! Kernels that compute integer dot products of rows of `x` and columns of a block of `W`.

#[cfg(target_arch = "x86_64")]
use std::arch::{asm, x86_64::*};

#[cfg(target_arch = "x86_64")]
use pulp::Arch;

#[cfg(target_arch = "x86_64")]
use super::group::{Group, PANEL};
use super::part::Part;
#[cfg(target_arch = "x86_64")]
use crate::simd::level::{Amx, arch};
#[cfg(target_arch = "x86_64")]
use crate::simd::tiles::{TILE, Tiles};

/// The instruction set of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kernel {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-VNNI, which has the instructions of AVX-512 VNNI for vectors of 256 bits.
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    #[cfg(target_arch = "x86_64")]
    Amx(Amx),
}

impl Kernel {
    /// Returns the best kernel of the process's instruction-set level.
    #[cfg(target_arch = "x86_64")]
    pub fn of_level() -> Self {
        let has_vnni = is_x86_feature_detected!("avx512vnni");
        if let Some(amx) = Amx::of_level().filter(|_| has_vnni) {
            return Self::Amx(amx);
        }
        match arch() {
            Arch::V4(_) if has_vnni => Self::Avx512Vnni,
            Arch::V4(_) | Arch::V3(_) if is_x86_feature_detected!("avxvnni") => Self::AvxVnni,
            Arch::V4(_) | Arch::V3(_) => Self::Avx2,
            _ => Self::Portable,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub fn of_level() -> Self {
        Self::Portable
    }

    /// Returns all kernels that the CPU can run.
    #[cfg(test)]
    pub fn all() -> Vec<Self> {
        let mut kernels = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            let has_avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            kernels.extend(has_avx2.then_some(Self::Avx2));
            let has_avx_vnni = has_avx2 && is_x86_feature_detected!("avxvnni");
            kernels.extend(has_avx_vnni.then_some(Self::AvxVnni));
            let has_avx512 = pulp::x86::V4::try_new().is_some();
            let has_avx512_vnni = has_avx512 && is_x86_feature_detected!("avx512vnni");
            kernels.extend(has_avx512_vnni.then_some(Self::Avx512Vnni));
            let amx = Amx::of_level().filter(|_| has_avx512_vnni);
            kernels.extend(amx.map(Self::Amx));
        }
        kernels
    }

    #[allow(unsafe_code)] // The CPU has these instructions.
    pub fn compute(self, part: Part<'_>) {
        match self {
            Self::Portable => portable(part),
            // SAFETY: `of_level` and `all` return these kernels only if the CPU has their
            // instructions.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { avx2(part) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => unsafe { avx_vnni(part) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => unsafe { avx512_vnni(part) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Amx(amx) => unsafe { amx_int8(part, amx) },
        }
    }
}

/// Calls the kernel `$dots` with the number of rows as a constant.
#[cfg(target_arch = "x86_64")]
macro_rules! by_rows {
    ($dots:ident, $x:ident, $w:ident, $sums:ident, $($n:literal)*) => {
        match $x.len() {
            $($n => $dots::<$n>($x.first_chunk().expect("as many rows"), $w, $sums.first_chunk_mut().expect("as many rows")),)*
            n => unreachable!("{n} rows in a tile"),
        }
    };
}

#[inline(never)]
fn portable(part: Part<'_>) {
    part.run::<4>(|x, w, sums| {
        for (x, sums) in x.iter().zip(sums) {
            sums.fill(0);
            for (x, w) in x.iter().zip(w) {
                for (sum, w) in sums.iter_mut().zip(&w.0) {
                    for (&w, &x) in w.iter().zip(x) {
                        *sum += i32::from(w) * i32::from(x);
                    }
                }
            }
        }
    });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2(part: Part<'_>) {
    part.run::<6>(|x, w, sums| by_rows!(dots_avx2, x, w, sums, 1 2 3 4 5 6));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avxvnni")]
fn avx_vnni(part: Part<'_>) {
    part.run::<6>(|x, w, sums| by_rows!(dots_avx_vnni, x, w, sums, 1 2 3 4 5 6));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn avx512_vnni(part: Part<'_>) {
    part.run::<6>(|x, w, sums| by_rows!(dots_avx512, x, w, sums, 1 2 3 4 5 6));
}

/// Multiplies rows in tiles of 16. The last rows, matrices with few rows, and blocks that are not a
/// whole number of tiles are left to AVX-512 VNNI.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
fn amx_int8(part: Part<'_>, amx: Amx) {
    if part.y.len() < TILE || !part.w.block.is_multiple_of(4 * TILE) {
        return avx512_vnni(part);
    }
    let tiles = Tiles::new(amx);
    part.run::<TILE>(|x, w, sums| {
        if let Ok(x) = x.try_into() {
            tiles.dots(x, w, sums);
        } else {
            for (x, sums) in x.chunks(4).zip(sums.as_chunks_mut::<4>().0) {
                by_rows!(dots_avx512, x, w, sums, 1 2 3 4);
            }
        }
    });
}

#[cfg(target_arch = "x86_64")]
impl Tiles {
    /// Multiplies 16 rows by a block of a panel. The rows have the same distance in memory.
    #[inline(always)]
    #[allow(unsafe_code)] // The CPU has these instructions.
    fn dots(&self, x: &[&[[i8; 4]]; TILE], w: &[Group], sums: &mut [[i32; PANEL]; TILE]) {
        let first = x[0].as_ptr();
        let distance = x[1].as_ptr().addr().wrapping_sub(first.addr());
        for (i, row) in x.iter().enumerate() {
            let place = first.addr().wrapping_add(i * distance);
            assert!(row.len() == w.len() && row.as_ptr().expose_provenance() == place);
        }
        let steps = w.len() / TILE;
        assert!(steps > 0 && w.len() == steps * TILE);
        // SAFETY: `self` proves that the registers have their shapes. Each step reads 16 words of
        // each row, and 16 groups. At the end, four tiles are stored in `sums`.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{x} + {distance}]",
                "tileloadd tmm5, [{w} + {group}]",
                "tdpbsud tmm0, tmm4, tmm5",
                "tileloadd tmm6, [{w} + {group} + 64]",
                "tdpbsud tmm1, tmm4, tmm6",
                "tileloadd tmm7, [{w} + {group} + 128]",
                "tdpbsud tmm2, tmm4, tmm7",
                "tileloadd tmm5, [{w} + {group} + 192]",
                "tdpbsud tmm3, tmm4, tmm5",
                "add {x}, 64",
                "add {w}, 4096",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{sums} + {group}], tmm0",
                "tilestored [{sums} + {group} + 64], tmm1",
                "tilestored [{sums} + {group} + 128], tmm2",
                "tilestored [{sums} + {group} + 192], tmm3",
                x = inout(reg) first => _,
                distance = in(reg) distance,
                w = inout(reg) w.as_ptr() => _,
                group = in(reg) size_of::<Group>(),
                steps = inout(reg) steps => _,
                sums = in(reg) sums.as_mut_ptr(),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

/// Defines a kernel that multiplies `$vectors` vectors of columns at a time.
#[cfg(target_arch = "x86_64")]
macro_rules! kernel {
    ($name:ident, $features:literal, $vector:ident, $lanes:literal, $vectors:literal, $zero:ident, $splat:ident, $dot:ident) => {
        #[target_feature(enable = $features)]
        #[inline]
        fn $name<const R: usize>(x: &[&[[i8; 4]]; R], w: &[Group], sums: &mut [[i32; PANEL]; R]) {
            // This check shows the compiler that no index is out of bounds.
            for x in x {
                assert!(x.len() == w.len());
            }
            for first in (0..PANEL).step_by($lanes * $vectors) {
                let mut found = [[$zero(); $vectors]; R];
                for (i, w) in w.iter().enumerate() {
                    let w: [$vector; $vectors] = std::array::from_fn(|v| {
                        let begin = first + v * $lanes;
                        let words: &[[u8; 4]; $lanes] =
                            w.0[begin..].first_chunk().expect("a whole vector");
                        pulp::cast(*words)
                    });
                    for (x, found) in x.iter().zip(&mut found) {
                        let x = $splat(pulp::cast(x[i]));
                        for (found, w) in found.iter_mut().zip(w) {
                            *found = $dot(*found, w, x);
                        }
                    }
                }
                for (sums, found) in sums.iter_mut().zip(found) {
                    for (v, found) in found.into_iter().enumerate() {
                        let found: [i32; $lanes] = pulp::cast(found);
                        sums[first + v * $lanes..][..$lanes].copy_from_slice(&found);
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernel!(
    dots_avx512,
    "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni",
    __m512i,
    16,
    4,
    _mm512_setzero_si512,
    _mm512_set1_epi32,
    _mm512_dpbusd_epi32
);
#[cfg(target_arch = "x86_64")]
kernel!(
    dots_avx_vnni,
    "avx2,fma,avxvnni",
    __m256i,
    8,
    2,
    _mm256_setzero_si256,
    _mm256_set1_epi32,
    _mm256_dpbusd_avx_epi32
);
#[cfg(target_arch = "x86_64")]
kernel!(
    dots_avx2,
    "avx2,fma",
    __m256i,
    8,
    2,
    _mm256_setzero_si256,
    _mm256_set1_epi32,
    dot_avx2
);

/// In each 32-bit lane, adds the products of four unsigned bytes of `w` and four signed bytes of
/// `x` to `sum`.
///
/// AVX2's instruction that multiplies bytes saturates the sum of two products at 16 bits. This
/// function therefore widens the bytes to 16 bits first.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline]
fn dot_avx2(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    let even = _mm256_madd_epi16(
        _mm256_and_si256(w, _mm256_set1_epi16(255)),
        _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(x)),
    );
    let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(w), _mm256_srai_epi16::<8>(x));
    _mm256_add_epi32(sum, _mm256_add_epi32(even, odd))
}
