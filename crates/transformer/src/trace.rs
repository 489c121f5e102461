//! The intermediate values of a layer, kept for inspection.

use burn::tensor::Tensor;

/// Intermediate values of one layer during one forward pass.
#[derive(Clone, Debug)]
pub struct LayerTrace {
    /// Self-attention weights before dropout, `[B, H, T, T]`, or `[B, H, S, S]` in the encoder.
    /// Each row sums to 1, or is zero if all keys of the query are masked.
    pub self_attention: Tensor<4>,
    /// Cross-attention weights before dropout, `[B, H, T, S]`; `None` in layers without
    /// cross-attention.
    pub cross_attention: Option<Tensor<4>>,
    /// Input of the feed-forward network, `[B, T, D]`, or `[B, S, D]` in the encoder.
    pub feed_forward_input: Tensor<3>,
}
