//! Backward passes by hand in Burn's own primitives: for the backends, and the precisions of flex,
//! that this crate has no kernels for. They keep less than the graph that Burn's autodiff makes of
//! the forward pass, and launch fewer operations.
#![cfg_attr(feature = "ndarray", allow(deprecated))] // the backend

mod activation;
mod attention;
mod cross_entropy;
mod dropout;
mod layer_norm;

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::ops::{Backward, OpsKind};
use burn::backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn::backend::{
    Autodiff, Backend, BackendTensor, DispatchTensorKind, TensorMetadata, backend_extension,
};
use burn::tensor::{Shape, Tensor};

use self::activation::{Activate, Relu, activate};
use self::attention::{Attention, CrossAttention, Masks, SelfAttention};
pub(crate) use self::attention::{LONG, Masking};
use self::cross_entropy::{CrossEntropy, Loss, Primitives};
use self::dropout::Dropped;
use self::layer_norm::{LayerNorm, Normalized, Residual, ResidualNorm};
use crate::activation::Activation;
use crate::linear_cross_entropy;

/// The bodies are the forward passes; through autodiff, they come with the backward passes.
#[backend_extension(
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(feature = "_cube"),
    Autodiff
)]
pub(crate) trait ExplicitOps: Backend {
    /// Attention of a sequence to itself: `[B, T, 3 H, K]` to `[B, T, H K]`. The blocked and the
    /// dropped are of the scores' shape, the blocked also of one that can be repeated to it; if
    /// there is none, they are not read, nor are the dropped of [`LONG`] keys or more.
    fn explicit_self_attention(
        packed: FloatTensor<Self>,
        blocked: BoolTensor<Self>,
        dropped: BoolTensor<Self>,
        masking: Masking,
    ) -> FloatTensor<Self> {
        let masks = Masks::new(blocked, dropped, masking);
        Attention::<Self>::of_packed(packed, masks).forward().0
    }

    /// Attention of `[B, T, H, K]` to `[B, S, 2 H, K]`: `[B, T, H K]`.
    fn explicit_cross_attention(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        blocked: BoolTensor<Self>,
        dropped: BoolTensor<Self>,
        masking: Masking,
    ) -> FloatTensor<Self> {
        let masks = Masks::new(blocked, dropped, masking);
        Attention::<Self>::apart(query, packed, masks).forward().0
    }

    /// The rows of `[N, D]`, normalised, times gamma, plus beta.
    fn explicit_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        Normalized::<Self>::of(x, epsilon).scaled(gamma, beta)
    }

    /// `x + dropout(y)`: `[N, D]`.
    fn explicit_residual(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        probability: f64,
    ) -> FloatTensor<Self> {
        Self::float_add(x, Dropped::<Self> { mask, probability }.apply(y))
    }

    /// `x + dropout(y)`, its rows normalised, times gamma, plus beta.
    fn explicit_residual_norm(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        probability: f64,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let y = Dropped::<Self> { mask, probability }.apply(y);
        Normalized::<Self>::of(Self::float_add(x, y), epsilon).scaled(gamma, beta)
    }

    /// `dropout(max(x, 0))`.
    fn explicit_relu(
        x: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        probability: f64,
    ) -> FloatTensor<Self> {
        Dropped::<Self> { mask, probability }.apply(Self::relu(x))
    }

    /// `dropout(act(x))`: `[N, F]`, or `[N, 2 F]` where it is gated, to `[N, F]`.
    fn explicit_activate(
        x: FloatTensor<Self>,
        activation: Activation,
        mask: BoolTensor<Self>,
        probability: f64,
    ) -> FloatTensor<Self> {
        Dropped::<Self> { mask, probability }.apply(activate::<Self>(x, activation))
    }

    /// The loss of each row of `[N, V]`, 0 where the target is `pad_id`: `[N]`.
    fn explicit_cross_entropy(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        pad_id: u32,
        smoothing: f64,
    ) -> FloatTensor<Self> {
        Loss::<Self>::of(logits, target, pad_id, smoothing).forward()
    }

    /// The loss of each row of `x W + b`, of which so many rows are computed at a time.
    fn explicit_linear_cross_entropy(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        target: IntTensor<Self>,
        pad_id: u32,
        smoothing: f64,
        rows_at_a_time: usize,
    ) -> FloatTensor<Self> {
        let (inputs, of) = ([x, weight, bias], (pad_id, smoothing));
        linear_cross_entropy::forward::<Primitives, Self>(&inputs, &target, of, rows_at_a_time)
    }
}

#[cfg(feature = "flex")]
impl ExplicitOps for burn::backend::Flex {}

#[cfg(feature = "ndarray")]
impl ExplicitOps for burn::backend::NdArray {}

#[cfg(feature = "_cube")]
impl ExplicitOps for burn::backend::Cube {}

/// Whether a gradient goes through the tensor, on a backend that has the operations.
pub(crate) fn takes<const D: usize>(tensor: &Tensor<D>) -> bool {
    if !crate::is_enabled() || !tensor.device().is_autodiff() {
        return false;
    }
    let DispatchTensorKind::Autodiff(kind) = tensor.clone().into_dispatch().kind else {
        return false;
    };
    // Without a backend there is nothing to match.
    #[allow(unreachable_patterns)]
    match *kind {
        #[cfg(feature = "flex")]
        DispatchTensorKind::Flex(BackendTensor::Autodiff(_)) => true,
        #[cfg(feature = "ndarray")]
        DispatchTensorKind::NdArray(BackendTensor::Autodiff(_)) => true,
        #[cfg(feature = "_cube")]
        DispatchTensorKind::Cube(BackendTensor::Autodiff(_)) => true,
        _ => false,
    }
}

