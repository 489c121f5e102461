//! The matmul path for few rows of `x`, which reads the matrix `W` in place. A *tile* is a block of
//! the output whose sums stay in registers.

use std::ops::Range;

use pulp::Simd;

use super::packed::PACK_COLUMNS;
use super::part::{AVX2_LANES, AVX2_VECTORS, At, Part, ROWS, Start, VECTORS, has_16_registers};

/// Maximum number of rows of a part for which `W` is read in place. For more rows, `W` is packed.
pub(super) const FEW: usize = 16;

/// Maximum number of rows of a part that is computed in low tiles. These tiles have fewer rows than
/// other tiles, but more vectors in each row.
const LOW: usize = 6;

/// Number of vectors in each row of a low tile.
const LOW_VECTORS: usize = 4;

/// Maximum number of vectors in a tile of a part with a single row.
const SINGLE_VECTORS: usize = 8;

/// Maximum number of rows of `W` for which a tile's sums stay in registers. Loading and storing the
/// sums takes as long as many multiply-adds.
const DEPTH: usize = 64;

/// [`DEPTH`] for a single row of `x` and a large matrix `W`, if the part has [`SINGLE_VECTORS`]
/// vectors or more. Reading `W` then takes most of the time, and processors prefetch few streams of
/// memory better than many. With AVX2, whose vectors are half as long, twice as many are faster,
/// because sums are loaded and stored less often.
const fn streams<S: Simd>() -> usize {
    if S::F32_LANES == AVX2_LANES { 16 } else { 8 }
}

