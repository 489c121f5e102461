//! The sum of squares of a tensor, for the norm of a gradient.

use burn::tensor::Tensor;

/// Returns the sum of squares `Σ x²` of all elements, as a tensor `[1]`.
///
/// On flex without autodiff, a contiguous f32 tensor is not copied.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let x = Tensor::<2>::from_data([[1.0, -2.0], [0.0, 2.0]], &Device::flex());
/// assert_eq!(fused::sum_of_squares(&x).into_scalar::<f32>(), 9.0);
/// ```
pub fn sum_of_squares<const D: usize>(x: &Tensor<D>) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if let Some(x) = crate::backend::flex::float(x) {
        return super::flex::sum_of_squares(x);
    }
    x.clone().square().sum()
}
