//! The position-wise product that every block is made of.

use burn::nn::Linear;
use burn::tensor::Tensor;

/// `x W + b` on `[B, T, D_in] -> [B, T, D_out]`, as one product of `B T` rows.
///
/// Burn's `linear` on three dimensions is, for some `T`, one product per batch row.
pub(crate) fn linear(layer: &Linear, x: Tensor<3>) -> Tensor<3> {
    let [batch, length, d_input] = x.dims();
    let [_, d_output] = layer.weight.dims();
    let rows = x.reshape([batch * length, d_input]);
    let bias = layer.bias.as_ref().map(|bias| bias.val());
    fused::linear(rows, layer.weight.val(), bias).reshape([batch, length, d_output])
}
