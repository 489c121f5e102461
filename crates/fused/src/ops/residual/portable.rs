//! Residual connections in Burn's own operations.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

use crate::backend::graph::{Strategy, parents, register};
use crate::backend::portable::on_all_backends;
use crate::ops::dropout::portable::{DropoutMask, draw_mask};
use crate::ops::layer_norm::portable::Normalized;
use crate::ops::layer_norm::statistics::Statistics;

/// The operations that Burn dispatches to every backend. Autodiff backends use the backward passes
/// below.
#[backend_extension(
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(feature = "_cube"),
    Autodiff
)]
pub(crate) trait PortableResidual: Backend {
    /// Returns `x + dropout(y)`, `[N, D]`.
    fn portable_residual(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        #[extension_type] mask: DropoutMask<Self>,
    ) -> FloatTensor<Self> {
        Self::float_add(x, mask.apply(y))
    }

    /// Returns the layer norm of each row of `x + dropout(y)`, `[N, D]`.
    fn portable_residual_norm(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        #[extension_type] mask: DropoutMask<Self>,
        statistics: Statistics,
    ) -> FloatTensor<Self> {
        let sum = Self::float_add(x, mask.apply(y));
        Normalized::<Self>::of(sum, statistics).scale_and_shift(gamma, beta)
    }
}

on_all_backends!(PortableResidual);

/// The portable path of a residual connection.
pub(super) fn residual(x: Tensor<2>, y: Tensor<2>, dropout: f64) -> Tensor<2> {
    let mask = draw_mask(x.dims(), dropout, &x.device());
    let (x, y) = (x.into_dispatch(), y.into_dispatch());
    Tensor::from_dispatch(Dispatch::portable_residual(x, y, mask))
}

/// The portable path of a residual connection with layer norm.
pub(super) fn residual_norm(
    [x, y]: [Tensor<2>; 2],
    [gamma, beta]: [Tensor<1>; 2],
    dropout: f64,
    statistics: Statistics,
) -> Tensor<2> {
    let mask = draw_mask(x.dims(), dropout, &x.device());
    Tensor::from_dispatch(Dispatch::portable_residual_norm(
        x.into_dispatch(),
        y.into_dispatch(),
        gamma.into_dispatch(),
        beta.into_dispatch(),
        mask,
        statistics,
    ))
}

impl<B: Backend, C: CheckpointStrategy> PortableResidual for Autodiff<B, C> {
    fn portable_residual(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        mask: DropoutMask<Self>,
    ) -> FloatTensor<Self> {
        let prepared = Residual.prepare::<Strategy>([x.node(), y.node()]);
        let mask = mask.inner();
        let sum = B::float_add(x.into_primitive(), mask.apply(y.into_primitive()));
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(mask, sum),
            OpsKind::UnTracked(prep) => prep.finish(sum),
        }
    }

    fn portable_residual_norm(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        mask: DropoutMask<Self>,
        statistics: Statistics,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), y.node(), gamma.node(), beta.node()];
        let prepared = ResidualNorm.prepare::<Strategy>(nodes);
        let mask = mask.inner();
        let y = mask.apply(y.into_primitive());
        let normalized = Normalized::<B>::of(B::float_add(x.into_primitive(), y), statistics);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let gamma_node = prep.checkpoint(&gamma);
                let (gamma, beta) = (gamma.into_primitive(), beta.into_primitive());
                let output = normalized.scale_and_shift(gamma, beta);
                prep.finish((normalized, gamma_node, mask), output)
            }
            OpsKind::UnTracked(prep) => {
                let (gamma, beta) = (gamma.into_primitive(), beta.into_primitive());
                prep.finish(normalized.scale_and_shift(gamma, beta))
            }
        }
    }
}

#[derive(Debug)]
struct Residual;

impl<B: Backend> Backward<B, 2> for Residual {
    type State = DropoutMask<B>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [x, y] = parents(&ops);
        let sum_grad = grads.consume::<B>(&ops.node);
        if let Some(y) = y {
            grads.register::<B>(y, ops.state.apply(sum_grad.clone()));
        }
        if let Some(x) = x {
            grads.register::<B>(x, sum_grad);
        }
    }
}

#[derive(Debug)]
struct ResidualNorm;

impl<B: Backend> Backward<B, 4> for ResidualNorm {
    /// The sum's normalised rows, the node of gamma, and the dropout mask.
    type State = (Normalized<B>, NodeId, DropoutMask<B>);

    fn backward(
        self,
        ops: Ops<Self::State, 4>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let parents = parents(&ops);
        let (normalized, gamma, mask) = ops.state;
        let gamma = checkpointer.retrieve_node_output(gamma);
        let [x, gamma, beta] = normalized.backward(gamma, grads.consume::<B>(&ops.node));
        let y = mask.apply(x.clone());
        register::<B, 4>(grads, parents, [x, y, gamma, beta]);
    }
}
