//! Quantised matrices, in memory and in files.
//!
//! A matrix is divided into blocks, each of which has a scale. A file stores the integers of a
//! matrix under the name of the matrix, and the scales of its blocks under this name followed by
//! `.scales`. The size of a block follows from the shapes of the matrix and its scales.

use std::borrow::Cow;

use burn::tensor::{DType, TensorData};

use super::error::{WeightsError, check_finite};

/// Maximum number of elements in a block.
const MAX_BLOCK: usize = 128;

/// Returns the name of the scales of a matrix.
pub(super) fn scales_of(name: &str) -> String {
    format!("{name}.scales")
}

/// Returns the axis along which the blocks of the parameter `name` extend; `None` for parameters
/// that are never quantised.
pub(super) fn axis(name: &str) -> Option<usize> {
    let mut path = name.rsplit('.');
    match (path.next()?, path.next()?) {
        ("weight", "embedding") => Some(1),
        ("weight", layer) if layer == "generator" || layer.starts_with("w_") => Some(0),
        _ => None,
    }
}

/// The data of a matrix that is quantised in blocks, as [`quantize_int8`](super::quantize_int8())
/// does on flex.
pub(super) struct Int8<'a> {
    /// Integers in row-major order.
    pub integers: &'a [u8],
    /// Scales of the blocks in row-major order, as the bytes of f32 numbers.
    pub scales: &'a [u8],
    pub shape: [usize; 2],
    /// Shape of a block.
    pub block: [usize; 2],
}

impl<'a> Int8<'a> {
    /// Returns the matrix in `data`, or `None` if `data` is anything else.
    pub fn of(data: &'a TensorData) -> Option<Self> {
        let DType::QFloat(scheme) = data.dtype() else {
            return None;
        };
        let &[rows, columns] = data.shape().as_slice() else {
            return None;
        };
        let block = scheme.block_size()?.to_dim_vec(2);
        let (integers, scales) = data.as_bytes().split_at_checked(rows * columns)?;
        let found = Self {
            integers,
            scales,
            shape: [rows, columns],
            block: [usize::from(block[0]), usize::from(block[1])],
        };
        (4 * found.scales_shape().iter().product::<usize>() == scales.len()).then_some(found)
    }

    /// Returns the number of blocks along each axis.
    pub fn scales_shape(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.shape[axis] / self.block[axis])
    }

    /// Returns the axis along which the blocks extend.
    pub fn axis(&self) -> usize {
        usize::from(self.block[0] == 1)
    }

    fn scales(&self) -> impl Iterator<Item = f32> {
        floats(self.scales)
    }

    /// Returns the elements in f32.
    fn dequantized(&self) -> TensorData {
        let [_, columns] = self.shape;
        let [_, n_scales] = self.scales_shape();
        let scales: Vec<f32> = self.scales().collect();
        let mut values = Vec::with_capacity(self.integers.len());
        for (r, row) in self.integers.chunks(columns.max(1)).enumerate() {
            let scales = &scales[r / self.block[0] * n_scales..][..n_scales];
            let of_column = |c: usize| scales[c / self.block[1]];
            let row = row.iter().enumerate();
            values.extend(row.map(|(c, &w)| f32::from(w.cast_signed()) * of_column(c)));
        }
        TensorData::new(values, self.shape)
    }

    /// Returns the transposed matrix, which is quantised in the same way.
    pub fn transposed(&self) -> TensorData {
        let integers = transpose(self.integers, self.shape);
        let integers = integers.into_iter().map(u8::cast_signed).collect();
        let scales = transpose(&self.scales().collect::<Vec<_>>(), self.scales_shape());
        let reverse = |[rows, columns]: [usize; 2]| [columns, rows];
        fused::int8_data(integers, reverse(self.shape), reverse(self.block), &scales)
    }
}

/// Returns the transpose of a matrix in row-major order.
pub(super) fn transpose<T: Copy + Default>(matrix: &[T], [rows, columns]: [usize; 2]) -> Vec<T> {
    let mut transposed = vec![T::default(); matrix.len()];
    // Several rows at once fill a larger part of each cache line.
    for start in (0..rows).step_by(16) {
        let end = rows.min(start + 16);
        for column in 0..columns {
            for row in start..end {
                transposed[column * rows + row] = matrix[row * columns + column];
            }
        }
    }
    transposed
}

/// Returns the elements in f32 if `data` is a matrix that is quantised in blocks, as
/// [`quantize_int8`](super::quantize_int8()) does on flex, or `data` itself otherwise.
pub fn dequantize(data: &TensorData) -> Cow<'_, TensorData> {
    match Int8::of(data) {
        Some(matrix) => Cow::Owned(matrix.dequantized()),
        None => Cow::Borrowed(data),
    }
}

/// Builds a quantised matrix from its integers and scales, which a file stores as little-endian
/// bytes.
///
/// # Errors
///
/// The shapes do not fit each other, or an integer or a scale is not valid.
pub(super) fn from_file(
    name: &str,
    integers: Vec<u8>,
    shape: &[usize],
    scales: &[u8],
    scales_shape: &[usize],
) -> Result<TensorData, WeightsError> {
    let shapes = || {
        let scales = scales_of(name);
        WeightsError::File(format!(
            "has {scales} of the shape {scales_shape:?}, which does not divide {name} of the shape {shape:?} into blocks of at most {MAX_BLOCK} elements of a row or a column"
        ))
    };
    let (&[rows, columns], &[of_rows, of_columns]) = (shape, scales_shape) else {
        return Err(shapes());
    };
    let size = |size: usize, count: usize| {
        let is_divided = count > 0 && size.is_multiple_of(count);
        is_divided.then(|| size / count)
    };
    let block = match (size(rows, of_rows), size(columns, of_columns)) {
        (Some(rows @ 1..=MAX_BLOCK), Some(1)) => [rows, 1],
        (Some(1), Some(columns @ 1..=MAX_BLOCK)) => [1, columns],
        _ => return Err(shapes()),
    };
    let integers: Vec<i8> = integers.into_iter().map(u8::cast_signed).collect();
    if integers.contains(&i8::MIN) {
        return Err(WeightsError::File(format!(
            "has {name} with the integer -128, but integers must be from -127 to 127"
        )));
    }
    let values: Vec<f32> = floats(scales).collect();
    // An element can be 127 times as large as its scale, and must be finite, too.
    let largest: Vec<f32> = values.iter().map(|scale| 127.0 * scale).collect();
    check_finite(&scales_of(name), &largest)?;
    if let Some(scale) = values.iter().find(|scale| scale.is_sign_negative()) {
        return Err(WeightsError::File(format!(
            "has {} with the scale {scale}, but scales must not be negative",
            scales_of(name)
        )));
    }
    Ok(fused::int8_data(integers, [rows, columns], block, &values))
}

/// Returns the f32 elements of little-endian bytes.
pub(super) fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    let elements = bytes.as_chunks().0.iter();
    elements.map(|&bytes| f32::from_le_bytes(bytes))
}
