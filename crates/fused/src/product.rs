//! `x W + b` in f32 by vector instructions: the product of a few or many rows with a matrix that
//! is read once.
//!
//! Every output is one chain `((b + x_0 w_0) + x_1 w_1) + ...` of multiply-adds in this order,
//! whatever the path, so that a row's result does not depend on the number of rows.

use std::cell::RefCell;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Rows in a tile.
const ROWS: usize = 8;

/// Up to so many rows, the matrix is read as it lies, row after row; for more it is repacked.
const FEW: usize = 8;

/// Columns that a pass over few rows sums up at a time, so that the sums stay in the L1 cache.
const STREAM_COLUMNS: usize = 1024;

/// Rows and columns of the matrix that are packed at a time, so that they stay in the L2 cache.
const PACK_ROWS: usize = 256;
const PACK_COLUMNS: usize = 256;

/// Multiply-adds below which a second thread costs more than it brings.
const PARALLEL: usize = 1 << 17;

/// Rows for each thread from which on they share the rows; below, they share the columns.
const ROWS_PER_THREAD: usize = 64;

/// A matrix with any strides.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Its elements, the first one first.
    pub data: &'a [f32],
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Elements from one row to the next.
    pub row_stride: usize,
    /// Elements from one column to the next.
    pub column_stride: usize,
}

/// `x W + b`: `x` is `[m, W.rows]` and `y` `[m, W.columns]`, both row after row.
///
/// # Panics
///
/// If the sizes do not fit together.
pub fn product(x: &[f32], w: Matrix<'_>, bias: Option<&[f32]>, y: &mut [f32]) {
    let (k, n) = (w.rows, w.columns);
    let m = y.len().checked_div(n).unwrap_or(0);
    assert!(
        y.len() == m * n && x.len() == m * k && bias.is_none_or(|bias| bias.len() == n),
        "{} numbers times [{k}, {n}] into {} numbers",
        x.len(),
        y.len()
    );
    if m == 0 {
        return;
    }
    let threads = match m * k * n {
        work if work < PARALLEL => 1,
        _ => rayon::current_num_threads(),
    };
    let (high, wide) = match m >= threads * ROWS_PER_THREAD {
        true => (threads, 1),
        false => (1, threads),
    };
    let height = m.div_ceil(high).next_multiple_of(ROWS);
    // Whole cache lines and vectors.
    let width = n.div_ceil(wide).next_multiple_of(64);
    let mut parts = Vec::with_capacity(threads);
    for (y, first_row) in y.chunks_mut(height * n).zip((0..).step_by(height)) {
        let first_part = parts.len();
        parts.extend((0..n).step_by(width).map(|first_column| Part {
            x: &x[first_row * k..],
            w,
            bias: bias.map(|bias| &bias[first_column..]),
            first_column,
            y: Vec::with_capacity(height),
        }));
        for row in y.chunks_mut(n) {
            for (part, segment) in parts[first_part..].iter_mut().zip(row.chunks_mut(width)) {
                part.y.push(segment);
            }
        }
    }
    let arch = Arch::new();
    if parts.len() == 1 {
        parts.into_iter().for_each(|part| arch.dispatch(part));
    } else {
        parts.into_par_iter().for_each(|part| arch.dispatch(part));
    }
}

