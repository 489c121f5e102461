//! Dropout (paper, section 5.4) by its fast path, where there is one.

use burn::nn::Dropout;
use burn::tensor::Tensor;

/// `layer` applied to `x`: nothing, unless on a device with autodiff.
pub(crate) fn dropout<const D: usize>(layer: &Dropout, x: Tensor<D>) -> Tensor<D> {
    match layer.training.is_enabled() {
        true => fused::dropout(x, layer.prob),
        false => x,
    }
}
