//! Panels: columns of `W` in the order in which kernels read them.

use std::ops::Range;

use super::Int8Matrix;

/// Number of columns in a panel.
pub(super) const PANEL: usize = 64;

/// Four rows of a panel, column after column. 128 is added to each element, because the
/// instructions multiply unsigned bytes by signed ones.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Group(pub [[u8; 4]; PANEL]);

impl Group {
    pub const EMPTY: Self = Self([[128; 4]; PANEL]);
}

fn unsigned(w: i8) -> u8 {
    w as u8 ^ 128
}

impl Int8Matrix<'_> {
    /// Packs columns, at most [`PANEL`], of all blocks. Missing columns, and missing rows of the
    /// last group of a block, are zeros.
    #[inline(always)]
    pub(super) fn pack(&self, columns: Range<usize>, groups: &mut [Group]) {
        let groups_per_block = self.block.div_ceil(4);
        for (block, groups) in groups.chunks_exact_mut(groups_per_block).enumerate() {
            let first = block * self.block;
            for (index, group) in groups.iter_mut().enumerate() {
                let begin = first + 4 * index;
                let rows = begin..(begin + 4).min(first + self.block);
                if rows.len() == 4 && columns.len() == PANEL && self.strides[1] == 1 {
                    self.pack_rows(begin, columns.start, group);
                } else if rows.len() == 4 && self.strides[0] == 1 {
                    self.pack_columns(begin, columns.clone(), group);
                } else {
                    *group = Group::EMPTY;
                    for (column, group) in columns.clone().zip(&mut group.0) {
                        for (row, w) in rows.clone().zip(group) {
                            *w = unsigned(
                                self.data[row * self.strides[0] + column * self.strides[1]],
                            );
                        }
                    }
                }
            }
        }
    }

    /// Packs four whole rows, whose elements are contiguous.
    #[inline(always)]
    fn pack_rows(&self, row: usize, column: usize, group: &mut Group) {
        let rows: [&[i8; PANEL]; 4] = std::array::from_fn(|i| {
            let begin = (row + i) * self.strides[0] + column;
            self.data[begin..]
                .first_chunk()
                .expect("the row has enough columns")
        });
        for (column, w) in group.0.iter_mut().enumerate() {
            *w = rows.map(|row| unsigned(row[column]));
        }
    }

    /// Packs four rows of columns whose elements are contiguous.
    #[inline(always)]
    fn pack_columns(&self, row: usize, columns: Range<usize>, group: &mut Group) {
        for (column, w) in columns.clone().zip(&mut group.0) {
            let begin = column * self.strides[1] + row;
            let four: &[i8; 4] = self.data[begin..].first_chunk().expect("four rows");
            *w = four.map(unsigned);
        }
        group.0[columns.len()..].fill([128; 4]);
    }

    /// Returns the scales of the columns of a block; zeros after them.
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