/// Minimum number of elements of a large matrix. With smaller ones, loading and storing sums costs
/// more than reading `W`.
const LARGE: usize = 1 << 16;

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
        let mut rows: [&[f32]; R] = [&[]; R];
        for (i, x) in rows.iter_mut().enumerate() {
            *x = &part.x_row(row + i)[first..][..depth];
        }
        // This check shows the compiler that no index is out of bounds.
        for x in rows {
            assert!(x.len() == depth);
        }
        Self(rows)
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
        self.begin();
        let (k, m) = (self.w.rows, self.y.len());
        let is_wide = self.y[0].len() >= SINGLE_VECTORS * S::F32_LANES;
        let is_streamed = m == 1 && is_wide && k * self.w.columns >= LARGE;
        let depth = if is_streamed { streams::<S>() } else { DEPTH };
        for first in (0..k).step_by(depth) {
            let of_w = first..k.min(first + depth);
            // Of two branches on a constant, only one is compiled.
            if m == 1 {
                self.direct_columns::<S, SINGLE_VECTORS, 1>(simd, of_w);
            } else if const { has_16_registers::<S>() } {
                if m <= LOW {
                    self.direct_columns::<S, LOW_VECTORS, { LOW / 2 }>(simd, of_w);
                } else if const { S::F32_LANES == AVX2_LANES } {
                    self.direct_columns::<S, AVX2_VECTORS, { ROWS / 2 }>(simd, of_w);
                } else {
                    self.direct_columns::<S, VECTORS, { ROWS / 2 }>(simd, of_w);
                }
            } else if m <= LOW {
                self.direct_columns::<S, LOW_VECTORS, LOW>(simd, of_w);
            } else {
                self.direct_columns::<S, VECTORS, ROWS>(simd, of_w);
            }
        }
    }

    /// Sets the output to the values to which the products are added.
    #[inline(always)]
    fn begin(&mut self) {
        for y in self.y.iter_mut() {
            match self.start {
                Start::Zero => y.fill(0.0),
                Start::Bias(bias) => y.copy_from_slice(&bias[self.first_column..][..y.len()]),
                Start::Output => return,
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

    /// Multiplies `x` by the given rows of `W`, and adds the product to the output, in tiles of at
    /// most `H` rows. If `H` is 1, `x` has a single row.
    #[inline(always)]
    fn direct_columns<S: Simd, const V: usize, const H: usize>(
        &mut self,
        simd: S,
        of_w: Range<usize>,
    ) {
        let width = self.y[0].len();
        let mut column = 0;
        while width - column >= V * S::F32_LANES {
            self.direct_rows::<S, V, H, true>(simd, of_w.clone(), column);
            column += V * S::F32_LANES;
        }
        if const { V > LOW_VECTORS } && width - column >= LOW_VECTORS * S::F32_LANES {
            self.direct_rows::<S, LOW_VECTORS, H, true>(simd, of_w.clone(), column);
            column += LOW_VECTORS * S::F32_LANES;
        }
        while width - column >= S::F32_LANES {
            self.direct_rows::<S, 1, H, true>(simd, of_w.clone(), column);
            column += S::F32_LANES;
        }
        if column < width {
            self.direct_rows::<S, 1, H, false>(simd, of_w, column);
        }
    }

    /// Computes a tile of `V` vectors, from `column` on, for each `H` rows. These tiles read the same
    /// elements of `W`, which stay in the cache.
    #[inline(always)]
    fn direct_rows<S: Simd, const V: usize, const H: usize, const WHOLE: bool>(
        &mut self,
        simd: S,
        of_w: Range<usize>,
        column: usize,
    ) {
        if const { H == 1 } {
            return self.direct_height::<S, 1, V, WHOLE>(simd, of_w, At { row: 0, column });
        }
        for row in (0..self.y.len()).step_by(H) {
            let (of_w, at) = (of_w.clone(), At { row, column });
            match H.min(self.y.len() - row) {
                1 => self.direct_height::<S, 1, V, WHOLE>(simd, of_w, at),
                2 if const { H >= 2 } => self.direct_height::<S, 2, V, WHOLE>(simd, of_w, at),
                3 if const { H >= 3 } => self.direct_height::<S, 3, V, WHOLE>(simd, of_w, at),
                4 if const { H >= 4 } => self.direct_height::<S, 4, V, WHOLE>(simd, of_w, at),
                5 if const { H >= 5 } => self.direct_height::<S, 5, V, WHOLE>(simd, of_w, at),
                6 if const { H >= 6 } => self.direct_height::<S, 6, V, WHOLE>(simd, of_w, at),
                7 if const { H >= 7 } => self.direct_height::<S, 7, V, WHOLE>(simd, of_w, at),
                8 if const { H >= 8 } => self.direct_height::<S, 8, V, WHOLE>(simd, of_w, at),
                _ => unreachable!("a tile has at most {ROWS} rows"),
            }
        }
    }

    /// Computes a tile whose rows of `x` are contiguous, or whose columns are.
    #[inline(always)]
    fn direct_height<S: Simd, const R: usize, const V: usize, const WHOLE: bool>(
        &mut self,
        simd: S,
        of_w: Range<usize>,
        at: At,
    ) {
        match self.x.column_stride {
            1 => self.direct_tile::<S, RowByRow<'a, R>, R, V, WHOLE>(simd, of_w, at),
            _ => self.direct_tile::<S, ColumnByColumn<'a>, R, V, WHOLE>(simd, of_w, at),
        }
    }

    /// Multiplies `R` rows of `x` by the given rows of `W`, and adds the product to a tile of the
    /// output. `WHOLE` means that no column of the tile is beyond the part's last column.
    #[inline(always)]
    fn direct_tile<S: Simd, X: XRows<'a, R>, const R: usize, const V: usize, const WHOLE: bool>(
        &mut self,
        simd: S,
        of_w: Range<usize>,
        At { row, column }: At,
    ) {
        let (first, depth, stride) = (of_w.start, of_w.len(), self.w.row_stride);
        let x = X::of(self, row, first, depth);
        let w = &self.w.data[first * stride + self.first_column + column..];
        let y: &mut [&mut [f32]; R] = self.y[row..].first_chunk_mut().expect("R rows");
        let width = if WHOLE {
            V * S::F32_LANES
        } else {
            y[0].len() - column
        };
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        for (sums, y) in sums.iter_mut().zip(&*y) {
            *sums = vectors::<S, V, WHOLE>(simd, &y[column..][..width]);
        }
        for i in 0..depth {
            let w = vectors::<S, V, WHOLE>(simd, &w[i * stride..][..width]);
            for (row, sums) in sums.iter_mut().enumerate() {
                let x = simd.splat_f32s(x.at(row, i));
                // `zip` would be a function call for each row in builds with `lto = "off"`.
                #[allow(clippy::needless_range_loop)]
                for v in 0..V {
                    sums[v] = simd.mul_add_e_f32s(x, w[v], sums[v]);
                }
            }
        }
        for (sums, y) in sums.iter().zip(y) {
            let y = &mut y[column..][..width];
            if WHOLE {
                S::as_mut_simd_f32s(y).0.as_chunks_mut().0[0] = *sums
            } else {
                simd.partial_store_f32s(y, sums[0])
            }
        }
    }
}

/// Loads `V` vectors. `WHOLE` means that `from` has exactly their elements. Otherwise, it has fewer,
/// and `V` is 1.
#[inline(always)]
fn vectors<S: Simd, const V: usize, const WHOLE: bool>(simd: S, from: &[f32]) -> [S::f32s; V] {
    if WHOLE {
        S::as_simd_f32s(from).0.as_chunks::<V>().0[0]
    } else {
        [simd.partial_load_f32s(from); V]
    }
}
