//! Packs `x` and `W`: copies their elements into the order in which the packed path reads them. A
//! tile is a group of `R` rows of `x`, and a panel is a group of columns of `W` that fill `V`
//! vectors.

use std::ops::Range;

use pulp::Simd;

use super::matrix::Matrix;
use super::part::{Part, load_vectors};
use crate::simd::transpose::copy_transposed;

/// Number of tiles that are packed at the same time if each column of `x` is contiguous in memory.
/// With eight rows in a tile, the elements of a column in these tiles fill two cache lines.
const SIDE_BY_SIDE: usize = 4;

impl Part<'_, '_, '_> {
    /// Packs `columns` of `x`, from row `row` on, into tiles `[columns, R]`. In the last tile,
    /// rows beyond the end of `x` are arbitrary.
    #[inline(always)]
    pub(super) fn pack_x<const R: usize>(
        &self,
        columns: Range<usize>,
        mut row: usize,
        packed: &mut [f32],
    ) {
        let (x, m) = (self.x, self.y.len());
        for tiles in packed.chunks_mut(columns.len() * SIDE_BY_SIDE * R) {
            if row == m {
                return;
            }
            let rows = (m - row).min(SIDE_BY_SIDE * R);
            let begin = (self.first_row + row) * x.row_stride + columns.start * x.column_stride;
            let from = &x.data[begin..];
            if x.row_stride == 1 && rows == SIDE_BY_SIDE * R {
                pack_side_by_side::<R>(from, x.column_stride, columns.len(), tiles);
            } else {
                let tiles = tiles.chunks_exact_mut(columns.len() * R);
                for (tile, row) in tiles.zip((0..rows).step_by(R)) {
                    let from = &from[row * x.row_stride..];
                    let rows = R.min(rows - row);
                    if x.column_stride == 1 {
                        copy_transposed(from, x.row_stride, [rows, columns.len()], tile, R);
                    } else {
                        pack_strided::<R>(from, x, rows, tile.as_chunks_mut().0);
                    }
                }
            }
            row += rows;
        }
    }

    /// Packs `rows` and `columns` of `W` into panels of `[rows.len(), V]` vectors. In the
    /// last panel, elements beyond the last column are arbitrary.
    #[inline(always)]
    pub(super) fn pack_w<S: Simd, const V: usize>(
        &self,
        simd: S,
        rows: Range<usize>,
        columns: Range<usize>,
        packed: &mut [f32],
    ) {
        let (w, panel, depth) = (self.w, V * S::F32_LANES, rows.len());
        let from = |row: usize, column: usize| {
            (rows.start + row) * w.row_stride + (self.first_column + column) * w.column_stride
        };
        if w.column_stride == 1 {
            for row in 0..depth {
                let line = &w.data[from(row, columns.start)..][..columns.len()];
                let pieces = line.chunks_exact(panel);
                let rest = pieces.remainder();
                let mut begin = row * panel;
                for piece in pieces {
                    let to = S::as_mut_simd_f32s(&mut packed[begin..][..panel]).0;
                    to.as_chunks_mut::<V>().0[0] = S::as_simd_f32s(piece).0.as_chunks().0[0];
                    begin += depth * panel;
                }
                if !rest.is_empty() {
                    let to = S::as_mut_simd_f32s(&mut packed[begin..][..panel]).0;
                    to.as_chunks_mut().0[0] = load_vectors::<S, V>(simd, rest);
                }
            }
        } else if w.row_stride == 1 {
            for (index, column) in columns.clone().step_by(panel).enumerate() {
                let to = &mut packed[index * depth * panel..][..depth * panel];
                let shape = [panel.min(columns.end - column), depth];
                copy_transposed(
                    &w.data[from(0, column)..],
                    w.column_stride,
                    shape,
                    to,
                    panel,
                );
            }
        } else {
            for (place, column) in columns.enumerate() {
                let begin = place / panel * depth * panel + place % panel;
                let line = w.data[from(0, column)..].iter().step_by(w.row_stride);
                let places = packed[begin..].iter_mut().step_by(panel);
                for (to, &from) in places.zip(line).take(depth) {
                    *to = from;
                }
            }
        }
    }
}

/// Packs `SIDE_BY_SIDE` tiles of a matrix whose columns are contiguous.
#[inline(always)]
fn pack_side_by_side<const R: usize>(
    from: &[f32],
    column_stride: usize,
    columns: usize,
    tiles: &mut [f32],
) {
    for i in 0..columns {
        let line = from[i * column_stride..][..SIDE_BY_SIDE * R]
            .as_chunks::<R>()
            .0;
        for (tile, &from) in line.iter().enumerate() {
            tiles.as_chunks_mut::<R>().0[tile * columns + i] = from;
        }
    }
}

/// Packs `rows` rows of a matrix with any strides into one tile. `from` begins at the tile's first
/// element.
#[inline(always)]
fn pack_strided<const R: usize>(from: &[f32], x: Matrix<'_>, rows: usize, tile: &mut [[f32; R]]) {
    for (i, to) in tile.iter_mut().enumerate() {
        let from = from[i * x.column_stride..].iter().step_by(x.row_stride);
        for (to, from) in to.iter_mut().zip(from).take(rows) {
            *to = *from;
        }
    }
}
