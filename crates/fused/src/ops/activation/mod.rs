//! Activation functions with dropout, `dropout(act(x))`.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(feature = "flex")]
mod flex;
pub(crate) mod function;
#[cfg(feature = "flex")]
mod kernel;
#[cfg(all(feature = "_portable", feature = "autodiff"))]
mod portable;

use burn::tensor::Tensor;
use burn::tensor::activation;

use self::function::{Activation, Function};
use super::dropout::{draw, dropout as drop_out};

/// Returns `dropout(max(x, 0))` for a tensor of any shape.
///
/// # Panics
///
/// If `dropout` is not in `[0, 1)`.
pub fn relu<const D: usize>(x: Tensor<D>, dropout: f64) -> Tensor<D> {
    draw::check(dropout);
    #[cfg(feature = "flex")]
    if crate::backend::flex::takes(&x) {
        return flex::relu(x, dropout);
    }
    #[cfg(all(feature = "_portable", feature = "autodiff"))]
    if crate::backend::portable::takes(&x) {
        return portable::relu(x, dropout);
    }
    drop_out(activation::relu(x), dropout)
}

/// Returns `dropout(act(x))`.
///
/// # Shapes
///
/// - x: `[N, F]`, or `[N, 2 * F]` for a gated function: gates, then values
/// - output: `[N, F]`
///
/// # Panics
///
/// If `dropout` is not in `[0, 1)`, or `x` has an odd number of columns for a gated function.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use fused::{Activation, Function};
///
/// let x = Tensor::<2>::from_data([[0.0, 8.0, 3.0, 5.0]], &Device::flex());
/// let glu = Activation { function: Function::Sigmoid, is_gated: true };
/// let y = fused::activate(x, glu, 0.0).into_data();
/// let [half, all] = y.iter::<f32>().collect::<Vec<_>>()[..] else { panic!() };
/// assert!((half - 1.5).abs() < 1e-6 && (all - 5.0).abs() < 2e-3);
/// ```
pub fn activate(x: Tensor<2>, activation: Activation, dropout: f64) -> Tensor<2> {
    draw::check(dropout);
    let [_, width] = x.dims();
    assert!(
        !activation.is_gated || width.is_multiple_of(2),
        "x has {width} columns, but must have a gate for each value"
    );
    let Activation { function, is_gated } = activation;
    if function == Function::Relu && !is_gated {
        return relu(x, dropout);
    }
    #[cfg(feature = "flex")]
    if crate::backend::flex::takes(&x) {
        return flex::activate(x, activation, dropout);
    }
    #[cfg(all(feature = "_portable", feature = "autodiff"))]
    if crate::backend::portable::takes(&x) {
        return portable::activate(x, activation, dropout);
    }
    drop_out(activation.plain(x), dropout)
}
