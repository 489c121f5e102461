//! Groups: four rows of a panel, whose elements are interleaved.

use bytemuck::{Pod, Zeroable};

/// Number of columns in a panel.
pub(super) const PANEL: usize = 64;

/// Four rows of a panel: the four elements of each column, one after the other. [`OFFSET`] is added
/// to each element, because the instructions multiply unsigned bytes by signed ones.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Group(pub [[u8; 4]; PANEL]);

// SAFETY: a group consists of bytes alone, since its size is a multiple of its alignment.
#[allow(unsafe_code)] // See above.
unsafe impl Zeroable for Group {}
// SAFETY: as above.
#[allow(unsafe_code)] // See above.
unsafe impl Pod for Group {}

/// The number that is added to elements. The sum of a byte and this number is their exclusive or.
pub(super) const OFFSET: u8 = 128;

impl Group {
    /// Four rows of zeros.
    pub const EMPTY: Self = Self([[OFFSET; 4]; PANEL]);
}

/// Code that packs four rows of [`PANEL`] columns.
pub(super) trait Interleave {
    fn interleave(&self, rows: [&[i8; PANEL]; 4], group: &mut Group);
}

/// Code for any processor.
pub(super) struct Portable;

impl Interleave for Portable {
    #[inline(always)]
    fn interleave(&self, rows: [&[i8; PANEL]; 4], group: &mut Group) {
        for (column, elements) in group.0.iter_mut().enumerate() {
            *elements = rows.map(|row| row[column].cast_unsigned() ^ OFFSET);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::__m256i;

    use pulp::cast;
    use pulp::x86::V3;

    use super::{Group, Interleave, OFFSET, PANEL};

    /// The instructions work within each half of a vector, so the halves are exchanged at the end.
    impl Interleave for V3 {
        #[inline(always)]
        fn interleave(&self, rows: [&[i8; PANEL]; 4], group: &mut Group) {
            let avx2 = self.avx2;
            let offset = cast([OFFSET; 32]);
            for (i, words) in group.0.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                let mut x: [__m256i; 4] = [offset; 4];
                for (x, row) in x.iter_mut().zip(rows) {
                    *x = avx2._mm256_xor_si256(cast(row.as_chunks::<32>().0[i]), offset);
                }
                let pairs = [
                    avx2._mm256_unpacklo_epi8(x[0], x[1]),
                    avx2._mm256_unpackhi_epi8(x[0], x[1]),
                    avx2._mm256_unpacklo_epi8(x[2], x[3]),
                    avx2._mm256_unpackhi_epi8(x[2], x[3]),
                ];
                let fours = [
                    avx2._mm256_unpacklo_epi16(pairs[0], pairs[2]),
                    avx2._mm256_unpackhi_epi16(pairs[0], pairs[2]),
                    avx2._mm256_unpacklo_epi16(pairs[1], pairs[3]),
                    avx2._mm256_unpackhi_epi16(pairs[1], pairs[3]),
                ];
                let whole: [__m256i; 4] = [
                    avx2._mm256_permute2x128_si256::<0x20>(fours[0], fours[1]),
                    avx2._mm256_permute2x128_si256::<0x20>(fours[2], fours[3]),
                    avx2._mm256_permute2x128_si256::<0x31>(fours[0], fours[1]),
                    avx2._mm256_permute2x128_si256::<0x31>(fours[2], fours[3]),
                ];
                *words = cast(whole);
            }
        }
    }
}
