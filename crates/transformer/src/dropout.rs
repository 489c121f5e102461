//! Dropout (paper, section 5.4), computed by the `fused` crate.

use std::borrow::Cow;

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig};
use burn::tensor::{Device, Tensor};

/// Creates the dropout of a module on `device`. Without autodiff, its training flag is off until
/// `Module::train`, so that inputs with autodiff let no such module drop out.
pub(crate) fn layer(probability: f64, device: &Device) -> Dropout {
    let layer = DropoutConfig::new(probability).init();
    if device.is_autodiff() {
        layer
    } else {
        layer.valid()
    }
}

/// Applies the dropout `layer` to `x`. Returns `x` unchanged on a device without autodiff, or if
/// the training flag of `layer` is off.
pub(crate) fn dropout<const D: usize>(layer: &Dropout, x: Tensor<D>) -> Tensor<D> {
    fused::dropout(x, probability(layer))
}

/// Returns the dropout probability of `layer`, or 0 if its training flag is off.
///
/// The operations of `fused` apply no dropout on devices without autodiff.
pub(crate) fn probability(layer: &Dropout) -> f64 {
    if layer.training.is_enabled() {
        layer.prob
    } else {
        0.0
    }
}

/// Returns a module on `device` without autodiff, and so without dropout.
pub(crate) fn without_dropout<'a, M: Module>(module: &'a M, device: &Device) -> Cow<'a, M> {
    if device.is_autodiff() {
        Cow::Owned(module.valid())
    } else {
        Cow::Borrowed(module)
    }
}
