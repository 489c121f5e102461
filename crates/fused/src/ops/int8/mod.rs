//! Matrices of 8-bit integers, for inference.
//!
//! Elements form blocks along one axis. The elements of a block share a scale, which is their
//! largest absolute value divided by 127. Each element is rounded to a multiple of the scale.
//! Matrices are Burn's quantised tensors.

#[cfg(feature = "flex")]
pub(crate) mod flex;

use std::borrow::Cow;

use burn::tensor::module::embedding as lookup;
use burn::tensor::quantization::{QuantMode, QuantScheme, QuantStore, QuantValue, ScaleDtype};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use crate::threads::map_in_parallel;

/// Maximum number of elements in a block. Smaller blocks are more precise, but need more scales.
const MAX_BLOCK: usize = 128;

/// Minimum number of elements in a block. With fewer elements, scales would take up much of the
/// memory that 8-bit integers save.
const MIN_BLOCK: usize = 8;

/// Returns whether matrices of 8-bit integers have fast paths on this device.
///
/// The device must be flex, and [`fast_paths`](crate::fast_paths()) must be on. Only tensors
/// without autodiff take these fast paths, but the function ignores whether the device has
/// autodiff.
#[must_use]
pub fn takes_int8(device: &Device) -> bool {
    #[cfg(feature = "flex")]
    return crate::fast_paths::has_fast_paths() && *device == Device::flex();
    #[cfg(not(feature = "flex"))]
    {
        let _ = device;
        false
    }
}

/// Returns a matrix whose elements are rounded to 8 bits, with a scale for each block along `axis`.
///
/// The size of a block is the largest divisor, up to 128, of the matrix's size along `axis`. `axis`
/// is 0 for a weight of [`linear`](super::super::linear()), and 1 for an embedding table. A matrix
/// is not quantised if it is empty or its size along `axis` has no divisor from 8 to 128. A matrix
/// that is already quantised is returned unchanged.
///
/// The result is one of Burn's quantised tensors. On flex, the linear layer and the embedding have
/// fast paths for it.
///
/// # Panics
///
/// If `axis` is not 0 or 1, and the matrix is not already quantised.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let weight = Tensor::<2>::from_data([[1.0; 3]; 16], &device);
/// let small = fused::quantize_int8(weight, 0);
/// let y = fused::linear(Tensor::<2>::ones([1, 16], &device), small, None).into_data();
/// assert!(y.iter::<f32>().all(|y| (y - 16.0).abs() < 0.01));
/// ```
#[must_use]
pub fn quantize_int8(matrix: Tensor<2>, axis: usize) -> Tensor<2> {
    if matches!(matrix.dtype(), DType::QFloat(_)) {
        return matrix;
    }
    let device = matrix.device();
    let data = matrix.into_data();
    let quantised = quantize_int8_data(&data, axis);
    Tensor::from_data(quantised.unwrap_or(data), &device)
}

/// Quantises the data of a matrix with two axes, as [`quantize_int8`] does.
///
/// Returns `None` for a matrix without elements, or if the matrix's size along `axis` has no
/// divisor from 8 to 128.
///
/// # Panics
///
/// If `matrix` does not have two axes, or `axis` is not 0 or 1.
#[must_use]
pub fn quantize_int8_data(matrix: &TensorData, axis: usize) -> Option<TensorData> {
    let [rows, columns] = matrix.shape().dims();
    let size = [rows, columns][axis];
    let divides = |block: &usize| size.is_multiple_of(*block);
    let block = (MIN_BLOCK..=MAX_BLOCK).rev().find(divides);
    let block = block.filter(|_| rows * columns > 0)?;
    // A band consists of the rows that share their scales: `block` rows for axis 0, or one row for
    // axis 1.
    let (height, n_scales, sizes) = match axis {
        0 => (block, columns, [block, 1]),
        _ => (1, columns / block, [1, block]),
    };
    let elements: Cow<'_, [f32]> = match matrix.as_slice() {
        Ok(elements) => elements.into(),
        Err(_) => matrix.iter().collect(),
    };
    let mut scales = vec![0.0; rows / height * n_scales];
    let mut integers = vec![0; rows * columns];
    let band = height * columns;
    let together = (1_usize << 16).div_ceil(band);
    let parts = elements
        .chunks(band * together)
        .zip(integers.chunks_mut(band * together));
    let parts = parts.zip(scales.chunks_mut(n_scales * together)).collect();
    map_in_parallel(parts, rows * columns, |((elements, integers), scales)| {
        let bands = elements.chunks(band).zip(integers.chunks_mut(band));
        for ((elements, integers), scales) in bands.zip(scales.chunks_mut(n_scales)) {
            quantise_band(elements, columns, scales, integers);
        }
    });
    Some(int8_data(integers, [rows, columns], sizes, &scales))
}

