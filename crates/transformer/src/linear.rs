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
    let [batch, length, d_input] = x.dims();
    assert!(
        batch * length > 0,
        "the states are [{batch}, {length}, {d_input}], but a layer needs at least one sequence of one position"
    );
    let [_, d_output] = layer.weight.dims();
    let rows = x.reshape([batch * length, d_input]);
    let bias = layer.bias.as_ref().map(|bias| bias.val());
    fused::linear(rows, layer.weight.val(), bias).reshape([batch, length, d_output])
}
