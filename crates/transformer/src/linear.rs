//! The position-wise linear layer.

use burn::nn::Linear;
use burn::tensor::Tensor;

/// Computes `x W + b` as one matmul of `B * T` rows.
///
/// Burn's `linear` for three dimensions runs one matmul per sequence for some values of `T`.
///
/// # Shapes
///
/// - x: `[B, T, D_in]`
/// - output: `[B, T, D_out]`
pub(crate) fn linear(layer: &Linear, x: Tensor<3>) -> Tensor<3> {
    let [batch, length, _] = x.dims();
    let [_, d_output] = layer.weight.dims();
    let bias = layer.bias.as_ref().map(|bias| bias.val());
    fused::linear(rows(x), layer.weight.val(), bias).reshape([batch, length, d_output])
}

/// Returns the vectors of `x`, `[B, T, D]`, as rows `[B * T, D]`.
///
/// # Panics
///
/// If there is none.
pub(crate) fn rows(x: Tensor<3>) -> Tensor<2> {
    let [batch, length, d_model] = x.dims();
    assert!(
        batch * length > 0,
        "the states are [{batch}, {length}, {d_model}], but a layer needs at least one sequence of one position"
    );
    x.reshape([batch * length, d_model])
}
