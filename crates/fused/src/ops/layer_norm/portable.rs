//! Layer norm in Burn's own operations.
//!
//! With `deviation = sqrt(variance + epsilon)`, `h = (x - mean) / deviation` and `g = dy gamma`,
//! the gradients are `dx = (g - mean(g) - h mean(g h)) / deviation`, `dgamma = Σ dy h` and
//! `dbeta = Σ dy`. The means are over a row, and the sums over all rows. For a norm that does not
//! subtract the mean, `mean` and `mean(g)` are zero.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

use super::statistics::Statistics;
use crate::backend::graph::{Strategy, parents, register};
use crate::backend::portable::{as_row, on_all_backends, sum_rows};

/// The operation that Burn dispatches to every backend. Autodiff backends use the backward pass
/// below.
#[backend_extension(
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(feature = "_cube"),
    Autodiff
)]
pub(crate) trait PortableLayerNorm: Backend {
    /// Returns the layer norm of each row of `x`, `[N, D]`.
    fn portable_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        statistics: Statistics,
    ) -> FloatTensor<Self> {
        Normalized::<Self>::of(x, statistics).scale_and_shift(gamma, beta)
    }
}

on_all_backends!(PortableLayerNorm);

/// The portable path of layer norm.
pub(super) fn layer_norm(
    x: Tensor<2>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    statistics: Statistics,
) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::portable_layer_norm(
        x.into_dispatch(),
        gamma.into_dispatch(),
        beta.into_dispatch(),
        statistics,
    ))
}

impl<B: Backend, C: CheckpointStrategy> PortableLayerNorm for Autodiff<B, C> {
    fn portable_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        statistics: Statistics,
    ) -> FloatTensor<Self> {
        let prepared = LayerNorm.prepare::<Strategy>([x.node(), gamma.node(), beta.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let gamma_node = prep.checkpoint(&gamma);
                let normalized = Normalized::<B>::of(x.into_primitive(), statistics);
                let y = normalized.scale_and_shift(gamma.into_primitive(), beta.into_primitive());
                prep.finish((normalized, gamma_node), y)
            }
            OpsKind::UnTracked(prep) => {
                let normalized = Normalized::<B>::of(x.into_primitive(), statistics);
                let (gamma, beta) = (gamma.into_primitive(), beta.into_primitive());
                prep.finish(normalized.scale_and_shift(gamma, beta))
            }
        }
    }
}

/// The normalised rows of a tensor, before scale and shift.
#[derive(Clone, Debug)]
pub(crate) struct Normalized<B: Backend> {
    /// The normalised rows `h`, `[N, D]`.
    rows: FloatTensor<B>,
    /// The inverse deviation of each row, `1 / deviation`, `[N, 1]`.
    scale: FloatTensor<B>,
    /// `true` if the mean of each row was subtracted before scaling.
    is_centred: bool,
}

impl<B: Backend> Normalized<B> {
    /// Normalises the rows of `x`, `[N, D]`.
    pub fn of(x: FloatTensor<B>, statistics: Statistics) -> Self {
        let Statistics {
            epsilon,
            is_centred,
        } = statistics;
        let centred = if is_centred {
            let mean = B::float_mean_dim(x.clone(), 1);
            B::float_sub(x, mean)
        } else {
            x
        };
        let variance = B::float_mean_dim(B::float_mul(centred.clone(), centred.clone()), 1);
        let scale = B::float_recip(B::float_sqrt(B::float_add_scalar(variance, epsilon.into())));
        Self {
            rows: B::float_mul(centred, scale.clone()),
            scale,
            is_centred,
        }
    }

    /// Returns `h gamma + beta`, where `h` are the normalised rows.
    pub fn scale_and_shift(&self, gamma: FloatTensor<B>, beta: FloatTensor<B>) -> FloatTensor<B> {
        let [gamma, beta] = [gamma, beta].map(as_row::<B>);
        B::float_add(B::float_mul(self.rows.clone(), gamma), beta)
    }

    /// Returns the gradients of x, gamma and beta.
    pub fn backward(self, gamma: FloatTensor<B>, grad: FloatTensor<B>) -> [FloatTensor<B>; 3] {
        let Self {
            rows,
            scale,
            is_centred,
        } = self;
        let mut g = B::float_mul(grad.clone(), as_row::<B>(gamma));
        let along = B::float_mean_dim(B::float_mul(g.clone(), rows.clone()), 1);
        if is_centred {
            let mean = B::float_mean_dim(g.clone(), 1);
            g = B::float_sub(g, mean);
        }
        let x_grad = B::float_sub(g, B::float_mul(rows.clone(), along));
        let gamma_grad = sum_rows::<B>(B::float_mul(grad.clone(), rows));
        [B::float_mul(x_grad, scale), gamma_grad, sum_rows::<B>(grad)]
    }
}

#[derive(Debug)]
struct LayerNorm;

impl<B: Backend> Backward<B, 3> for LayerNorm {
    /// The normalised rows, and the node of gamma.
    type State = (Normalized<B>, NodeId);

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let parents = parents(&ops);
        let (normalized, gamma) = ops.state;
        let gamma = checkpointer.retrieve_node_output(gamma);
        let input_grads = normalized.backward(gamma, grads.consume::<B>(&ops.node));
        register::<B, 3>(grads, parents, input_grads);
    }
}
