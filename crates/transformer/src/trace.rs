//! What one layer did, kept for those who want to look inside.

use burn::tensor::Tensor;

/// The inner values of one layer during one forward pass.
#[derive(Clone, Debug)]
pub struct LayerTrace {
    /// Self-attention weights `[B, H, T, S]`, before dropout; each row sums to 1, or is
    /// zero if all its keys are masked.
    pub self_attention: Tensor<4>,
    /// Cross-attention weights `[B, H, T, S]`, in decoder layers that have it.
    pub cross_attention: Option<Tensor<4>>,
    /// What went into the feed-forward network, `[B, T, D]`.
    pub feed_forward_input: Tensor<3>,
}
