//! Matrices of 8-bit integers.

/// A matrix of 8-bit integers with scales.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Int8Matrix<'a> {
    pub data: &'a [i8],
    pub rows: usize,
    pub columns: usize,
    /// Distance in `data` from one row to the next, and from one column to the next.
    pub strides: [usize; 2],
    /// The scale of each column of each block.
    pub scales: &'a [f32],
    /// Distance in `scales` from one block to the next, and from one column to the next.
    pub scale_strides: [usize; 2],
    /// Number of rows in a block. `rows` is a multiple of this number.
    pub block: usize,
}

impl Int8Matrix<'_> {
    /// Returns the number of blocks of a column.
    pub fn n_blocks(&self) -> usize {
        self.rows / self.block
    }
}
