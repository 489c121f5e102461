//! What one thread does of a product: tiles whose sums stay in registers.

use std::cell::RefCell;

use pulp::{Simd, WithSimd};

use super::Matrix;

/// Rows of a tile, and vectors of each of them: 24 sums in the 32 registers of AVX-512 and NEON.
/// AVX2 has 16 and takes half of the rows at a time.
pub(super) const ROWS: usize = 8;
pub(super) const VECTORS: usize = 3;

thread_local! {
    /// Packed rows of `x`, and a packed piece of the matrix.
    static SCRATCH: RefCell<(Vec<f32>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Some rows and columns of the output, for one thread.
pub(super) struct Part<'a, 'y, 'z> {
    pub x: Matrix<'a>,
    pub first_row: usize,
    pub w: Matrix<'a>,
    pub first_column: usize,
    pub start: Start<'a>,
    pub y: &'y mut [&'z mut [f32]],
    pub sums: Sums<'z>,
}

/// Where the sums of the matrix's rows go: for some pieces of the part's columns, their first one,
/// and what they are added to.
pub(super) type Sums<'a> = Vec<(usize, &'a mut [f32])>;

/// What the products are added to.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    /// Zeros; what the output held is not read.
    Zero,
    /// These, the same in every row, one for each column of the whole matrix.
    Bias(&'a [f32]),
    /// What the output holds.
    #[cfg_attr(not(feature = "autodiff"), allow(dead_code))]
    Output,
}

impl WithSimd for Part<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        if self.is_direct() {
            self.direct_sums();
            self.direct(simd);
        } else {
            // Not in a closure: that would be compiled without the vector instructions.
            let (mut packed_x, mut packed_w) = SCRATCH.take();
            self.packed(simd, &mut packed_x, &mut packed_w);
            SCRATCH.set((packed_x, packed_w));
        }
    }
}

/// Where a tile's product goes: from row `row` and column `column` of the output on.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub row: usize,
    pub column: usize,
}

impl<'a> Part<'a, '_, '_> {
    /// The sums of the matrix's rows before `first`; zeros for rows beyond the last. `WHOLE` if no
    /// column is.
    #[inline(always)]
    pub(super) fn load<S: Simd, const R: usize, const V: usize, const WHOLE: bool>(
        &self,
        simd: S,
        first: usize,
        at: At,
    ) -> [[S::f32s; V]; R] {
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        if first == 0 {
            match self.start {
                Start::Zero => return sums,
                Start::Bias(bias) => {
                    let bias = &bias[self.first_column + at.column..];
                    let width = (self.y[0].len() - at.column).min(V * S::F32_LANES);
                    return [load_vectors::<S, V>(simd, &bias[..width]); R];
                }
                Start::Output => {}
            }
        }
        let rows = self.y.get(at.row..).unwrap_or_default();
        // A loop of `R` turns, which leaves the sums in registers.
        for (i, sums) in sums.iter_mut().enumerate() {
            if let Some(row) = rows.get(i) {
                let row = &row[at.column..];
                *sums = match WHOLE {
                    true => S::as_simd_f32s(&row[..V * S::F32_LANES]).0.as_chunks().0[0],
                    false => load_vectors::<S, V>(simd, row),
                };
            }
        }
        sums
    }

    #[inline(always)]
    pub(super) fn store<S: Simd, const R: usize, const V: usize, const WHOLE: bool>(
        &mut self,
        simd: S,
        at: At,
        sums: [[S::f32s; V]; R],
    ) {
        let rows = self.y.get_mut(at.row..).unwrap_or_default();
        for (i, sums) in sums.iter().enumerate() {
            let Some(row) = rows.get_mut(i) else {
                return;
            };
            let row = &mut row[at.column..];
            if WHOLE {
                let row = &mut row[..V * S::F32_LANES];
                S::as_mut_simd_f32s(row).0.as_chunks_mut().0[0] = *sums;
            } else {
                for (to, &sum) in row.chunks_mut(S::F32_LANES).zip(sums) {
                    simd.partial_store_f32s(to, sum);
                }
            }
        }
    }

    /// Row `row` of this part, from its first column on; its columns lie side by side.
    #[inline(always)]
    pub(super) fn x_row(&self, row: usize) -> &'a [f32] {
        &self.x.data[(self.first_row + row) * self.x.row_stride..]
    }
}

/// The first `V` vectors, filled up with zeros if there are not enough numbers.
#[inline(always)]
pub(super) fn load_vectors<S: Simd, const V: usize>(simd: S, from: &[f32]) -> [S::f32s; V] {
    let mut vectors = [simd.splat_f32s(0.0); V];
    if let Some((whole, _)) = S::as_simd_f32s(from).0.split_first_chunk::<V>() {
        vectors = *whole;
    } else {
        for (to, from) in vectors.iter_mut().zip(from.chunks(S::F32_LANES)) {
            *to = simd.partial_load_f32s(from);
        }
    }
    vectors
}