/// Returns the tensor data of a quantised matrix.
///
/// `block` is the shape of a block. The integers, and the scales of the blocks, are in row-major
/// order.
///
/// # Panics
///
/// If a block does not divide the matrix or has more than 255 rows or columns, or the numbers of
/// integers or scales do not fit the shapes.
#[must_use]
pub fn int8_data(
    mut integers: Vec<i8>,
    shape: [usize; 2],
    block: [usize; 2],
    scales: &[f32],
) -> TensorData {
    assert!(
        [0, 1]
            .iter()
            .all(|&axis| block[axis] > 0 && shape[axis].is_multiple_of(block[axis])),
        "a matrix {shape:?} is not divided by blocks {block:?}"
    );
    assert_eq!(
        integers.len(),
        shape[0] * shape[1],
        "the number of integers"
    );
    let n_blocks = shape[0] / block[0] * (shape[1] / block[1]);
    assert_eq!(scales.len(), n_blocks, "the number of scales");
    let block =
        block.map(|size| u8::try_from(size).expect("a block has at most 255 rows and columns"));
    let scheme = QuantScheme::default()
        .with_value(QuantValue::Q8S)
        .with_store(QuantStore::Native)
        .with_mode(QuantMode::Symmetric)
        .per_block(block, ScaleDtype::F32);
    // Burn appends the scales to this vector, which would otherwise double its capacity.
    integers.reserve_exact(size_of_val(scales) + size_of::<f32>());
    TensorData::quantized(integers, shape, scheme, scales, None)
}

/// Computes the scales and integers of a band of rows with `columns` elements each.
fn quantise_band(elements: &[f32], columns: usize, scales: &mut [f32], integers: &mut [i8]) {
    // As integers, the bits of positive floats have the same order as the floats. NaN has the
    // largest bits, so the maximum keeps NaN.
    let larger = |a: f32, b: f32| f32::from_bits(a.to_bits().max(b.abs().to_bits()));
    let per_scale = columns / scales.len();
    for row in elements.chunks(columns) {
        if per_scale == 1 {
            // Loops over single blocks of one element would not be vectorised.
            for (largest, &w) in scales.iter_mut().zip(row) {
                *largest = larger(*largest, w);
            }
        } else {
            for (largest, elements) in scales.iter_mut().zip(row.chunks(per_scale)) {
                *largest = elements.iter().fold(*largest, |a, &b| larger(a, b));
            }
        }
    }
    let mut inverses = Vec::with_capacity(scales.len());
    for scale in &mut *scales {
        *scale /= 127.0;
        let inverse = 1.0 / *scale;
        // A scale that is so small that its inverse overflows becomes 0. All integers of the block
        // are then 0.
        if inverse.is_infinite() {
            *scale = 0.0;
        }
        inverses.push(if *scale > 0.0 { inverse } else { 0.0 });
    }
    let quantise = |integer: &mut i8, w: f32, inverse: f32| *integer = round(w * inverse) as i8;
    for (row, integers) in elements.chunks(columns).zip(integers.chunks_mut(columns)) {
        if per_scale == 1 {
            for ((integer, &w), &inverse) in integers.iter_mut().zip(row).zip(&inverses) {
                quantise(integer, w, inverse);
            }
        } else {
            let blocks = row.chunks(per_scale).zip(integers.chunks_mut(per_scale));
            for ((elements, integers), &inverse) in blocks.zip(&inverses) {
                for (integer, &w) in integers.iter_mut().zip(elements) {
                    quantise(integer, w, inverse);
                }
            }
        }
    }
}

/// Rounds `x` to the nearest integer. The lowest 8 bits of the result are those of the integer. `x`
/// must be between -2^22 and 2^22.
fn round(x: f32) -> u32 {
    // The spacing of floats near this number is 1, so adding it rounds `x` to an integer.
    const ONES: f32 = 1.5 * (1 << 23) as f32;
    (x + ONES).to_bits()
}

/// Returns the rows of an embedding table for token ids.
///
/// # Shapes
///
/// - table: `[V, D]`
/// - ids: `[B, T]`
/// - output: `[B, T, D]`
///
/// # Panics
///
/// On a CPU, if an id is not in `0..V`.
pub fn embedding(table: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if let Some(table) = flex::Matrix::of(&table, 1) {
        return table.rows(ids);
    }
    lookup(table, ids)
}
