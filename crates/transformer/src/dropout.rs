//! Dropout (paper, section 5.4) by its fast path, where there is one.

use burn::nn::Dropout;
use burn::tensor::Tensor;

/// `layer` applied to `x`: nothing, unless on a device with autodiff.
pub(crate) fn dropout<const D: usize>(layer: &Dropout, x: Tensor<D>) -> Tensor<D> {
    fused::dropout(x, probability(layer))
}

/// How much `layer` drops: nothing, unless it is told that this is training.
pub(crate) fn probability(layer: &Dropout) -> f64 {
    match layer.training.is_enabled() {
        true => layer.prob,
        false => 0.0,
    }
}