thread_local! {
    /// Packed rows of `x`, and a packed piece of the matrix.
    static SCRATCH: RefCell<(Vec<f32>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Some rows and columns of the output, for one thread.
struct Part<'a> {
    /// From the first row of this part.
    x: &'a [f32],
    w: Matrix<'a>,
    /// From the first column of this part.
    bias: Option<&'a [f32]>,
    first_column: usize,
    y: Vec<&'a mut [f32]>,
}

impl WithSimd for Part<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if self.w.column_stride == 1 {
            // So many rows of the matrix at a time that the multipliers fit in registers.
            match self.y.len() {
                1 => return self.stream::<S, 1, 8>(simd),
                2 => return self.stream::<S, 2, 8>(simd),
                3 => return self.stream::<S, 3, 4>(simd),
                4 => return self.stream::<S, 4, 4>(simd),
                5 => return self.stream::<S, 5, 4>(simd),
                6 => return self.stream::<S, 6, 4>(simd),
                7 => return self.stream::<S, 7, 2>(simd),
                FEW => return self.stream::<S, FEW, 2>(simd),
                _ => {}
            }
        }
        // Not in a closure: that would be compiled without the vector instructions.
        let (mut packed_x, mut packed_w) = SCRATCH.take();
        self.tiles(simd, &mut packed_x, &mut packed_w);
        SCRATCH.set((packed_x, packed_w));
    }
}

