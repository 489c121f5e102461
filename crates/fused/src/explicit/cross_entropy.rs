//! Cross-entropy: `dz_v = dloss (p_v - ε / V)`, less `dloss (1 - ε)` for the target.

use burn::backend::Backend;
use burn::backend::TensorMetadata;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, unary};
use burn::backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn::tensor::{IndexingUpdateOp, Shape};

use super::{row, size, sum_of_rows};
use crate::linear_cross_entropy::Parts;

/// What the losses, and their gradients, are made of.
#[derive(Clone, Debug)]
pub(super) struct Loss<B: Backend> {
    /// `[N, V]`
    log_probabilities: FloatTensor<B>,
    /// `[N, 1]`
    target: IntTensor<B>,
    /// `[N, 1]`
    is_pad: BoolTensor<B>,
    smoothing: f64,
}

impl<B: Backend> Loss<B> {
    pub fn of(logits: FloatTensor<B>, target: IntTensor<B>, pad_id: u32, smoothing: f64) -> Self {
        let rows = size(&logits, 0);
        let target = B::int_reshape(target, Shape::new([rows, 1]));
        let settings = burn::backend::get_device_settings::<B>(&logits.device());
        Self {
            is_pad: B::int_equal_elem(target.clone(), pad_id.into(), settings.bool_dtype),
            log_probabilities: B::log_softmax(logits, 1),
            target,
            smoothing,
        }
    }

    /// Of each row, `[N]`.
    pub fn forward(&self) -> FloatTensor<B> {
        let all = &self.log_probabilities;
        let right = B::float_gather(1, all.clone(), self.target.clone());
        let mut loss = B::float_mul_scalar(right, (self.smoothing - 1.0).into());
        if self.smoothing > 0.0 {
            let mean = B::float_mean_dim(all.clone(), 1);
            let smooth = B::float_mul_scalar(mean, self.smoothing.into());
            loss = B::float_sub(loss, smooth);
        }
        let loss = B::float_mask_fill(loss, self.is_pad.clone(), 0.0.into());
        B::float_reshape(loss, Shape::new([size(all, 0)]))
    }

    /// Of the logits, from that of each row's loss.
    fn backward(self, grad: FloatTensor<B>) -> FloatTensor<B> {
        let [rows, vocab_size] = [0, 1].map(|dim| size(&self.log_probabilities, dim));
        let grad = B::float_reshape(grad, Shape::new([rows, 1]));
        let grad = B::float_mask_fill(grad, self.is_pad, 0.0.into());
        let mut probabilities = B::float_exp(self.log_probabilities);
        if self.smoothing > 0.0 {
            let each = -self.smoothing / vocab_size as f64;
            probabilities = B::float_add_scalar(probabilities, each.into());
        }
        let right = B::float_mul_scalar(grad.clone(), (self.smoothing - 1.0).into());
        let of_all = B::float_mul(probabilities, grad);
        B::float_scatter(1, of_all, self.target, right, IndexingUpdateOp::Add)
    }
}

#[derive(Debug)]
pub(super) struct CrossEntropy;

impl<B: Backend> Backward<B, 1> for CrossEntropy {
    type State = Loss<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let loss = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| loss.backward(grad));
    }
}

/// The chunks of a loss.
#[derive(Debug)]
pub(super) struct Primitives;

impl<B: Backend> Parts<B> for Primitives {
    fn linear(x: FloatTensor<B>, weight: FloatTensor<B>, bias: FloatTensor<B>) -> FloatTensor<B> {
        B::float_add(B::float_matmul(x, weight), row::<B>(bias))
    }

    fn losses(
        logits: FloatTensor<B>,
        target: IntTensor<B>,
        (pad_id, smoothing): (u32, f64),
    ) -> FloatTensor<B> {
        Loss::<B>::of(logits, target, pad_id, smoothing).forward()
    }

    fn of_logits(
        logits: FloatTensor<B>,
        target: IntTensor<B>,
        grad: FloatTensor<B>,
        (pad_id, smoothing): (u32, f64),
    ) -> FloatTensor<B> {
        Loss::<B>::of(logits, target, pad_id, smoothing).backward(grad)
    }

    fn product(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B> {
        B::float_matmul(x, y)
    }

    fn product_and_sums(x: FloatTensor<B>, y: FloatTensor<B>) -> (FloatTensor<B>, FloatTensor<B>) {
        let sums = sum_of_rows::<B>(y.clone());
        (B::float_matmul(x, y), sums)
    }
}
