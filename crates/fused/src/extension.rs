//! The operations as a Burn backend extension: on flex by the kernels of this crate, and through
//! autodiff with backward passes of their own.

use burn::backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

use crate::activation::Activation;
use crate::dropout::Dropout;
#[cfg(feature = "autodiff")]
use crate::layer_norm::Store;
use crate::linear_cross_entropy::Parts;

/// What flex has kernels for. Tensors are f32.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait FusedOps: Backend {
    /// `x W`: `[M, K]` and `[K, N]`.
    fn fused_product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;

    /// The same, and the sums over the rows of W: `[N]`.
    #[cfg(feature = "autodiff")]
    fn fused_product_and_sums(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// `x W + b`: `[M, K]`, `[K, N]` and `[N]`.
    fn fused_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// Attention of a sequence to itself: `[B, T, 3 H, K]` to `[B, T, H K]`. The mask's axes have
    /// the scores' sizes or 1.
    fn fused_self_attention(
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self>;

    /// Attention of `[B, T, H, K]` to `[B, S, 2 H, K]`: `[B, T, H K]`.
    fn fused_cross_attention(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self>;

    /// The output, and the logarithms of the rows' sums, `[B, H, T]`.
    #[cfg(feature = "autodiff")]
    fn fused_self_attention_forward(
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The same of a sequence to another.
    #[cfg(feature = "autodiff")]
    fn fused_cross_attention_forward(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradient of queries, keys and values.
    #[cfg(feature = "autodiff")]
    fn fused_self_attention_backward(
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
        output: FloatTensor<Self>,
        log_sums: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// The gradients of the queries, and of keys and values.
    #[cfg(feature = "autodiff")]
    fn fused_cross_attention_backward(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
        output: FloatTensor<Self>,
        log_sums: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The loss of each row of `[N, V]`, 0 where the target is `pad_id`: `[N]`.
    fn fused_cross_entropy(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        pad_id: u32,
        smoothing: f64,
    ) -> FloatTensor<Self>;

    /// The loss of each row of `x W + b`, of which so many rows are computed at a time.
    fn fused_linear_cross_entropy(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        target: IntTensor<Self>,
        pad_id: u32,
        smoothing: f64,
        rows_at_a_time: usize,
    ) -> FloatTensor<Self>;

    /// The gradient of the logits, from that of each row's loss.
    #[cfg(feature = "autodiff")]
    fn fused_cross_entropy_backward(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        grad: FloatTensor<Self>,
        pad_id: u32,
        smoothing: f64,
    ) -> FloatTensor<Self>;

    /// The rows of `[N, D]`, normalised, times gamma, plus beta.
    #[cfg(feature = "autodiff")]
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self>;

    /// The gradients of x, gamma and beta.
    #[cfg(feature = "autodiff")]
    fn fused_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Elements are dropped as a function of the key and their place.
    fn fused_dropout(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self>;

    /// `x + dropout(y)`: `[N, D]` both.
    fn fused_residual(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self>;

    /// The same, and its rows normalised, times gamma, plus beta.
    fn fused_residual_and_norm(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        dropout: Dropout,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients of x, y, gamma and beta, from those of the sum and of its norm; the sum's is
    /// not read if it is to be written.
    #[cfg(feature = "autodiff")]
    fn fused_residual_and_norm_backward(
        sum: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        of_sum: FloatTensor<Self>,
        of_norm: FloatTensor<Self>,
        store: Store,
        dropout: Dropout,
        epsilon: f64,
    ) -> (
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
        FloatTensor<Self>,
    );

    /// A copy of which elements are dropped, or the tensor itself if none are.
    #[cfg(feature = "autodiff")]
    fn fused_dropped(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self>;

    /// `dropout(max(x, 0))`.
    fn fused_relu(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self>;

    /// The gradient of x, from the output and its gradient.
    #[cfg(feature = "autodiff")]
    fn fused_relu_backward(
        y: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        probability: f64,
    ) -> FloatTensor<Self>;

    /// `dropout(act(x))`: `[N, F]`, or `[N, 2 F]` where it is gated, to `[N, F]`.
    fn fused_activate(
        x: FloatTensor<Self>,
        activation: Activation,
        dropout: Dropout,
    ) -> FloatTensor<Self>;

    /// The gradient of x, from that of the output.
    #[cfg(feature = "autodiff")]
    fn fused_activate_backward(
        x: FloatTensor<Self>,
        activation: Activation,
        dropout: Dropout,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// Sums over the rows of `[M, N]`: `[N]`.
    #[cfg(feature = "autodiff")]
    fn fused_sum_rows(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// Of four inputs.
#[cfg(feature = "autodiff")]
pub(crate) type Four<B> = (
    FloatTensor<B>,
    FloatTensor<B>,
    FloatTensor<B>,
    FloatTensor<B>,
);

/// A loss's chunks by these operations.
#[derive(Debug)]
pub(crate) struct Kernels;

impl<B: FusedOps> Parts<B> for Kernels {
    fn linear(x: FloatTensor<B>, weight: FloatTensor<B>, bias: FloatTensor<B>) -> FloatTensor<B> {
        B::fused_linear(x, weight, bias)
    }

    fn losses(
        logits: FloatTensor<B>,
        target: IntTensor<B>,
        (pad_id, smoothing): (u32, f64),
    ) -> FloatTensor<B> {
        B::fused_cross_entropy(logits, target, pad_id, smoothing)
    }

    #[cfg(feature = "autodiff")]
    fn of_logits(
        logits: FloatTensor<B>,
        target: IntTensor<B>,
        grad: FloatTensor<B>,
        (pad_id, smoothing): (u32, f64),
    ) -> FloatTensor<B> {
        B::fused_cross_entropy_backward(logits, target, grad, pad_id, smoothing)
    }

    #[cfg(feature = "autodiff")]
    fn product(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
        B::fused_product(x, y)
    }

    #[cfg(feature = "autodiff")]
    fn product_and_sums(x: FloatTensor<B>, y: FloatTensor<B>) -> (FloatTensor<B>, FloatTensor<B>) {
        B::fused_product_and_sums(x, y)
    }
}
