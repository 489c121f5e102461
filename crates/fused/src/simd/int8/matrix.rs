//! Matrices of 8-bit integers.

/// A matrix of 8-bit integers with scales.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Int8Matrix<'a> {
    pub data: &'a [i8],
    pub rows: usize,
    pub columns: usize,
    /// Distance in `data` between the rows of a column, and between the columns of a row.
    pub strides: [usize; 2],
    /// The scale of each column of each block.
    pub scales: &'a [f32],
    /// Distance in `scales` between the blocks of a column, and between the columns of a block.
    pub scale_strides: [usize; 2],
    /// Number of rows in a block. The number of rows of the matrix is a multiple of it.
    pub block: usize,
}

impl Int8Matrix<'_> {
    /// Returns the number of blocks of a column.
    pub fn n_blocks(&self) -> usize {
        self.rows / self.block
    }
}
