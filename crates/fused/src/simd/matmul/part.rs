//! The part of a matmul that one thread computes, in tiles whose sums stay in registers.

use std::cell::RefCell;

use pulp::Simd;

use super::matrix::Matrix;

/// Number of rows of a tile. With [`VECTORS`] vectors per row, a tile has 24 vectors of sums, which
/// fit in the 32 registers of AVX-512 and NEON. With 16 registers, tiles have fewer rows.
pub(super) const ROWS: usize = 8;

/// Number of vectors in each row of a tile.
pub(super) const VECTORS: usize = 3;

/// Number of `f32` in a vector of AVX2.
pub(super) const AVX2_LANES: usize = 8;

/// [`ROWS`] for AVX2 in the packed path. The 12 vectors of sums, the two of `W` and an element of
/// `x` take 15 of 16 registers.
pub(super) const AVX2_ROWS: usize = 6;

/// [`VECTORS`] for AVX2. Two vectors are a cache line.
pub(super) const AVX2_VECTORS: usize = 2;

thread_local! {
    /// The thread's memory for packed rows of `x` and for a packed piece of `W`.
    pub(super) static SCRATCH: RefCell<(Vec<f32>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// The rows and columns of the output that one thread computes, with the inputs.
pub(super) struct Part<'a, 'y, 'z> {
    pub x: Matrix<'a>,
    pub first_row: usize,
    pub w: Matrix<'a>,
    pub first_column: usize,
    pub start: Start<'a>,
    pub y: &'y mut [&'z mut [f32]],
    pub sums: Sums<'z>,
}

/// The column sums of `W` that a part computes, in pieces of at most `PACK_COLUMNS` columns. Each
/// entry holds the first column of a piece, counted from the part's first column, and the memory to
/// which the sums of the piece are added.
pub(super) type Sums<'a> = Vec<(usize, &'a mut [f32])>;

/// The values to which `x W` is added.
#[derive(Clone, Copy)]
pub(super) enum Start<'a> {
    /// Zeros; the output's old elements are not read.
    Zero,
    /// One bias for each column of the whole matrix `W`, the same in every row of the output.
    Bias(&'a [f32]),
    /// The output's old elements.
    #[cfg_attr(not(feature = "autodiff"), allow(dead_code))]
    Output,
}

/// The first row and column of a tile in the part's output.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub row: usize,
    pub column: usize,
}

impl<'a> Part<'a, '_, '_> {
    /// Returns a tile's sums over the rows of `W` before row `first`, including the start values.
    /// The sums of rows beyond the part's last row have no meaning. `WHOLE` means that no column of
    /// the tile is beyond the part's last column.
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
        // The loop has exactly `R` iterations, so that the sums stay in registers.
        for (i, sums) in sums.iter_mut().enumerate() {
            if let Some(row) = rows.get(i) {
                let row = &row[at.column..];
                *sums = if WHOLE {
                    S::as_simd_f32s(&row[..V * S::F32_LANES]).0.as_chunks().0[0]
                } else {
                    load_vectors::<S, V>(simd, row)
                };
            }
        }
        sums
    }

    /// Stores a tile's sums in the output. Rows and columns beyond the part's last ones are
    /// skipped.
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

    /// Returns the data of `x` from the start of the part's row `row` on. The column stride of `x`
    /// must be 1.
    #[inline(always)]
    pub(super) fn x_row(&self, row: usize) -> &'a [f32] {
        &self.x.data[(self.first_row + row) * self.x.row_stride..]
    }
}

/// Returns whether the code is for 16 vector registers, which hold the sums of at most half a tile.
/// The 32 registers of AVX-512 and NEON hold the sums of a whole tile. Scalar code and the code for
/// WebAssembly use 16 registers, since they mostly run on x86-64.
#[inline(always)]
pub(super) const fn has_16_registers<S: Simd>() -> bool {
    S::F32_LANES == 8 || S::F32_LANES == 1 || cfg!(target_arch = "wasm32")
}

/// Loads the first `V` vectors of `from`, with zeros beyond its end.
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
