//! Non-linearities with dropout: of `y = dropout(act(x))`, `dx = dropout(dy) act'(x)`.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, unary};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata, get_device_settings};
use burn::tensor::Slice;

use super::dropout::{Dropped, scaled_up};
use super::size;
use crate::activation::Activation;

#[derive(Debug)]
pub(super) struct Relu;

impl<B: Backend> Backward<B, 1> for Relu {
    /// The output, which is 0 where x is cut off or dropped, and the probability of dropout.
    type State = (FloatTensor<B>, f64);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (y, probability) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            let settings = get_device_settings::<B>(&y.device());
            let is_cut = B::float_lower_equal_elem(y, 0.0.into(), settings.bool_dtype);
            scaled_up::<B>(B::float_mask_fill(grad, is_cut, 0.0.into()), probability)
        });
    }
}

/// `act(x)`, or `act(gate) value` of `x = [gate, value]`.
pub(super) fn activate<B: Backend>(x: FloatTensor<B>, activation: Activation) -> FloatTensor<B> {
    if !activation.is_gated() {
        return function::<B>(x, activation);
    }
    let [gate, value] = halves::<B>(x);
    B::float_mul(function::<B>(gate, activation), value)
}

#[derive(Debug)]
pub(super) struct Activate;

impl<B: Backend> Backward<B, 1> for Activate {
    type State = (NodeId, Activation, Dropped<B>);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (x, activation, dropped) = ops.state;
        let x: FloatTensor<B> = checkpointer.retrieve_node_output(x);
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            let grad = dropped.apply(grad);
            if !activation.is_gated() {
                return B::float_mul(grad, slope::<B>(x, activation));
            }
            let [gate, value] = halves::<B>(x);
            let of_value = B::float_mul(grad.clone(), function::<B>(gate.clone(), activation));
            let of_gate = B::float_mul(B::float_mul(grad, value), slope::<B>(gate, activation));
            B::float_cat(vec![of_gate, of_value], 1)
        });
    }
}

/// The halves of each row.
fn halves<B: Backend>(x: FloatTensor<B>) -> [FloatTensor<B>; 2] {
    let width = size(&x, 1) / 2;
    [0, width].map(|first| {
        let columns = Slice::from(first..first + width);
        B::float_slice(x.clone(), &[Slice::full(), columns])
    })
}

/// `act(x)`, not gated.
fn function<B: Backend>(x: FloatTensor<B>, activation: Activation) -> FloatTensor<B> {
    match activation {
        Activation::Glu => B::sigmoid(x),
        Activation::Swish | Activation::Swiglu => B::float_mul(x.clone(), B::sigmoid(x)),
        Activation::Gelu | Activation::Geglu => B::float_mul(x.clone(), normal::<B>(x)),
    }
}

/// `act'(x)`.
fn slope<B: Backend>(x: FloatTensor<B>, activation: Activation) -> FloatTensor<B> {
    match activation {
        // σ (1 - σ)
        Activation::Glu => {
            let sigmoid = B::sigmoid(x);
            B::float_mul(sigmoid.clone(), one_less::<B>(sigmoid))
        }
        // σ (1 + x (1 - σ))
        Activation::Swish | Activation::Swiglu => {
            let sigmoid = B::sigmoid(x.clone());
            let along = B::float_mul(x, one_less::<B>(sigmoid.clone()));
            B::float_mul(sigmoid, B::float_add_scalar(along, 1.0.into()))
        }
        // Φ + x φ, where φ = exp(-x² / 2) / sqrt(2 π)
        Activation::Gelu | Activation::Geglu => {
            let square = B::float_mul(x.clone(), x.clone());
            let density = B::float_exp(B::float_mul_scalar(square, (-0.5).into()));
            let factor = 1.0 / (2.0 * std::f64::consts::PI).sqrt();
            let density = B::float_mul_scalar(density, factor.into());
            B::float_add(normal::<B>(x.clone()), B::float_mul(x, density))
        }
    }
}

/// `Φ(x) = (1 + erf(x / sqrt(2))) / 2`.
fn normal<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let x = B::float_mul_scalar(x, std::f64::consts::FRAC_1_SQRT_2.into());
    let erf = B::float_add_scalar(B::float_erf(x), 1.0.into());
    B::float_mul_scalar(erf, 0.5.into())
}

/// `1 - x`
fn one_less<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_add_scalar(B::float_neg(x), 1.0.into())
}
