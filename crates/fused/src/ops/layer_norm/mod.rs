//! Layer normalisation: `(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last axis;
//! and normalisation by the root mean square, `x / sqrt(mean(x²) + epsilon) * gamma`, which is the
//! same formula with a mean and a `beta` of zero.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(feature = "flex")]
pub(crate) mod flex;
#[cfg(feature = "flex")]
pub(crate) mod kernel;
#[cfg(all(feature = "_portable", feature = "autodiff"))]
pub(crate) mod portable;
pub(crate) mod statistics;

use burn::tensor::{Tensor, module};

use self::statistics::Statistics;

/// Returns `(x - mean) / sqrt(variance + epsilon) * gamma + beta`, with mean and variance over the
/// last axis. The variance is the sum of squared deviations divided by `D`, not by `D - 1`.
///
/// Without `beta`, returns `x / sqrt(mean(x²) + epsilon) * gamma`, the normalisation by the root
/// mean square (RMSNorm).
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
pub fn layer_norm(
    x: Tensor<2>,
    gamma: Tensor<1>,
    beta: impl Into<Option<Tensor<1>>>,
    epsilon: f64,
) -> Tensor<2> {
    let (beta, statistics) = of_parameters(&x, &gamma, beta.into(), epsilon);
    layer_norm_with(x, gamma, beta, statistics)
}

/// Checks the shapes of the parameters of a layer norm. Returns `beta`, or zeros if `beta` is
/// `None`, and how rows are normalised.
pub(super) fn of_parameters(
    x: &Tensor<2>,
    gamma: &Tensor<1>,
    beta: Option<Tensor<1>>,
    epsilon: f64,
) -> (Tensor<1>, Statistics) {
    let [rows, width] = x.dims();
    let is_centred = beta.is_some();
    let beta = beta.unwrap_or_else(|| gamma.clone().detach().zeros_like());
    assert!(
        gamma.dims() == [width] && beta.dims() == [width],
        "x is [{rows}, {width}], but gamma is {:?} and beta {:?}",
        gamma.dims(),
        beta.dims()
    );
    let statistics = Statistics {
        epsilon,
        is_centred,
    };
    (beta, statistics)
}

/// Returns the layer norm of each row of `x`, whose shape has been checked.
pub(super) fn layer_norm_with(
    x: Tensor<2>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    statistics: Statistics,
) -> Tensor<2> {
    // Without autodiff, Burn's own layer norm is as fast, but it cannot leave out the mean.
    #[cfg(feature = "flex")]
    if (x.device().is_autodiff() || !statistics.is_centred)
        && crate::backend::flex::takes(&x)
        && crate::backend::flex::takes(&gamma)
    {
        return flex::layer_norm(x, gamma, beta, statistics);
    }
    #[cfg(all(feature = "_portable", feature = "autodiff"))]
    if crate::backend::portable::takes(&x) && crate::backend::portable::takes(&gamma) {
        return portable::layer_norm(x, gamma, beta, statistics);
    }
    let Statistics {
        epsilon,
        is_centred,
    } = statistics;
    if is_centred {
        return module::layer_norm(x, gamma, Some(beta), epsilon);
    }
    let mean_square = (x.clone() * x.clone()).mean_dim(1);
    x * (mean_square + epsilon).sqrt().recip() * gamma.unsqueeze()
}
