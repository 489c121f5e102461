//! What one thread does of a product: tiles whose sums stay in registers.

use std::cell::RefCell;

use pulp::{Simd, WithSimd};

use super::{LINE, Matrix};

/// Rows of a tile, and vectors of each of them: 24 sums in the 32 registers of AVX-512 and NEON.
/// AVX2 has 16 and takes half of the rows at a time.
pub(super) const ROWS: usize = 8;
pub(super) const VECTORS: usize = 3;

/// Up to so many rows, the matrix is read where it lies; for more it is repacked.
const FEW: usize = 16;

/// A single tile of up to so many rows has wider ones.
const LOW: usize = 6;
const LOW_VECTORS: usize = 4;

/// Rows of the matrix that a pass over few rows takes at a time: so many streams the processor
/// can read ahead.
const STREAMS: usize = 16;

/// Rows and columns of the matrix that are packed at a time, so that they stay in the L2 cache.
const PACK_ROWS: usize = 256;
const PACK_COLUMNS: usize = 192;

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
}

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
    fn with_simd<S: Simd>(self, simd: S) {
        if self.y.len() <= FEW && self.w.column_stride == 1 && self.x.column_stride == 1 {
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
struct At {
    row: usize,
    column: usize,
}

impl Part<'_, '_, '_> {
    #[inline(always)]
    fn direct<S: Simd>(mut self, simd: S) {
        let (k, m) = (self.w.rows, self.y.len());
        let low = m <= LOW;
        let halves = if S::F32_LANES == 8 { 2 } else { 1 };
        let height = if low { LOW } else { ROWS } / halves;
        for first in (0..k).step_by(STREAMS) {
            for row in (0..m).step_by(height) {
                match low {
                    true => self.direct_height::<S, LOW_VECTORS>(simd, first, row, height),
                    false => self.direct_height::<S, VECTORS>(simd, first, row, height),
                }
            }
        }
    }

    #[inline(always)]
    fn direct_height<S: Simd, const V: usize>(
        &mut self,
        simd: S,
        first: usize,
        row: usize,
        height: usize,
    ) {
        match height.min(self.y.len() - row) {
            1 => self.direct_rows::<S, 1, V>(simd, first, row),
            2 => self.direct_rows::<S, 2, V>(simd, first, row),
            3 => self.direct_rows::<S, 3, V>(simd, first, row),
            4 => self.direct_rows::<S, 4, V>(simd, first, row),
            5 => self.direct_rows::<S, 5, V>(simd, first, row),
            6 => self.direct_rows::<S, 6, V>(simd, first, row),
            7 => self.direct_rows::<S, 7, V>(simd, first, row),
            _ => self.direct_rows::<S, ROWS, V>(simd, first, row),
        }
    }

    /// Adds the product of `R` rows and some rows of the matrix, from `first` on.
    #[inline(always)]
    fn direct_rows<S: Simd, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        first: usize,
        row: usize,
    ) {
        let width = self.y[0].len();
        let mut column = 0;
        while width - column >= V * S::F32_LANES {
            self.direct_tile::<S, R, V, true>(simd, first, At { row, column });
            column += V * S::F32_LANES;
        }
        while width - column >= S::F32_LANES {
            self.direct_tile::<S, R, 1, true>(simd, first, At { row, column });
            column += S::F32_LANES;
        }
        if column < width {
            self.direct_tile::<S, R, 1, false>(simd, first, At { row, column });
        }
    }

    #[inline(always)]
    fn direct_tile<S: Simd, const R: usize, const V: usize, const WHOLE: bool>(
        &mut self,
        simd: S,
        first: usize,
        at: At,
    ) {
        let (k, stride) = (self.w.rows, self.w.row_stride);
        let depth = STREAMS.min(k - first);
        let x: [&[f32]; R] = std::array::from_fn(|row| &self.x_row(at.row + row)[first..][..depth]);
        // What the compiler needs to see that no index is out of bounds.
        for x in x {
            assert!(x.len() == depth);
        }
        let w = &self.w.data[first * stride + self.first_column + at.column..];
        let mut sums = self.load::<S, R, V, WHOLE>(simd, first, at);
        let width = match WHOLE {
            true => V * S::F32_LANES,
            false => self.y[0].len() - at.column,
        };
        for i in 0..depth {
            let w = &w[i * stride..][..width];
            let w: [S::f32s; V] = match WHOLE {
                true => S::as_simd_f32s(w).0.as_chunks::<V>().0[0],
                false => load_vectors::<S, V>(simd, w),
            };
            for row in 0..R {
                let x = simd.splat_f32s(x[row][i]);
                for v in 0..V {
                    sums[row][v] = simd.mul_add_e_f32s(x, w[v], sums[row][v]);
                }
            }
        }
        self.store::<S, R, V, WHOLE>(simd, at, sums);
    }

    #[inline(always)]
    fn packed<S: Simd>(mut self, simd: S, packed_x: &mut Vec<f32>, packed_w: &mut Vec<f32>) {
        let panel = VECTORS * S::F32_LANES;
        let (k, width, m) = (self.w.rows, self.y[0].len(), self.y.len());
        packed_x.resize(m.next_multiple_of(ROWS) * PACK_ROWS, 0.0);
        let size = PACK_ROWS * PACK_COLUMNS.next_multiple_of(panel);
        packed_w.resize(size + LINE, 0.0);
        // Vectors that begin where cache lines do are read in one piece.
        let begin = packed_w.as_ptr().align_offset(LINE * size_of::<f32>());
        let packed_w = &mut packed_w[begin.min(LINE)..][..size];
        for first in (0..k).step_by(PACK_ROWS) {
            let depth = PACK_ROWS.min(k - first);
            self.pack_x(first, depth, packed_x);
            for begin in (0..width).step_by(PACK_COLUMNS) {
                let end = width.min(begin + PACK_COLUMNS);
                self.pack_w(simd, first, depth, begin..end, packed_w);
                for (w, column) in packed_w
                    .chunks_exact(depth * panel)
                    .zip((begin..end).step_by(panel))
                {
                    let w = S::as_simd_f32s(w).0;
                    match (end - column) / S::F32_LANES {
                        0 => self.packed_column::<S, 1, false>(simd, first, column, packed_x, w),
                        1 if end - column == S::F32_LANES => {
                            self.packed_column::<S, 1, true>(simd, first, column, packed_x, w);
                        }
                        1 => self.packed_column::<S, 2, false>(simd, first, column, packed_x, w),
                        2 => self
                            .packed_column::<S, VECTORS, false>(simd, first, column, packed_x, w),
                        _ => {
                            self.packed_column::<S, VECTORS, true>(simd, first, column, packed_x, w)
                        }
                    }
                }
            }
        }
    }

    /// Adds the product of all rows and one panel of the matrix, whose rows are `VECTORS` vectors
    /// of which the first `V` count.
    #[inline(always)]
    fn packed_column<S: Simd, const V: usize, const WHOLE: bool>(
        &mut self,
        simd: S,
        first: usize,
        column: usize,
        packed_x: &[f32],
        w: &[S::f32s],
    ) {
        let w = w.as_chunks::<VECTORS>().0;
        let tiles = packed_x.chunks_exact(w.len() * ROWS);
        for (x, row) in tiles.zip((0..self.y.len()).step_by(ROWS)) {
            let x = x.as_chunks::<ROWS>().0;
            let at = At { row, column };
            if S::F32_LANES == 8 {
                self.packed_tile::<S, 0, 4, V, WHOLE>(simd, first, at, x, w);
                self.packed_tile::<S, 4, 4, V, WHOLE>(simd, first, at, x, w);
            } else {
                self.packed_tile::<S, 0, ROWS, V, WHOLE>(simd, first, at, x, w);
            }
        }
    }

    /// Rows `H..H + R` of a tile.
    #[inline(always)]
    fn packed_tile<S: Simd, const H: usize, const R: usize, const V: usize, const WHOLE: bool>(
        &mut self,
        simd: S,
        first: usize,
        At { row, column }: At,
        x: &[[f32; ROWS]],
        w: &[[S::f32s; VECTORS]],
    ) {
        let row = row + H;
        let mut sums = self.load::<S, R, V, WHOLE>(simd, first, At { row, column });
        for (x, w) in x.iter().zip(w) {
            for row in 0..R {
                let x = simd.splat_f32s(x[H + row]);
                for v in 0..V {
                    sums[row][v] = simd.mul_add_e_f32s(x, w[v], sums[row][v]);
                }
            }
        }
        self.store::<S, R, V, WHOLE>(simd, At { row, column }, sums);
    }

    /// The sums of the matrix's rows before `first`; zeros for rows beyond the last. `WHOLE` if no
    /// column is.
    #[inline(always)]
    fn load<S: Simd, const R: usize, const V: usize, const WHOLE: bool>(
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
    fn store<S: Simd, const R: usize, const V: usize, const WHOLE: bool>(
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
    pub(super) fn x_row(&self, row: usize) -> &[f32] {
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
