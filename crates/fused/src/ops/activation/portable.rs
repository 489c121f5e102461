//! Activation functions in Burn's own operations. The gradient of `dropout(act(x))` is
//! `dx = dropout(dy) act'(x)`, where `dropout` uses the mask of the forward pass. For a gated
//! function, `dgate = dropout(dy) value act'(gate)` and `dvalue = dropout(dy) act(gate)`.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, get_device_settings,
};
use burn::tensor::{Slice, Tensor};

use super::function::{ARGUMENT, Activation, Function};
use crate::backend::graph::Strategy;
use crate::backend::portable::{on_all_backends, size};
use crate::ops::dropout::portable::{DropoutMask, draw_mask, scale};

/// The operations that Burn dispatches to every backend. Autodiff backends use the backward passes
/// below.
#[backend_extension(
    NdArray: cfg(feature = "ndarray"),
    Cube: cfg(feature = "_cube"),
    Autodiff
)]
pub(crate) trait PortableActivation: Backend {
    /// Returns `dropout(max(x, 0))` for a tensor of any shape.
    fn portable_relu(
        x: FloatTensor<Self>,
        #[extension_type] mask: DropoutMask<Self>,
    ) -> FloatTensor<Self> {
        mask.apply(Self::relu(x))
    }

    /// Returns `dropout(act(x))`, `[N, F]`. The input is `[N, F]`, or `[N, 2 * F]` for a gated
    /// function.
    fn portable_activate(
        x: FloatTensor<Self>,
        activation: Activation,
        #[extension_type] mask: DropoutMask<Self>,
    ) -> FloatTensor<Self> {
        mask.apply(forward::<Self>(x, activation))
    }
}

on_all_backends!(PortableActivation);

/// The portable path of ReLU.
pub(super) fn relu<const D: usize>(x: Tensor<D>, dropout: f64) -> Tensor<D> {
    let mask = draw_mask(x.dims(), dropout, &x.device());
    Tensor::from_dispatch(Dispatch::portable_relu(x.into_dispatch(), mask))
}

/// The portable path of all activations except ReLU without gates.
pub(super) fn activate(x: Tensor<2>, activation: Activation, dropout: f64) -> Tensor<2> {
    let [rows, width] = x.dims();
    let mask = draw_mask([rows, activation.columns(width)], dropout, &x.device());
    let y = Dispatch::portable_activate(x.into_dispatch(), activation, mask);
    Tensor::from_dispatch(y)
}

impl<B: Backend, C: CheckpointStrategy> PortableActivation for Autodiff<B, C> {
    fn portable_relu(x: FloatTensor<Self>, mask: DropoutMask<Self>) -> FloatTensor<Self> {
        let prepared = Relu.prepare::<Strategy>([x.node()]);
        let mask = mask.inner();
        let y = mask.apply(B::relu(x.into_primitive()));
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((y.clone(), mask.probability()), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn portable_activate(
        x: FloatTensor<Self>,
        activation: Activation,
        mask: DropoutMask<Self>,
    ) -> FloatTensor<Self> {
        let prepared = Activate.prepare::<Strategy>([x.node()]);
        let mask = mask.inner();
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let node = prep.checkpoint(&x);
                let y = mask.apply(forward::<B>(x.into_primitive(), activation));
                prep.finish((node, activation, mask), y)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(mask.apply(forward::<B>(x.into_primitive(), activation)))
            }
        }
    }
}

#[derive(Debug)]
struct Relu;

impl<B: Backend> Backward<B, 1> for Relu {
    /// The output, which is 0 where the input is at most 0 or the element was dropped, and the
    /// dropout probability.
    type State = (FloatTensor<B>, f64);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (y, probability) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            let settings = get_device_settings::<B>(&y.device());
            let is_cut = B::float_lower_equal_elem(y, 0.0.into(), settings.bool_dtype);
            scale::<B>(B::float_mask_fill(grad, is_cut, 0.0.into()), probability)
        });
    }
}

/// Returns `act(x)` or, for a gated function of `x = [gate, value]`, `act(gate) value`.
fn forward<B: Backend>(x: FloatTensor<B>, activation: Activation) -> FloatTensor<B> {
    if !activation.is_gated {
        return function::<B>(x, activation.function);
    }
    let [gate, value] = halves::<B>(x);
    B::float_mul(function::<B>(gate, activation.function), value)
}

#[derive(Debug)]
struct Activate;

