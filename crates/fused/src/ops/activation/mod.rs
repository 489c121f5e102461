//! Activation functions with dropout, `dropout(act(x))`.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(feature = "flex")]
mod flex;
pub(crate) mod function;
#[cfg(feature = "flex")]
mod kernel;
#[cfg(feature = "autodiff")]
mod portable;

use burn::tensor::Tensor;
use burn::tensor::activation::{self, sigmoid, silu};

use self::function::{ARGUMENT, Activation};
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
    #[cfg(feature = "autodiff")]
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
/// use fused::Activation;
///
/// let x = Tensor::<2>::from_data([[0.0, 8.0, 3.0, 5.0]], &Device::flex());
/// let y = fused::activate(x, Activation::Glu, 0.0).into_data();
/// let [half, all] = y.iter::<f32>().collect::<Vec<_>>()[..] else { panic!() };
/// assert!((half - 1.5).abs() < 1e-6 && (all - 5.0).abs() < 2e-3);
/// ```
pub fn activate(x: Tensor<2>, activation: Activation, dropout: f64) -> Tensor<2> {
    draw::check(dropout);
    let [_, width] = x.dims();
    assert!(
        !activation.is_gated() || width.is_multiple_of(2),
        "x has {width} columns, but must have a gate for each value"
    );
    #[cfg(feature = "flex")]
    if crate::backend::flex::takes(&x) {
        return flex::activate(x, activation, dropout);
    }
    #[cfg(feature = "autodiff")]
    if crate::backend::portable::takes(&x) {
        return portable::activate(x, activation, dropout);
    }
    drop_out(plain(x, activation), dropout)
}

/// Returns `act(x)` in plain Burn.
fn plain(x: Tensor<2>, activation: Activation) -> Tensor<2> {
    let gated = |act: fn(Tensor<2>) -> Tensor<2>| {
        let [_, width] = x.dims();
        let gate = x.clone().narrow(1, 0, width / 2);
        let value = x.clone().narrow(1, width / 2, width / 2);
        act(gate) * value
    };
    match activation {
        Activation::Gelu => gelu(x),
        Activation::GeluTanh => gelu_tanh(x),
        Activation::Swish => silu(x),
        Activation::Glu => gated(sigmoid),
        Activation::Geglu => gated(gelu),
        Activation::GegluTanh => gated(gelu_tanh),
        Activation::Swiglu => gated(silu),
    }
}

/// Returns `x Φ(x) = x / 2 (1 + erf(x / sqrt(2)))`.
fn gelu(x: Tensor<2>) -> Tensor<2> {
    if x.is_autodiff() {
        // Burn's own GELU is not used with autodiff: on every backend but flex, its derivative is
        // that of the tanh approximation, which differs by up to 1e-3.
        let erf = (x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf();
        x * (erf + 1.0) * 0.5
    } else {
        activation::gelu(x)
    }
}

/// Returns the tanh approximation of GELU as `x σ(a x + b x³)`. [`ARGUMENT`] holds `a` and `b`, and
/// says why this equals the form with tanh.
fn gelu_tanh(x: Tensor<2>) -> Tensor<2> {
    let [a, b] = ARGUMENT;
    let square = x.clone() * x.clone();
    sigmoid(x.clone() * (square * b + a)) * x
}
