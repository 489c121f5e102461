//! Pieces of both matrices, in the order in which tiles read them.

use pulp::Simd;

use super::part::{Part, ROWS, VECTORS, load_vectors};
use crate::transpose::copy_transposed;

impl Part<'_, '_, '_> {
    /// Some columns of `x`, in tiles `[depth, ROWS]`; rows beyond the last are arbitrary.
    #[inline(always)]
    pub(super) fn pack_x(&self, first: usize, depth: usize, packed: &mut [f32]) {
        let m = self.y.len();
        let tiles = packed.chunks_exact_mut(depth * ROWS);
        if self.x.column_stride != 1 {
            self.pack_strided_x(first, tiles);
            return;
        }
        for (tile, row) in tiles.zip((0..m).step_by(ROWS)) {
            let from = &self.x_row(row)[first..];
            let shape = [ROWS.min(m - row), depth];
            copy_transposed(from, self.x.row_stride, shape, tile, ROWS);
        }
    }

    /// The same, column after column.
    #[inline(always)]
    fn pack_strided_x(&self, first: usize, tiles: std::slice::ChunksExactMut<'_, f32>) {
        let (x, m) = (self.x, self.y.len());
        for (tile, row) in tiles.zip((0..m).step_by(ROWS)) {
            let rows = ROWS.min(m - row);
            let begin = (self.first_row + row) * x.row_stride;
            for (i, to) in tile.as_chunks_mut::<ROWS>().0.iter_mut().enumerate() {
                let from = &x.data[begin + (first + i) * x.column_stride..];
                if x.row_stride == 1 && rows == ROWS {
                    to.copy_from_slice(&from[..ROWS]);
                } else {
                    for (to, from) in to.iter_mut().zip(from.iter().step_by(x.row_stride)) {
                        *to = *from;
                    }
                }
            }
        }
    }

    /// Some rows and columns of the matrix, in panels `[depth, VECTORS]` of vectors; what is
    /// beyond the last column is arbitrary.
    #[inline(always)]
    pub(super) fn pack_w<S: Simd>(
        &self,
        simd: S,
        first: usize,
        depth: usize,
        columns: std::ops::Range<usize>,
        packed: &mut [f32],
    ) {
        let (w, panel) = (self.w, VECTORS * S::F32_LANES);
        let from = |row: usize, column: usize| {
            (first + row) * w.row_stride + (self.first_column + column) * w.column_stride
        };
        if w.column_stride == 1 {
            for row in 0..depth {
                let line = &w.data[from(row, columns.start)..][..columns.len()];
                for (index, piece) in line.chunks(panel).enumerate() {
                    let to = &mut packed[(index * depth + row) * panel..][..panel];
                    let vectors = load_vectors::<S, VECTORS>(simd, piece);
                    S::as_mut_simd_f32s(to).0.copy_from_slice(&vectors);
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
