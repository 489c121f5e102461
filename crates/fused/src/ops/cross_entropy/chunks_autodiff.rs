//! The gradient of `linear_cross_entropy`, computed in chunks of rows, for any backend.

use std::marker::PhantomData;

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, AutodiffBackend, Backend, TensorMetadata};

use super::chunks::{ChunkOps, forward, ranges, slice};
use crate::backend::graph::{Strategy, parents, register};

/// Returns the losses of all rows: with label smoothing and a node in the autodiff graph, and without
/// both.
pub(super) fn forward_tracked<P: ChunkOps<B>, B: Backend>(
    inputs: [FloatTensor<Autodiff<B>>; 3],
    target: IntTensor<B>,
    smoothing: f64,
    at_a_time: usize,
) -> [FloatTensor<Autodiff<B>>; 2] {
    let nodes = inputs.each_ref().map(|tensor| tensor.node());
    let prepared = LinearCrossEntropy::<P>(PhantomData).prepare::<Strategy>(nodes);
    let primitives = inputs.clone().map(|tensor| tensor.into_primitive());
    let (smoothed, plain) = forward::<P, B>(&primitives, &target, smoothing, at_a_time);
    let smoothed = match prepared.compute_bound().stateful() {
        OpsKind::Tracked(mut prep) => {
            let nodes = inputs.each_ref().map(|tensor| prep.checkpoint(tensor));
            prep.finish((nodes, target, smoothing, at_a_time), smoothed)
        }
        OpsKind::UnTracked(prep) => prep.finish(smoothed),
    };
    [smoothed, Autodiff::<B>::from_inner(plain)]
}

#[derive(Debug)]
struct LinearCrossEntropy<P>(PhantomData<P>);

impl<B: Backend, P: ChunkOps<B>> Backward<B, 3> for LinearCrossEntropy<P> {
    /// The nodes of the inputs, the target, the smoothing, and the maximum number of rows in a chunk.
    type State = ([NodeId; 3], IntTensor<B>, f64, usize);

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let parents = parents(&ops);
        let (inputs, target, smoothing, at_a_time) = ops.state;
        let inputs = inputs.map(|id| checkpointer.retrieve_node_output(id));
        let grad = grads.consume::<B>(&ops.node);
        let input_grads = backward::<P, B>(&inputs, &target, &grad, smoothing, at_a_time);
        register::<B, 3>(grads, parents, input_grads);
    }
}

/// Returns the gradients of x, weight and bias, from the gradient of each row's loss.
fn backward<P: ChunkOps<B>, B: Backend>(
    [x, weight, bias]: &[FloatTensor<B>; 3],
    target: &IntTensor<B>,
    grad: &FloatTensor<B>,
    smoothing: f64,
    at_a_time: usize,
) -> [FloatTensor<B>; 3] {
    let transposed = |x: FloatTensor<B>| B::float_swap_dims(x, 0, 1);
    let mut x_grads = Vec::new();
    let mut sums: Option<(FloatTensor<B>, FloatTensor<B>)> = None;
    for range in ranges(x.shape()[0], at_a_time) {
        let x = B::float_slice(x.clone(), &slice(range.clone()));
        let target = B::int_slice(target.clone(), &slice(range.clone()));
        let grad = B::float_slice(grad.clone(), &slice(range));
        let logits = P::linear(x.clone(), weight.clone(), bias.clone());
        let logits = P::logits_grad(logits, target, grad, smoothing);
        let (weight_grad, bias_grad) = P::matmul_and_sums(transposed(x), logits.clone());
        x_grads.push(P::matmul(logits, transposed(weight.clone())));
        sums = Some(match sums {
            None => (weight_grad, bias_grad),
            Some((weight, bias)) => (
                B::float_add(weight, weight_grad),
                B::float_add(bias, bias_grad),
            ),
        });
    }
    let (weight, bias) = sums.expect("there is at least one range");
    [B::float_cat(x_grads, 0), weight, bias]
}
