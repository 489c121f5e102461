//! The matmul path for few rows of `x`, which reads the matrix `W` in place. A *tile* is a block of
//! the output whose sums stay in registers.

use pulp::Simd;

use super::packed::PACK_COLUMNS;
use super::part::{At, Part, ROWS, VECTORS, has_16_registers, load_vectors};

/// Maximum number of rows of a part for which `W` is read in place. For more rows, `W` is packed.
pub(super) const FEW: usize = 16;

/// Maximum number of rows of a part that is computed in low tiles. These tiles have fewer rows than
/// other tiles, but more vectors in each row.
const LOW: usize = 6;

/// Number of vectors in each row of a low tile.
const LOW_VECTORS: usize = 4;

/// Number of rows of `W` that are read at the same time. Processors prefetch about this many
/// streams of memory.
const STREAMS: usize = 16;

/// `R` rows of `x`, from a given column on.
trait XRows<'a, const R: usize>: Copy {
    /// Returns rows `row..row + R` of the part's `x`. Callers read `depth` columns, from column
    /// `first` on.
    fn of(part: &Part<'a, '_, '_>, row: usize, first: usize, depth: usize) -> Self;

    fn at(self, row: usize, column: usize) -> f32;
}

/// Rows of `x` if each row of `x` is contiguous in memory.
#[derive(Clone, Copy)]
struct RowByRow<'a, const R: usize>([&'a [f32]; R]);

impl<'a, const R: usize> XRows<'a, R> for RowByRow<'a, R> {
    #[inline(always)]
    fn of(part: &Part<'a, '_, '_>, row: usize, first: usize, depth: usize) -> Self {
        let x: [&[f32]; R] = std::array::from_fn(|i| &part.x_row(row + i)[first..][..depth]);
        // This check shows the compiler that no index is out of bounds.
        for x in x {
            assert!(x.len() == depth);
        }
        Self(x)
    }

    #[inline(always)]
    fn at(self, row: usize, column: usize) -> f32 {
        self.0[row][column]
    }
}

/// Rows of `x` if each column of `x` is contiguous in memory.
#[derive(Clone, Copy)]
struct ColumnByColumn<'a> {
    data: &'a [f32],
    stride: usize,
}

impl<'a, const R: usize> XRows<'a, R> for ColumnByColumn<'a> {
    #[inline(always)]
    fn of(part: &Part<'a, '_, '_>, row: usize, first: usize, _: usize) -> Self {
        let stride = part.x.column_stride;
        Self {
            data: &part.x.data[first * stride + part.first_row + row..],
            stride,
        }
    }

    #[inline(always)]
    fn at(self, row: usize, column: usize) -> f32 {
        self.data[column * self.stride..][..R][row]
    }
}

/// Adds each element to the sum with the same index.
#[inline(always)]
fn add<'a>(sums: &mut [f32], elements: impl Iterator<Item = &'a f32>) {
    for (sum, x) in sums.iter_mut().zip(elements) {
        *sum += x;
    }
}

/// Returns whether the direct path can compute a part.
pub(super) fn is_direct(part: &Part<'_, '_, '_>) -> bool {
    let is_dense = part.x.column_stride == 1 || part.x.row_stride == 1;
    part.y.len() <= FEW && part.w.column_stride == 1 && is_dense
}

impl<'a> Part<'a, '_, '_> {
    /// Computes the part's output.
    #[inline(always)]
    pub(super) fn direct<S: Simd>(mut self, simd: S) {
        let (k, m) = (self.w.rows, self.y.len());
        let low = m <= LOW;
        let halves = if has_16_registers::<S>() { 2 } else { 1 };
        // In each branch, the height is a constant, so that no code is compiled for higher tiles.
        let (low_height, height) = (LOW / halves, ROWS / halves);
        for first in (0..k).step_by(STREAMS) {
            if low {
                for row in (0..m).step_by(low_height) {
                    self.direct_height::<S, LOW_VECTORS>(simd, first, row, low_height);
                }
            } else {
                for row in (0..m).step_by(height) {
                    self.direct_height::<S, VECTORS>(simd, first, row, height);
                }
            }
        }
    }

    /// Computes the part's column sums of `W`. Rows are summed in pieces of as many rows as in the
    /// packed path, so that both paths give the same bits.
    #[inline(always)]
    pub(super) fn direct_sums(&mut self) {
        let (depth, w) = (self.depth(1), self.w);
        for (first_column, sums) in &mut self.sums {
            let begin = (self.first_column + *first_column) * w.column_stride;
            let mut found = [0.0; PACK_COLUMNS];
            let found = &mut found[..sums.len()];
            for first in (0..w.rows).step_by(depth) {
                found.fill(0.0);
                for row in first..w.rows.min(first + depth) {
                    let row = &w.data[row * w.row_stride + begin..];
                    match w.column_stride {
                        1 => add(found, row[..found.len()].iter()),
                        stride => add(found, row.iter().step_by(stride)),
                    }
                }
                add(sums, found.iter());
            }
        }
    }

    /// Multiplies at most `height` rows of `x`, from `row` on, by at most [`STREAMS`] rows of `W`,
    /// from `first` on, and adds the product to the output.
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
            ROWS => self.direct_rows::<S, ROWS, V>(simd, first, row),
            _ => unreachable!("a tile has at most {ROWS} rows"),
        }
    }

    /// Multiplies `R` rows of `x`, from `row` on, by at most [`STREAMS`] rows of `W`, from `first`
    /// on, and adds the product to the output.
    #[inline(always)]
    fn direct_rows<S: Simd, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        first: usize,
        row: usize,
    ) {
        match self.x.column_stride {
            1 => self.direct_tiles::<S, RowByRow<'a, R>, R, V>(simd, first, row),
            _ => self.direct_tiles::<S, ColumnByColumn<'a>, R, V>(simd, first, row),
        }
    }

    #[inline(always)]
    fn direct_tiles<S: Simd, X: XRows<'a, R>, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        first: usize,
        row: usize,
    ) {
        let width = self.y[0].len();
        let mut column = 0;
        while width - column >= V * S::F32_LANES {
            self.direct_tile::<S, X, R, V, true>(simd, first, At { row, column });
            column += V * S::F32_LANES;
        }
        while width - column >= S::F32_LANES {
            self.direct_tile::<S, X, R, 1, true>(simd, first, At { row, column });
            column += S::F32_LANES;
        }
        if column < width {
            self.direct_tile::<S, X, R, 1, false>(simd, first, At { row, column });
        }
    }

    #[inline(always)]
    fn direct_tile<S: Simd, X: XRows<'a, R>, const R: usize, const V: usize, const WHOLE: bool>(
        &mut self,
        simd: S,
        first: usize,
        at: At,
    ) {
        let (k, stride) = (self.w.rows, self.w.row_stride);
        let depth = STREAMS.min(k - first);
        let x = X::of(self, at.row, first, depth);
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
            for (row, sums) in sums.iter_mut().enumerate() {
                let x = simd.splat_f32s(x.at(row, i));
                // `zip` would be a function call for each row in builds with `lto = "off"`.
                #[allow(clippy::needless_range_loop)]
                for v in 0..V {
                    sums[v] = simd.mul_add_e_f32s(x, w[v], sums[v]);
                }
            }
        }
        self.store::<S, R, V, WHOLE>(simd, at, sums);
    }
}
