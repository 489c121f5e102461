//! Matmuls of elements that are rounded to bfloat16 while they are packed. Sums are f32.

use std::ops::Range;

use super::matrix::Matrix;
use super::part::{Part, ROWS};
use crate::simd::transpose::copy_transposed;

/// Number of tiles that are packed at the same time if each column of `x` is contiguous in memory.
const SIDE_BY_SIDE: usize = 4;

/// Returns the bits of `x` after rounding to the nearest bfloat16, ties to even. The lower 16 bits
/// are arbitrary.
#[inline(always)]
fn round(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    // Rounding could turn NaN into infinity or zero. For NaN, the highest bit of the significand is
    // set instead.
    if x.is_nan() {
        bits | 0x0040_0000
    } else {
        rounded
    }
}

/// Rounds two elements to bfloat16 and packs them into the 32 bits of an f32, a *word*. The first
/// element is in the lower bits.
#[inline(always)]
fn word(first: f32, second: f32) -> f32 {
    f32::from_bits(round(first) >> 16 | round(second) & 0xffff_0000)
}

/// Packs two rows into words: word `i` holds element `i` of each row. A missing second row counts
/// as zeros.
#[inline(always)]
pub(super) fn pair_rows(first: &[f32], second: Option<&[f32]>, words: &mut [f32]) {
    match second {
        Some(second) => {
            for ((&first, &second), to) in first.iter().zip(second).zip(words) {
                *to = word(first, second);
            }
        }
        None => {
            for (&first, to) in first.iter().zip(words) {
                *to = word(first, 0.0);
            }
        }
    }
}

/// Packs each pair of consecutive elements into a word. If the number of elements is odd, the last
/// word has a zero as its second element.
#[inline(always)]
pub(super) fn pair_elements(elements: &[f32], words: &mut [f32]) {
    let (pairs, rest) = elements.as_chunks::<2>();
    for (&[first, second], to) in pairs.iter().zip(&mut *words) {
        *to = word(first, second);
    }
    if let [last] = rest {
        words[pairs.len()] = word(*last, 0.0);
    }
}

/// Packs elements `2 * index` and `2 * index + 1` of a row or column into a word. The row or column
/// has `len` elements, which are `stride` apart in `line`. Elements beyond its end count as zeros.
#[inline(always)]
pub(super) fn strided_word(line: &[f32], stride: usize, index: usize, len: usize) -> f32 {
    let at = |i: usize| if i < len { line[i * stride] } else { 0.0 };
    word(at(2 * index), at(2 * index + 1))
}

impl Part<'_, '_, '_> {
    /// Packs `columns` of `x` into tiles `[words, ROWS]`. In the last tile, rows beyond the end of
    /// `x` are arbitrary. `scratch` has room for a tile.
    #[inline(always)]
    pub(super) fn pack_x_words(
        &self,
        columns: Range<usize>,
        packed: &mut [f32],
        scratch: &mut [f32],
    ) {
        let (x, m, depth) = (self.x, self.y.len(), columns.len());
        let words = depth.div_ceil(2);
        let groups = packed.chunks_mut(words * SIDE_BY_SIDE * ROWS);
        for (tiles, row) in groups.zip((0..m).step_by(SIDE_BY_SIDE * ROWS)) {
            let rows = (m - row).min(SIDE_BY_SIDE * ROWS);
            let begin = (self.first_row + row) * x.row_stride + columns.start * x.column_stride;
            let from = &x.data[begin..];
            if x.row_stride == 1 && rows == SIDE_BY_SIDE * ROWS {
                let line = |i: usize| &from[i * x.column_stride..][..SIDE_BY_SIDE * ROWS];
                for i in 0..words {
                    let second = (2 * i + 1 < depth).then(|| line(2 * i + 1));
                    let mut found = [0.0; SIDE_BY_SIDE * ROWS];
                    pair_rows(line(2 * i), second, &mut found);
                    for (tile, found) in found.as_chunks::<ROWS>().0.iter().enumerate() {
                        tiles.as_chunks_mut::<ROWS>().0[tile * words + i] = *found;
                    }
                }
                continue;
            }
            let tiles = tiles.chunks_exact_mut(words * ROWS);
            for (tile, row) in tiles.zip((0..rows).step_by(ROWS)) {
                let from = &from[row * x.row_stride..];
                pack_tile(from, x, ROWS.min(rows - row), depth, tile, scratch);
            }
        }
    }

    /// Packs `rows` and `columns` of `W` into panels `[words, panel]`. Each panel has `panel`
    /// columns of `words` words. Words beyond the last row are zeros, and words beyond the last
    /// column are arbitrary. `scratch` has room for a panel.
    #[inline(always)]
    pub(super) fn pack_w_words(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        words: usize,
        panel: usize,
        packed: &mut [f32],
        scratch: &mut [f32],
    ) {
        let (w, depth) = (self.w, rows.len());
        let filled = depth.div_ceil(2);
        let from = |row: usize, column: usize| {
            (rows.start + row) * w.row_stride + (self.first_column + column) * w.column_stride
        };
        if w.column_stride == 1 {
            let line = |row: usize| &w.data[from(row, columns.start)..][..columns.len()];
            for i in 0..filled {
                let first = line(2 * i);
                let second = (2 * i + 1 < depth).then(|| line(2 * i + 1));
                for begin in (0..columns.len()).step_by(panel) {
                    let of = begin..columns.len().min(begin + panel);
                    let to = &mut packed[begin * words + i * panel..][..of.len()];
                    pair_rows(&first[of.clone()], second.map(|row| &row[of]), to);
                }
            }
            for to in packed.chunks_exact_mut(words * panel) {
                to[filled * panel..].fill(0.0);
            }
            return;
        }
        let panels = packed.chunks_exact_mut(words * panel);
        for (to, first) in panels.zip(columns.clone().step_by(panel)) {
            let n = panel.min(columns.end - first);
            for (column, scratch) in scratch.chunks_exact_mut(words).take(n).enumerate() {
                let from = &w.data[from(0, first + column)..];
                if w.row_stride == 1 {
                    pair_elements(&from[..depth], scratch);
                    scratch[filled..].fill(0.0);
                } else {
                    for (i, to) in scratch.iter_mut().enumerate() {
                        *to = strided_word(from, w.row_stride, i, depth);
                    }
                }
            }
            copy_transposed(scratch, words, [n, words], to, panel);
        }
    }
}

/// Packs `rows` rows and `depth` columns of a matrix with any strides into one tile. `from` begins
/// at the first of these elements.
#[inline(always)]
fn pack_tile(
    from: &[f32],
    x: Matrix<'_>,
    rows: usize,
    depth: usize,
    tile: &mut [f32],
    scratch: &mut [f32],
) {
    let words = depth.div_ceil(2);
    for (row, scratch) in scratch.chunks_exact_mut(words).take(rows).enumerate() {
        let from = &from[row * x.row_stride..];
        if x.column_stride == 1 {
            pair_elements(&from[..depth], scratch);
        } else {
            for (i, to) in scratch.iter_mut().enumerate() {
                *to = strided_word(from, x.column_stride, i, depth);
            }
        }
    }
    copy_transposed(scratch, words, [rows, words], tile, ROWS);
}
