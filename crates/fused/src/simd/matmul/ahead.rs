//! Prefetches the next piece of `W` while the tiles of a packed piece are computed.

use std::ops::Range;

use super::part::Part;
use crate::memory::arena::CACHE_LINE;
use crate::simd::prefetch::prefetch_into_l2;

/// The next piece of `W`, as its rows, or as its columns if these are contiguous in memory. It is
/// empty after the last piece, and for a matrix without contiguous rows or columns.
#[derive(Clone, Copy, Default)]
pub(super) struct Ahead {
    /// Index of the piece's first element in the data of `W`.
    begin: usize,
    /// Distance between two rows, or columns, in memory.
    stride: usize,
    /// Number of rows, or columns.
    count: usize,
    /// Number of cache lines that are prefetched of a row, or column. They begin at its first
    /// element, so that a row that does not begin at a cache line may lack its last one.
    lines: usize,
}

impl Ahead {
    /// Returns the lines of the piece with these rows and columns.
    #[inline(always)]
    pub fn of(part: &Part<'_, '_, '_>, rows: Range<usize>, columns: Range<usize>) -> Self {
        let w = part.w;
        let column = part.first_column + columns.start;
        let (stride, count, len) = match (w.row_stride, w.column_stride) {
            (stride, 1) => (stride, rows.len(), columns.len()),
            (1, stride) => (stride, columns.len(), rows.len()),
            _ => return Self::default(),
        };
        Self {
            begin: rows.start * w.row_stride + column * w.column_stride,
            stride,
            count,
            lines: len.div_ceil(CACHE_LINE),
        }
    }

    /// Prefetches one of `shares` equal shares of the piece. A few lines with each tile are faster
    /// than all at once, for which the processor would have to wait.
    #[inline(always)]
    pub fn prefetch(self, w: &[f32], share: usize, shares: usize) {
        let Some(all) = self.count.checked_mul(self.lines).filter(|all| *all > 0) else {
            return;
        };
        let first = all * share / shares;
        let (mut row, mut line) = (first / self.lines, first % self.lines);
        for _ in first..all * (share + 1) / shares {
            prefetch_into_l2(w, self.begin + row * self.stride + line * CACHE_LINE);
            line += 1;
            if line == self.lines {
                (row, line) = (row + 1, 0);
            }
        }
    }
}