impl<B: Backend> Backward<B, 1> for Activate {
    /// The node of the input, the activation function and the dropout mask.
    type State = (NodeId, Activation, DropoutMask<B>);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (x, activation, mask) = ops.state;
        let x: FloatTensor<B> = checkpointer.retrieve_node_output(x);
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            let grad = mask.apply(grad);
            if !activation.is_gated {
                return B::float_mul(grad, slope::<B>(x, activation.function));
            }
            let [gate, value] = halves::<B>(x);
            let value_grad = B::float_mul(
                grad.clone(),
                function::<B>(gate.clone(), activation.function),
            );
            let gate_grad = B::float_mul(
                B::float_mul(grad, value),
                slope::<B>(gate, activation.function),
            );
            B::float_cat(vec![gate_grad, value_grad], 1)
        });
    }
}

/// Splits each row of `[N, 2 * F]` into two halves, `[N, F]` each.
fn halves<B: Backend>(x: FloatTensor<B>) -> [FloatTensor<B>; 2] {
    let width = size(&x, 1) / 2;
    [0, width].map(|first| {
        let columns = Slice::from(first..first + width);
        B::float_slice(x.clone(), &[Slice::full(), columns])
    })
}

/// Returns `act(x)` without gating. For a gated activation, `x` is the gate.
fn function<B: Backend>(x: FloatTensor<B>, function: Function) -> FloatTensor<B> {
    match function {
        Function::Relu => B::relu(x),
        Function::Sigmoid => B::sigmoid(x),
        Function::Swish => B::float_mul(x.clone(), B::sigmoid(x)),
        Function::Gelu => B::float_mul(x.clone(), normal::<B>(x)),
        Function::GeluTanh => {
            let [argument, _] = argument::<B>(x.clone());
            B::float_mul(x, B::sigmoid(argument))
        }
    }
}

/// Returns `act'(x)`, the derivative of [`function`].
fn slope<B: Backend>(x: FloatTensor<B>, function: Function) -> FloatTensor<B> {
    match function {
        // The sign of max(x, 0), which is 0 or 1.
        Function::Relu => B::float_sign(B::relu(x)),
        // σ (1 - σ)
        Function::Sigmoid => {
            let sigmoid = B::sigmoid(x);
            B::float_mul(sigmoid.clone(), one_minus::<B>(sigmoid))
        }
        // σ (1 + x (1 - σ))
        Function::Swish => {
            let sigmoid = B::sigmoid(x.clone());
            let along = B::float_mul(x, one_minus::<B>(sigmoid.clone()));
            B::float_mul(sigmoid, B::float_add_scalar(along, 1.0.into()))
        }
        // Φ + x φ, where φ = exp(-x² / 2) / sqrt(2 π)
        Function::Gelu => {
            let square = B::float_mul(x.clone(), x.clone());
            let density = B::float_exp(B::float_mul_scalar(square, (-0.5).into()));
            let factor = 1.0 / (2.0 * std::f64::consts::PI).sqrt();
            let density = B::float_mul_scalar(density, factor.into());
            B::float_add(normal::<B>(x.clone()), B::float_mul(x, density))
        }
        // σ(s) (1 + x (1 - σ(s)) s'), with the argument s of the sigmoid
        Function::GeluTanh => {
            let [argument, slope] = argument::<B>(x.clone());
            let sigmoid = B::sigmoid(argument);
            let along = B::float_mul(B::float_mul(x, one_minus::<B>(sigmoid.clone())), slope);
            B::float_mul(sigmoid, B::float_add_scalar(along, 1.0.into()))
        }
    }
}

/// Returns `s = a x + b x³`, the argument of the sigmoid in the tanh approximation of GELU,
/// `x σ(s)`, and the derivative `s'`. [`ARGUMENT`] holds `a` and `b`.
fn argument<B: Backend>(x: FloatTensor<B>) -> [FloatTensor<B>; 2] {
    let [a, b] = ARGUMENT;
    let square = B::float_mul(x.clone(), x.clone());
    let factor = |b: f64| {
        let cubic = B::float_mul_scalar(square.clone(), b.into());
        B::float_add_scalar(cubic, a.into())
    };
    [B::float_mul(x, factor(b)), factor(3.0 * b)]
}

/// Returns `Φ(x) = (1 + erf(x / sqrt(2))) / 2`.
fn normal<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let x = B::float_mul_scalar(x, std::f64::consts::FRAC_1_SQRT_2.into());
    let erf = B::float_add_scalar(B::float_erf(x), 1.0.into());
    B::float_mul_scalar(erf, 0.5.into())
}

fn one_minus<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_add_scalar(B::float_neg(x), 1.0.into())
}
