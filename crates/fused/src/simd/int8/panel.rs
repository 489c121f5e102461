//! Panels: columns of `W` in the order in which kernels read them.

use std::ops::Range;

use super::group::{Group, Interleave, OFFSET, PANEL, Portable};
use super::matrix::Int8Matrix;
use crate::simd::prefetch::prefetch;
use crate::simd::transpose::copy_transposed;

/// Distance, in rows, from the rows that are being packed to the rows that are prefetched.
const AHEAD: usize = 32;

impl Int8Matrix<'_> {
    /// Packs a panel of at most [`PANEL`] columns, block by block. Missing columns, and missing rows
    /// of a block's last group, are zeros.
    pub(super) fn pack(&self, columns: Range<usize>, groups: &mut [Group]) {
        let [row_stride, column_stride] = self.strides;
        if row_stride == 1 && column_stride.is_multiple_of(4) && self.block.is_multiple_of(4) {
            self.pack_columns(columns, groups);
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = crate::simd::level::avx2() {
            simd.vectorize(|| self.pack_rows(columns, groups, simd));
            return;
        }
        self.pack_rows(columns, groups, Portable);
    }

    /// Packs columns that are contiguous in memory, in blocks of whole groups.
    fn pack_columns(&self, columns: Range<usize>, groups: &mut [Group]) {
        let stride = self.strides[1] / 4;
        let from = &self.data.as_chunks::<4>().0[columns.start * stride..];
        let to: &mut [[i8; 4]] = bytemuck::cast_slice_mut(groups);
        copy_transposed(from, stride, [columns.len(), self.rows / 4], to, PANEL);
        for group in groups {
            for element in group.0.as_flattened_mut() {
                *element ^= OFFSET;
            }
            group.0[columns.len()..].fill([OFFSET; 4]);
        }
    }

    /// Packs a matrix with any strides and blocks.
    #[inline(always)]
    fn pack_rows(&self, columns: Range<usize>, groups: &mut [Group], code: impl Interleave) {
        let is_whole = self.strides[1] == 1 && columns.len() == PANEL;
        for (block, groups) in groups.chunks_exact_mut(self.block.div_ceil(4)).enumerate() {
            let end = (block + 1) * self.block;
            for (begin, group) in (block * self.block..end).step_by(4).zip(groups) {
                if is_whole && begin + 4 <= end {
                    let row = |i: usize| {
                        self.ask(begin + i + AHEAD, columns.start);
                        let first = (begin + i) * self.strides[0] + columns.start;
                        self.data[first..].first_chunk().expect("a whole row")
                    };
                    code.interleave([row(0), row(1), row(2), row(3)], group);
                } else {
                    self.pack_some(begin..end.min(begin + 4), columns.clone(), group);
                }
            }
        }
    }

    /// Prefetches a row of a panel, or, after the last row, one of the next panel. The rows of a wide
    /// matrix are far apart in memory, and processors do not prefetch such cache lines by themselves.
    #[inline(always)]
    fn ask(&self, row: usize, column: usize) {
        let (row, column) = if row < self.rows {
            (row, column)
        } else {
            (row - self.rows, column + PANEL)
        };
        prefetch(self.data, row * self.strides[0] + column);
    }

    /// Packs at most four rows and [`PANEL`] columns of a matrix with any strides.
    fn pack_some(&self, rows: Range<usize>, columns: Range<usize>, group: &mut Group) {
        *group = Group::EMPTY;
        for (column, elements) in columns.zip(&mut group.0) {
            for (row, element) in rows.clone().zip(elements) {
                let index = row * self.strides[0] + column * self.strides[1];
                *element = self.data[index].cast_unsigned() ^ OFFSET;
            }
        }
    }

    /// Returns the scale of each column of a block, and zeros for missing columns.
    #[inline(always)]
    pub(super) fn scales(&self, block: usize, columns: Range<usize>) -> [f32; PANEL] {
        let mut scales = [0.0; PANEL];
        let begin = block * self.scale_strides[0];
        if self.scale_strides[1] == 1 {
            let found = &self.scales[begin + columns.start..][..columns.len()];
            scales[..columns.len()].copy_from_slice(found);
        } else {
            for (column, scale) in columns.zip(&mut scales) {
                *scale = self.scales[begin + column * self.scale_strides[1]];
            }
        }
        scales
    }
}
