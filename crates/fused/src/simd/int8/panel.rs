//! Panels: columns of `W` in the order in which kernels read them.

use std::ops::Range;

use super::matrix::Int8Matrix;
use crate::simd::prefetch::prefetch;
use crate::simd::transpose::copy_transposed;

/// Number of columns in a panel.
pub(super) const PANEL: usize = 64;

/// Four rows of a panel. Each word holds the four elements of a column, the first one in the lowest
/// byte. 128 is added to each element, because the instructions multiply unsigned bytes by signed
/// ones.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Group(pub [u32; PANEL]);

/// Distance, in rows, from the rows that are being packed to the rows that are prefetched.
const AHEAD: usize = 32;

/// The packed word of four elements that are 0. Packing adds 128 to each element, so each byte is
/// 128.
const ZEROS: u32 = 0x8080_8080;

impl Group {
    pub const EMPTY: Self = Self([ZEROS; PANEL]);
}

/// Packs four elements into a word, the first one in the lowest byte. Adds 128 to each element.
#[inline(always)]
fn word(elements: [i8; 4]) -> u32 {
    let byte = |i: usize| u32::from(elements[i] as u8) << (8 * i);
    (byte(0) | byte(1) | byte(2) | byte(3)) ^ ZEROS
}

impl Int8Matrix<'_> {
    /// Packs group `group` of a block: four rows and at most [`PANEL`] columns. Missing columns,
    /// and missing rows of the block's last group, are zeros.
    #[inline(always)]
    pub(super) fn pack(
        &self,
        block: usize,
        group: usize,
        columns: Range<usize>,
        packed: &mut Group,
    ) {
        let begin = block * self.block + 4 * group;
        let rows = begin..(begin + 4).min((block + 1) * self.block);
        if rows.len() == 4 && columns.len() == PANEL && self.strides[1] == 1 {
            self.pack_rows(begin, columns.start, packed);
        } else if rows.len() == 4 && self.strides[0] == 1 {
            self.pack_columns(begin, columns, packed);
        } else {
            self.pack_some(rows, columns, packed);
        }
    }

    /// Returns whether each column is contiguous in memory and each block consists of whole groups
    /// of four rows, as [`pack_panel`](Self::pack_panel) requires.
    #[inline(always)]
    pub(super) fn has_whole_columns(&self) -> bool {
        self.strides[0] == 1 && self.block.is_multiple_of(4)
    }

    /// Packs all groups of a panel of at most [`PANEL`] columns. Each column must be contiguous in
    /// memory. Packing one group at a time, as [`pack`](Self::pack) does, would read each cache
    /// line several times. `by_column` and `by_group` are scratch memory.
    #[inline(always)]
    pub(super) fn pack_panel(
        &self,
        columns: Range<usize>,
        [by_column, by_group]: &mut [Vec<f32>; 2],
        groups: &mut [Group],
    ) {
        let words = self.rows / 4;
        by_column.clear();
        for column in columns.clone() {
            let column = &self.data[column * self.strides[1]..][..self.rows];
            // `copy_transposed` copies floats, so four integers become the bits of one float.
            let word = |four: &[i8; 4]| u32::from_le_bytes(four.map(i8::cast_unsigned));
            by_column.extend(
                column
                    .as_chunks()
                    .0
                    .iter()
                    .map(|four| f32::from_bits(word(four))),
            );
        }
        by_group.resize(words * PANEL, 0.0);
        copy_transposed(by_column, words, [columns.len(), words], by_group, PANEL);
        for (group, words) in groups.iter_mut().zip(by_group.chunks_exact(PANEL)) {
            for (w, word) in group.0.iter_mut().zip(words) {
                *w = word.to_bits() ^ ZEROS;
            }
            group.0[columns.len()..].fill(ZEROS);
        }
    }

    /// Packs at most four rows and [`PANEL`] columns of a matrix with any strides.
    fn pack_some(&self, rows: Range<usize>, columns: Range<usize>, group: &mut Group) {
        *group = Group::EMPTY;
        for (column, w) in columns.zip(&mut group.0) {
            let mut elements = [0; 4];
            for (row, w) in rows.clone().zip(&mut elements) {
                *w = self.data[row * self.strides[0] + column * self.strides[1]];
            }
            *w = word(elements);
        }
    }

    /// Packs four rows of [`PANEL`] columns. The elements of each row are contiguous in memory.
    #[inline(always)]
    fn pack_rows(&self, row: usize, column: usize, group: &mut Group) {
        let rows: [&[i8; PANEL]; 4] = std::array::from_fn(|i| {
            let begin = (row + i) * self.strides[0] + column;
            self.data[begin..]
                .first_chunk()
                .expect("the row has enough columns")
        });
        // The rows of a wide matrix are far apart in memory, and processors do not prefetch such
        // cache lines by themselves.
        for i in 0..4 {
            let ahead = row + AHEAD + i;
            let (row, column) = if ahead < self.rows {
                (ahead, column)
            } else {
                (ahead - self.rows, column + PANEL)
            };
            prefetch(self.data, row * self.strides[0] + column);
        }
        for (column, w) in group.0.iter_mut().enumerate() {
            *w = word(rows.map(|row| row[column]));
        }
    }

    /// Packs four rows of a matrix whose columns are contiguous in memory.
    #[inline(always)]
    fn pack_columns(&self, row: usize, columns: Range<usize>, group: &mut Group) {
        for (column, w) in columns.clone().zip(&mut group.0) {
            let begin = column * self.strides[1] + row;
            let four: &[i8; 4] = self.data[begin..].first_chunk().expect("four rows");
            *w = word(*four);
        }
        group.0[columns.len()..].fill(ZEROS);
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
