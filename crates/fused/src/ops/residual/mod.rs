//! Residual connections with dropout, `x + dropout(y)`, optionally followed by layer norm.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod kernel;

use burn::tensor::Tensor;

use super::dropout::{draw, dropout as drop_out};
use super::layer_norm::{layer_norm_with, of_parameters};

/// Returns `x + dropout(y)`.
///
/// # Shapes
///
/// - x, y: `[N, D]`
/// - output: `[N, D]`
///
/// # Panics
///
/// If the shapes differ, or `dropout` is not in `[0, 1)`.
pub fn residual(x: Tensor<2>, y: Tensor<2>, dropout: f64) -> Tensor<2> {
    check(&x, &y, dropout);
    #[cfg(feature = "flex")]
    if [&x, &y].into_iter().all(crate::backend::flex::takes) {
        return flex::residual(x, y, dropout);
    }
    x + drop_out(y, dropout)
}

/// Returns `layer_norm(x + dropout(y))`; without `beta`, the RMSNorm of the sum. See
/// [`layer_norm`](crate::layer_norm()).
///
/// # Shapes
///
/// - x, y: `[N, D]`
/// - gamma, beta: `[D]`
/// - output: `[N, D]`
///
/// # Panics
///
/// If the shapes do not fit together, or `dropout` is not in `[0, 1)`.
pub fn residual_norm(
    x: Tensor<2>,
    y: Tensor<2>,
    gamma: Tensor<1>,
    beta: impl Into<Option<Tensor<1>>>,
    dropout: f64,
    epsilon: f64,
) -> Tensor<2> {
    check(&x, &y, dropout);
    let (beta, statistics) = of_parameters(&x, &gamma, beta.into(), epsilon);
    #[cfg(feature = "flex")]
    if [&x, &y].into_iter().all(crate::backend::flex::takes)
        && [&gamma, &beta].into_iter().all(crate::backend::flex::takes)
    {
        return flex::residual_and_norm([x, y], [gamma, beta], dropout, statistics).1;
    }
    layer_norm_with(x + drop_out(y, dropout), gamma, beta, statistics)
}

/// Returns the sum `x + dropout(y)` and the [`layer_norm`](crate::layer_norm()) of the sum.
///
/// In a pre-norm stack, the next sublayer reads the norm, and the sum goes to the next residual
/// connection. If a loss depends on the sum but not on the norm, gamma and beta may have
/// gradients of zeros instead of none.
///
/// # Shapes
///
/// - x, y: `[N, D]`
/// - gamma, beta: `[D]`
/// - outputs: `[N, D]`, the sum and its norm
///
/// # Panics
///
/// If the shapes do not fit together, or `dropout` is not in `[0, 1)`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::<2>::from_data([[1.0, 2.0]], &device);
/// let (gamma, beta) = (Tensor::ones([2], &device), Tensor::zeros([2], &device));
/// let (sum, norm) = fused::residual_and_norm(x.clone(), x, gamma, beta, 0.0, 0.0);
/// assert_eq!(sum.into_data().iter::<f32>().collect::<Vec<_>>(), [2.0, 4.0]);
/// assert_eq!(norm.into_data().iter::<f32>().collect::<Vec<_>>(), [-1.0, 1.0]);
/// ```
pub fn residual_and_norm(
    x: Tensor<2>,
    y: Tensor<2>,
    gamma: Tensor<1>,
    beta: impl Into<Option<Tensor<1>>>,
    dropout: f64,
    epsilon: f64,
) -> (Tensor<2>, Tensor<2>) {
    check(&x, &y, dropout);
    let (beta, statistics) = of_parameters(&x, &gamma, beta.into(), epsilon);
    #[cfg(feature = "flex")]
    if [&x, &y].into_iter().all(crate::backend::flex::takes)
        && [&gamma, &beta].into_iter().all(crate::backend::flex::takes)
    {
        return flex::residual_and_norm([x, y], [gamma, beta], dropout, statistics);
    }
    let sum = residual(x, y, dropout);
    (sum.clone(), layer_norm_with(sum, gamma, beta, statistics))
}

fn check(x: &Tensor<2>, y: &Tensor<2>, dropout: f64) {
    let (left, right) = (x.dims(), y.dims());
    assert!(left == right, "x is {left:?}, but y is {right:?}");
    draw::check(dropout);
}
