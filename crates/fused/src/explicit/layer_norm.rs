//! Layer normalisation, and residual connections before it. With `h = (x - mean) / deviation` and `g = dy gamma`:
//! `dx = (g - mean(g) - h mean(g h)) / deviation`, `dgamma = Σ dy h`, `dbeta = Σ dy`.

use super::dropout::Dropped;
use super::{row, sum_of_rows};
use crate::nodes::register;
use burn::backend::Backend;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;

/// Rows before scale and shift.
#[derive(Clone, Debug)]
pub(super) struct Normalized<B: Backend> {
    /// `h`, `[N, D]`.
    rows: FloatTensor<B>,
    /// `1 / deviation`, `[N, 1]`.
    scale: FloatTensor<B>,
}

impl<B: Backend> Normalized<B> {
    /// Of `[N, D]`.
    pub fn of(x: FloatTensor<B>, epsilon: f64) -> Self {
        let mean = B::float_mean_dim(x.clone(), 1);
        let centred = B::float_sub(x, mean);
        let variance = B::float_mean_dim(B::float_mul(centred.clone(), centred.clone()), 1);
        let scale = B::float_recip(B::float_sqrt(B::float_add_scalar(variance, epsilon.into())));
        Self {
            rows: B::float_mul(centred, scale.clone()),
            scale,
        }
    }

    /// Times gamma, plus beta.
    pub fn scaled(&self, gamma: FloatTensor<B>, beta: FloatTensor<B>) -> FloatTensor<B> {
        let [gamma, beta] = [gamma, beta].map(row::<B>);
        B::float_add(B::float_mul(self.rows.clone(), gamma), beta)
    }

    /// Of x, gamma and beta.
    fn backward(self, gamma: FloatTensor<B>, grad: FloatTensor<B>) -> [FloatTensor<B>; 3] {
        let Self { rows, scale } = self;
        let g = B::float_mul(grad.clone(), row::<B>(gamma));
        let mean = B::float_mean_dim(g.clone(), 1);
        let along = B::float_mean_dim(B::float_mul(g.clone(), rows.clone()), 1);
        let of_x = B::float_sub(B::float_sub(g, mean), B::float_mul(rows.clone(), along));
        let of_gamma = sum_of_rows::<B>(B::float_mul(grad.clone(), rows));
        [B::float_mul(of_x, scale), of_gamma, sum_of_rows::<B>(grad)]
    }
}

#[derive(Debug)]
pub(super) struct LayerNorm;

impl<B: Backend> Backward<B, 3> for LayerNorm {
    /// The rows, and gamma.
    type State = (Normalized<B>, NodeId);

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (normalized, gamma) = ops.state;
        let gamma = checkpointer.retrieve_node_output(gamma);
        let of_inputs = normalized.backward(gamma, grads.consume::<B>(&ops.node));
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        register::<B, 3>(grads, nodes, of_inputs);
    }
}

/// Of `x + dropout(y)`: `dx` is the sum's gradient, of which `dy` has the same elements dropped.
#[derive(Debug)]
pub(super) struct Residual;

impl<B: Backend> Backward<B, 2> for Residual {
    type State = Dropped<B>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let of_sum = grads.consume::<B>(&ops.node);
        let [x, y] = ops.parents.map(|node| node.map(|node| node.id));
        if let Some(y) = y {
            grads.register::<B>(y, ops.state.apply(of_sum.clone()));
        }
        if let Some(x) = x {
            grads.register::<B>(x, of_sum);
        }
    }
}

/// Of the same, normalised: layer norm's, of which `dy` has the same elements dropped.
#[derive(Debug)]
pub(super) struct ResidualNorm;

impl<B: Backend> Backward<B, 4> for ResidualNorm {
    /// The sum's rows, gamma, and what is dropped.
    type State = (Normalized<B>, NodeId, Dropped<B>);

    fn backward(
        self,
        ops: Ops<Self::State, 4>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (normalized, gamma, dropped) = ops.state;
        let gamma = checkpointer.retrieve_node_output(gamma);
        let [of_sum, of_gamma, of_beta] = normalized.backward(gamma, grads.consume::<B>(&ops.node));
        let of_y = dropped.apply(of_sum.clone());
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        register::<B, 4>(grads, nodes, [of_sum, of_y, of_gamma, of_beta]);
    }
}