impl Part<'_> {
    /// Adds `U` rows of the matrix at a time to all sums.
    #[inline(always)]
    fn stream<S: Simd, const M: usize, const U: usize>(mut self, simd: S) {
        let k = self.w.rows;
        let width = self.y[0].len();
        for row in &mut self.y {
            match self.bias {
                Some(bias) => row.copy_from_slice(&bias[..width]),
                None => row.fill(0.0),
            }
        }
        for begin in (0..width).step_by(STREAM_COLUMNS) {
            let end = width.min(begin + STREAM_COLUMNS);
            let whole = k - k % U;
            for first in (0..whole).step_by(U) {
                self.stream_rows::<S, M, U>(simd, first, begin..end);
            }
            for first in whole..k {
                self.stream_rows::<S, M, 1>(simd, first, begin..end);
            }
        }
    }

    #[inline(always)]
    fn stream_rows<S: Simd, const M: usize, const U: usize>(
        &mut self,
        simd: S,
        first: usize,
        columns: std::ops::Range<usize>,
    ) {
        let k = self.w.rows;
        let x: [[S::f32s; U]; M] = std::array::from_fn(|row| {
            std::array::from_fn(|u| simd.splat_f32s(self.x[row * k + first + u]))
        });
        let w: [(&[S::f32s], &[f32]); U] = std::array::from_fn(|u| {
            let begin = (first + u) * self.w.row_stride + self.first_column + columns.start;
            S::as_simd_f32s(&self.w.data[begin..begin + columns.len()])
        });
        let mut rows = self.y.iter_mut();
        let y: [(&mut [S::f32s], &mut [f32]); M] = std::array::from_fn(|_| {
            let row = rows.next().expect("there are M rows");
            S::as_mut_simd_f32s(&mut row[columns.clone()])
        });
        let length = columns.len() / S::F32_LANES;
        // What the compiler needs to see that no index is out of bounds.
        assert!(w.iter().all(|w| w.0.len() == length) && y.iter().all(|y| y.0.len() == length));
        for i in 0..length {
            let w: [S::f32s; U] = std::array::from_fn(|u| w[u].0[i]);
            for row in 0..M {
                let mut sum = y[row].0[i];
                for u in 0..U {
                    sum = simd.mul_add_e_f32s(x[row][u], w[u], sum);
                }
                y[row].0[i] = sum;
            }
        }
        if !w[0].1.is_empty() {
            let w: [S::f32s; U] = std::array::from_fn(|u| simd.partial_load_f32s(w[u].1));
            for row in 0..M {
                let mut sum = simd.partial_load_f32s(y[row].1);
                for u in 0..U {
                    sum = simd.mul_add_e_f32s(x[row][u], w[u], sum);
                }
                simd.partial_store_f32s(y[row].1, sum);
            }
        }
    }

    /// Tiles of `ROWS` rows and two vectors, over packed pieces of the matrix.
    #[inline(always)]
    fn tiles<S: Simd>(mut self, simd: S, packed_x: &mut Vec<f32>, packed_w: &mut Vec<f32>) {
        let panel = 2 * S::F32_LANES;
        let (k, width) = (self.w.rows, self.y[0].len());
        let n_tiles = self.y.len().div_ceil(ROWS);
        packed_x.resize(n_tiles * ROWS * k.min(PACK_ROWS), 0.0);
        packed_w.resize(PACK_ROWS * PACK_COLUMNS, 0.0);
        for first in (0..k).step_by(PACK_ROWS) {
            let depth = PACK_ROWS.min(k - first);
            pack_x(self.x, k, first, depth, self.y.len(), packed_x);
            for begin in (0..width).step_by(PACK_COLUMNS) {
                let columns = PACK_COLUMNS.min(width - begin);
                self.pack_w(first, depth, begin, columns, panel, packed_w);
                let x_tiles = packed_x.chunks_exact(depth * ROWS).take(n_tiles);
                for (x, tile) in x_tiles.zip((0..).step_by(ROWS)) {
                    let x = x.as_chunks::<ROWS>().0;
                    let panels = packed_w.chunks_exact(depth * panel);
                    let offsets = (begin..begin + columns).step_by(panel);
                    for (w, column) in panels.zip(offsets) {
                        let w = S::as_simd_f32s(w).0.as_chunks::<2>().0;
                        let at = (first, tile, column);
                        if S::F32_LANES >= 16 {
                            self.tile::<S, 0, 8>(simd, at, x, w);
                        } else {
                            self.tile::<S, 0, 4>(simd, at, x, w);
                            self.tile::<S, 4, 4>(simd, at, x, w);
                        }
                    }
                }
            }
        }
    }

    /// Adds one tile's product, of rows `H..H + R`, to the sums.
    #[inline(always)]
    fn tile<S: Simd, const H: usize, const R: usize>(
        &mut self,
        simd: S,
        (first, tile, column): (usize, usize, usize),
        x: &[[f32; ROWS]],
        w: &[[S::f32s; 2]],
    ) {
        let Some(rows) = self.y.get_mut(tile + H..) else {
            return;
        };
        let width = (2 * S::F32_LANES).min(rows.first().map_or(0, |row| row.len() - column));
        let (left, right) = (width.min(S::F32_LANES), width.saturating_sub(S::F32_LANES));
        let load = |from: &[f32]| {
            let (a, b) = from[..left + right].split_at(left);
            [simd.partial_load_f32s(a), simd.partial_load_f32s(b)]
        };
        let mut sums = [[simd.splat_f32s(0.0); 2]; R];
        for (sums, row) in sums.iter_mut().zip(rows.iter()) {
            if first > 0 {
                *sums = load(&row[column..]);
            } else if let Some(bias) = self.bias {
                *sums = load(&bias[column..]);
            }
        }
        for (x, w) in x.iter().zip(w) {
            for row in 0..R {
                let x = simd.splat_f32s(x[H + row]);
                sums[row][0] = simd.mul_add_e_f32s(x, w[0], sums[row][0]);
                sums[row][1] = simd.mul_add_e_f32s(x, w[1], sums[row][1]);
            }
        }
        for (sums, row) in sums.iter().zip(rows.iter_mut()) {
            let (a, b) = row[column..column + left + right].split_at_mut(left);
            simd.partial_store_f32s(a, sums[0]);
            simd.partial_store_f32s(b, sums[1]);
        }
    }

    /// Rows `first..first + depth` of some columns, in panels `[depth, panel]`; what is beyond the
    /// last column is arbitrary.
    #[inline(always)]
    fn pack_w(
        &self,
        first: usize,
        depth: usize,
        begin: usize,
        columns: usize,
        panel: usize,
        packed: &mut [f32],
    ) {
        let w = self.w;
        let from = |row: usize, column: usize| {
            (first + row) * w.row_stride + (self.first_column + begin + column) * w.column_stride
        };
        if w.column_stride == 1 {
            for row in 0..depth {
                let line = &w.data[from(row, 0)..][..columns];
                for (index, piece) in line.chunks(panel).enumerate() {
                    packed[(index * depth + row) * panel..][..piece.len()].copy_from_slice(piece);
                }
            }
        } else {
            for column in 0..columns {
                let (index, place) = (column / panel, column % panel);
                let line = w.data[from(0, column)..].iter().step_by(w.row_stride);
                let places = packed[index * depth * panel + place..].iter_mut();
                for (to, &from) in places.step_by(panel).zip(line).take(depth) {
                    *to = from;
                }
            }
        }
    }
}

