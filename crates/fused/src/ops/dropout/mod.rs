//! Dropout. On the fast path, the mask is a function of a random key and an element's index.
//! Therefore no mask is stored for the backward pass, and the result does not depend on the order
//! of threads.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
pub(crate) mod draw;
#[cfg(feature = "flex")]
pub(crate) mod flex;
#[cfg(any(feature = "flex", feature = "autodiff"))]
pub(crate) mod hash;
#[cfg(feature = "flex")]
pub(crate) mod kernel;
#[cfg(all(feature = "_portable", feature = "autodiff"))]
pub(crate) mod portable;

use burn::tensor::{Distribution, Tensor};

/// Sets each element to zero with the given probability, and multiplies all others by
/// `1 / (1 - probability)`.
///
/// Returns `x` unchanged on a device without autodiff, as Burn's own dropout does. The mask depends
/// on the device's random generator ([`Device::seed`]), from which a fast path draws one key.
///
/// [`Device::seed`]: burn::tensor::Device::seed
///
/// # Panics
///
/// If `probability` is not in `[0, 1)`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::<1>::ones([1000], &device);
/// assert_eq!(fused::dropout(x.clone(), 0.5).sum().into_scalar::<f32>(), 1000.0);
/// # #[cfg(feature = "autodiff")] {
/// let x = Tensor::<1>::ones([1000], &device.autodiff());
/// let y = fused::dropout(x, 0.5).into_data();
/// assert!(y.iter::<f32>().all(|y| y == 0.0 || y == 2.0));
/// # }
/// ```
pub fn dropout<const D: usize>(x: Tensor<D>, probability: f64) -> Tensor<D> {
    draw::check(probability);
    if probability == 0.0 || !x.device().is_autodiff() {
        return x;
    }
    #[cfg(feature = "flex")]
    if crate::backend::flex::takes(&x) {
        return flex::dropout(x, probability);
    }
    let keep = 1.0 - probability;
    let mask = x.random_like(Distribution::Bernoulli(keep));
    x * (mask * (1.0 / keep))
}
