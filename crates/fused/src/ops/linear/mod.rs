//! The linear layer `y = x W + b`.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(feature = "flex")]
pub(crate) mod flex;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod kernel;

use burn::tensor::{Tensor, module};

#[cfg(feature = "flex")]
use super::int8::flex as int8;

/// Returns `x W + b` for any number of rows.
///
/// The weight may be quantised, with blocks along its first axis; see
/// [`quantize_int8`](crate::quantize_int8()).
///
/// # Shapes
///
/// - x: `[M, D_in]`
/// - weight: `[D_in, D_out]`
/// - bias: `[D_out]`
/// - output: `[M, D_out]`
///
/// # Panics
///
/// If the shapes do not fit together.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::<2>::from_data([[1.0, 2.0]], &device);
/// let weight = Tensor::from_data([[1.0, 0.0, 3.0], [0.0, 1.0, 4.0]], &device);
/// let bias = Tensor::from_data([0.5, 0.5, 0.5], &device);
/// let y = fused::linear(x, weight, Some(bias)).into_data();
/// assert_eq!(y.iter::<f32>().collect::<Vec<_>>(), [1.5, 2.5, 11.5]);
/// ```
pub fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    let [m, d_input] = x.dims();
    let [rows, d_output] = weight.dims();
    assert!(
        d_input == rows && bias.as_ref().is_none_or(|bias| bias.dims() == [d_output]),
        "x is [{m}, {d_input}], but the weight is [{rows}, {d_output}] and the bias {:?}",
        bias.as_ref().map(Tensor::dims)
    );
    #[cfg(feature = "flex")]
    if let Some(matrix) = int8::Matrix::of(&weight, 0)
        && let Some(y) = matrix.linear(&x, bias.as_ref())
    {
        return y;
    }
    #[cfg(feature = "flex")]
    if crate::backend::flex::takes(&x) && crate::backend::flex::takes(&weight) {
        return flex::linear(x, weight, bias);
    }
    module::linear(x, weight, bias)
}

/// Returns `x W^T + b` for any number of rows.
///
/// The weight may be quantised, with blocks along its second axis; see
/// [`quantize_int8`](crate::quantize_int8()).
///
/// # Shapes
///
/// - x: `[M, D_in]`
/// - weight: `[D_out, D_in]`
/// - bias: `[D_out]`
/// - output: `[M, D_out]`
///
/// # Panics
///
/// If the shapes do not fit together.
pub fn linear_transposed(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    #[cfg(feature = "flex")]
    if let Some(matrix) = int8::Matrix::of(&weight, 1)
        && let Some(y) = matrix.linear(&x, bias.as_ref())
    {
        return y;
    }
    linear(x, weight.transpose(), bias)
}