/// Columns `first..first + depth` of the rows of `x`, in tiles `[depth, ROWS]`; rows beyond the
/// last are arbitrary.
#[inline(always)]
fn pack_x(x: &[f32], k: usize, first: usize, depth: usize, rows: usize, packed: &mut [f32]) {
    for (row, x) in x.chunks_exact(k).take(rows).enumerate() {
        let tile = &mut packed[row / ROWS * ROWS * depth..][..ROWS * depth];
        let places = tile[row % ROWS..].iter_mut().step_by(ROWS);
        for (to, &from) in places.zip(&x[first..first + depth]) {
            *to = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        (0..n)
            .map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0)
            .collect()
    }

    fn run(
        x: &[f32],
        w: &[f32],
        k: usize,
        n: usize,
        bias: Option<&[f32]>,
        transposed: bool,
    ) -> Vec<f32> {
        let mut y = vec![f32::NAN; x.len() / k * n];
        let (row_stride, column_stride) = if transposed { (1, k) } else { (n, 1) };
        let w = Matrix {
            data: w,
            rows: k,
            columns: n,
            row_stride,
            column_stride,
        };
        product(x, w, bias, &mut y);
        y
    }

    const SIZES: [(usize, usize); 7] = [
        (1, 1),
        (3, 17),
        (64, 64),
        (257, 33),
        (300, 500),
        (512, 270),
        (40, 1100),
    ];

    #[test]
    fn products_are_right_for_every_number_of_rows() {
        for (k, n) in SIZES {
            let (w, bias) = (numbers(k * n, 1), numbers(n, 2));
            for m in [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 40, 200] {
                let x = numbers(m * k, 3);
                let y = run(&x, &w, k, n, Some(&bias), false);
                for (row, y) in x.chunks(k).zip(y.chunks(n)) {
                    for (column, &y) in y.iter().enumerate() {
                        let terms =
                            (0..k).map(|i| f64::from(row[i]) * f64::from(w[i * n + column]));
                        let expected = terms.sum::<f64>() + f64::from(bias[column]);
                        assert!(
                            (f64::from(y) - expected).abs() < 1e-4,
                            "{m} {k} {n}: {y}, not {expected}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_does_not_depend_on_the_others() {
        for (k, n) in SIZES {
            let (w, bias) = (numbers(k * n, 1), numbers(n, 2));
            let all = numbers(200 * k, 3);
            for bias in [None, Some(&bias[..])] {
                let alone = run(&all[..k], &w, k, n, bias, false);
                for m in [2, 3, 4, 5, 6, 7, 8, 9, 16, 30, 200] {
                    let y = run(&all[..m * k], &w, k, n, bias, false);
                    assert!(y[..n] == alone[..], "{m} rows, [{k}, {n}]");
                }
            }
        }
    }

    #[test]
    fn a_transposed_matrix_gives_the_same_bits() {
        for (k, n) in SIZES {
            let w = numbers(k * n, 1);
            let transposed: Vec<f32> = (0..k * n).map(|i| w[i % k * n + i / k]).collect();
            for m in [1, 7, 20, 150] {
                let x = numbers(m * k, 3);
                let expected = run(&x, &w, k, n, None, false);
                assert!(
                    run(&x, &transposed, k, n, None, true) == expected,
                    "{m} {k} {n}"
                );
            }
        }
    }

    #[test]
    fn nothing_times_a_matrix_is_nothing() {
        assert!(run(&[], &[1.0, 2.0], 1, 2, None, false).is_empty());
    }
}
