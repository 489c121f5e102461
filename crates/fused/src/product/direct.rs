//! Few rows times a matrix that is read where it lies.

use pulp::Simd;

use super::part::{At, Part, ROWS, VECTORS, load_vectors};

/// A single tile of up to so many rows has wider ones.
const LOW: usize = 6;
const LOW_VECTORS: usize = 4;

/// Rows of the matrix that a pass takes at a time: so many streams the processor can read ahead.
const STREAMS: usize = 16;

impl Part<'_, '_, '_> {
    #[inline(always)]
    pub(super) fn direct<S: Simd>(mut self, simd: S) {
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
}
