//! Dropout (paper, section 5.4), computed by the `fused` crate.

use burn::nn::Dropout;
use burn::tensor::Tensor;

/// Applies `layer` to `x`. Without autodiff, `x` is returned unchanged.
pub(crate) fn dropout<const D: usize>(layer: &Dropout, x: Tensor<D>) -> Tensor<D> {
    fused::dropout(x, probability(layer))
}

/// Returns the dropout probability of `layer`; 0 while its training flag is off.
///
/// The operations of `fused` drop nothing on devices without autodiff.
pub(crate) fn probability(layer: &Dropout) -> f64 {
    match layer.training.is_enabled() {
        true => layer.prob,
        false => 0.0,
    }
}
