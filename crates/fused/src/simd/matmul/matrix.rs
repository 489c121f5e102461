//! A view of a matrix.

/// A view of a matrix in memory. A matrix that has elements may have any strides except 0.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// The elements in memory. The first one is in row 0 and column 0.
    pub data: &'a [f32],
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Distance from one row to the next, in elements.
    pub row_stride: usize,
    /// Distance from one column to the next, in elements.
    pub column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Returns a view of a matrix `[rows, columns]` that is stored row after row.
    ///
    /// # Panics
    ///
    /// If the number of elements is not `rows * columns`.
    pub fn contiguous(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert!(
            data.len() == rows * columns,
            "{} elements as [{rows}, {columns}]",
            data.len()
        );
        Self {
            data,
            rows,
            columns,
            row_stride: columns,
            column_stride: 1,
        }
    }
}