impl<B: Backend, C: CheckpointStrategy> ExplicitOps for Autodiff<B, C> {
    fn explicit_self_attention(
        packed: FloatTensor<Self>,
        blocked: BoolTensor<Self>,
        dropped: BoolTensor<Self>,
        masking: Masking,
    ) -> FloatTensor<Self> {
        let masks = Masks::new(blocked, dropped, masking);
        let prepared = SelfAttention.prepare::<C>([packed.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let inputs = [prep.checkpoint(&packed)];
                let attention = Attention::<B>::of_packed(packed.into_primitive(), masks);
                let (kept, output) = attention.forward_kept(inputs);
                prep.finish(kept, output)
            }
            OpsKind::UnTracked(prep) => {
                let attention = Attention::<B>::of_packed(packed.into_primitive(), masks);
                prep.finish(attention.forward().0)
            }
        }
    }

    fn explicit_cross_attention(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        blocked: BoolTensor<Self>,
        dropped: BoolTensor<Self>,
        masking: Masking,
    ) -> FloatTensor<Self> {
        let masks = Masks::new(blocked, dropped, masking);
        let prepared = CrossAttention.prepare::<C>([query.node(), packed.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let inputs = [prep.checkpoint(&query), prep.checkpoint(&packed)];
                let (query, packed) = (query.into_primitive(), packed.into_primitive());
                let attention = Attention::<B>::apart(query, packed, masks);
                let (kept, output) = attention.forward_kept(inputs);
                prep.finish(kept, output)
            }
            OpsKind::UnTracked(prep) => {
                let (query, packed) = (query.into_primitive(), packed.into_primitive());
                let attention = Attention::<B>::apart(query, packed, masks);
                prep.finish(attention.forward().0)
            }
        }
    }

    fn explicit_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let prepared = LayerNorm.prepare::<C>([x.node(), gamma.node(), beta.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let gamma_node = prep.checkpoint(&gamma);
                let normalized = Normalized::<B>::of(x.into_primitive(), epsilon);
                let y = normalized.scaled(gamma.into_primitive(), beta.into_primitive());
                prep.finish((normalized, gamma_node), y)
            }
            OpsKind::UnTracked(prep) => {
                let normalized = Normalized::<B>::of(x.into_primitive(), epsilon);
                prep.finish(normalized.scaled(gamma.into_primitive(), beta.into_primitive()))
            }
        }
    }

    fn explicit_residual(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        probability: f64,
    ) -> FloatTensor<Self> {
        let prepared = Residual.prepare::<C>([x.node(), y.node()]);
        let dropped = Dropped::<B> { mask, probability };
        let sum = B::float_add(x.into_primitive(), dropped.apply(y.into_primitive()));
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(dropped, sum),
            OpsKind::UnTracked(prep) => prep.finish(sum),
        }
    }

    fn explicit_residual_norm(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        probability: f64,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), y.node(), gamma.node(), beta.node()];
        let prepared = ResidualNorm.prepare::<C>(nodes);
        let dropped = Dropped::<B> { mask, probability };
        let y = dropped.apply(y.into_primitive());
        let normalized = Normalized::<B>::of(B::float_add(x.into_primitive(), y), epsilon);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let gamma_node = prep.checkpoint(&gamma);
                let output = normalized.scaled(gamma.into_primitive(), beta.into_primitive());
                prep.finish((normalized, gamma_node, dropped), output)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(normalized.scaled(gamma.into_primitive(), beta.into_primitive()))
            }
        }
    }

    fn explicit_relu(
        x: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        probability: f64,
    ) -> FloatTensor<Self> {
        let prepared = Relu.prepare::<C>([x.node()]);
        let y = Dropped::<B> { mask, probability }.apply(B::relu(x.into_primitive()));
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((y.clone(), probability), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn explicit_activate(
        x: FloatTensor<Self>,
        activation: Activation,
        mask: BoolTensor<Self>,
        probability: f64,
    ) -> FloatTensor<Self> {
        let prepared = Activate.prepare::<C>([x.node()]);
        let dropped = Dropped::<B> { mask, probability };
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let node = prep.checkpoint(&x);
                let y = dropped.apply(activate::<B>(x.into_primitive(), activation));
                prep.finish((node, activation, dropped), y)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(dropped.apply(activate::<B>(x.into_primitive(), activation)))
            }
        }
    }

    fn explicit_cross_entropy(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        pad_id: u32,
        smoothing: f64,
    ) -> FloatTensor<Self> {
        let prepared = CrossEntropy.prepare::<C>([logits.node()]);
        let loss = Loss::<B>::of(logits.into_primitive(), target, pad_id, smoothing);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let each = loss.forward();
                prep.finish(loss, each)
            }
            OpsKind::UnTracked(prep) => prep.finish(loss.forward()),
        }
    }

    fn explicit_linear_cross_entropy(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        target: IntTensor<Self>,
        pad_id: u32,
        smoothing: f64,
        rows_at_a_time: usize,
    ) -> FloatTensor<Self> {
        linear_cross_entropy::forward_tracked::<Primitives, B, C>(
            [x, weight, bias],
            target,
            (pad_id, smoothing),
            rows_at_a_time,
        )
    }
}

/// `[D]` to `[1, D]`.
fn row<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let width = size(&x, 0);
    B::float_reshape(x, Shape::new([1, width]))
}

/// Sums over the rows of `[N, D]`: `[D]`.
fn sum_of_rows<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let width = size(&x, 1);
    B::float_reshape(B::float_sum_dim(x, 0), Shape::new([width]))
}

/// The size of a dimension.
fn size(tensor: &impl TensorMetadata, dim: usize) -> usize {
    tensor.shape()[dim]
}
