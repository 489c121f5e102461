//! Layer normalisation: `(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last axis.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(crate) mod flex;
#[cfg(feature = "flex")]
pub(crate) mod kernel;
#[cfg(feature = "autodiff")]
pub(crate) mod portable;

use burn::tensor::{Tensor, module};

/// Returns `(x - mean) / sqrt(variance + epsilon) * gamma + beta`, with mean and variance over the
/// last axis. The variance is divided by `D`, not by `D - 1`.
///
/// # Shapes
///
/// - x: `[N, D]`
/// - gamma, beta: `[D]`
/// - output: `[N, D]`
///
/// # Panics
///
/// If the sizes do not fit together.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::<2>::from_data([[1.0, 3.0]], &device);
/// let (gamma, beta) = (Tensor::ones([2], &device), Tensor::zeros([2], &device));
/// let y = fused::layer_norm(x, gamma, beta, 0.0).into_data();
/// assert_eq!(y.iter::<f32>().collect::<Vec<_>>(), [-1.0, 1.0]);
/// ```
pub fn layer_norm(x: Tensor<2>, gamma: Tensor<1>, beta: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let [rows, width] = x.dims();
    assert!(
        gamma.dims() == [width] && beta.dims() == [width],
        "x is [{rows}, {width}], but gamma is {:?} and beta {:?}",
        gamma.dims(),
        beta.dims()
    );
    // Without a gradient, Burn's own operation is as fast.
    #[cfg(all(feature = "flex", feature = "autodiff"))]
    if x.device().is_autodiff()
        && crate::backend::flex::takes(&x)
        && crate::backend::flex::takes(&gamma)
    {
        return flex::layer_norm(x, gamma, beta, epsilon);
    }
    #[cfg(feature = "autodiff")]
    if crate::backend::portable::takes(&x) && crate::backend::portable::takes(&gamma) {
        return portable::layer_norm(x, gamma, beta, epsilon);
    }
    module::layer_norm(x, gamma, Some(beta), epsilon)
}
