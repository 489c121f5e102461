//! Cross-entropy of a linear layer's outputs, which are never all there at once.

use burn::tensor::{Int, Tensor};

/// [`cross_entropy`](crate::cross_entropy) of [`linear`](crate::linear), so many rows at a time.
///
/// The logits of `rows_at_a_time` rows are there at once; the backward pass computes them again. On a
/// backend that this crate has no feature for, and without gradients on all but flex, it is the two
/// operations on all rows.
///
/// # Shapes
///
/// - x: `[N, D]`
/// - weight: `[D, V]`
/// - bias: `[V]`
/// - target: `[N]`, ids below `V`
/// - output: `[N]`
///
/// # Panics
///
/// If the shapes do not fit together, a target is no id, or `rows_at_a_time` is 0.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::<2>::ones([3, 2], &device);
/// let (weight, bias) = (Tensor::zeros([2, 4], &device), Tensor::zeros([4], &device));
/// let target = Tensor::<1, Int>::from_data([3, 2, 1], &device);
/// let loss = fused::linear_cross_entropy(x, weight, bias, target, 0, 0.0, 2).into_data();
/// assert!(loss.iter::<f32>().all(|loss| (loss - 4f32.ln()).abs() < 1e-6));
/// ```
pub fn linear_cross_entropy(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    target: Tensor<1, Int>,
    pad_id: u32,
    smoothing: f64,
    rows_at_a_time: usize,
) -> Tensor<1> {
    assert!(
        rows_at_a_time > 0,
        "rows_at_a_time is 0, but must be at least 1"
    );
    let [rows, d_input] = x.dims();
    let [found, d_output] = weight.dims();
    assert!(
        d_input == found && bias.dims() == [d_output] && target.dims() == [rows],
        "x is [{rows}, {d_input}], but the weight is [{found}, {d_output}], the bias {:?} and the target {:?}",
        bias.dims(),
        target.dims()
    );
    #[cfg(feature = "flex")]
    if crate::flex::takes(&x) && crate::flex::takes(&weight) {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        return Tensor::from_dispatch(Dispatch::fused_linear_cross_entropy(
            x.into_dispatch(),
            weight.into_dispatch(),
            bias.into_dispatch(),
            target.into_dispatch(),
            pad_id,
            smoothing,
            rows_at_a_time,
        ));
    }
    #[cfg(feature = "autodiff")]
    if rows > 0 && crate::explicit::takes(&x) && crate::explicit::takes(&weight) {
        use crate::explicit::ExplicitOps;
        use burn::backend::Dispatch;

        return Tensor::from_dispatch(Dispatch::explicit_linear_cross_entropy(
            x.into_dispatch(),
            weight.into_dispatch(),
            bias.into_dispatch(),
            target.into_dispatch(),
            pad_id,
            smoothing,
            rows_at_a_time,
        ));
    }
    crate::cross_entropy(
        crate::linear(x, weight, Some(bias)),
        target,
        pad_id,
        smoothing,
    )
}

#[cfg(any(feature = "flex", feature = "autodiff"))]
pub(crate) use chunks::{Parts, forward};
#[cfg(feature = "autodiff")]
pub(crate) use gradients::forward_tracked;

#[cfg(any(feature = "flex", feature = "autodiff"))]
mod chunks {
    use std::ops::Range;

    use burn::backend::tensor::{FloatTensor, IntTensor};
    use burn::backend::{Backend, TensorMetadata};
    use burn::tensor::Slice;

    /// What a chunk is computed by.
    pub(crate) trait Parts<B: Backend>: std::fmt::Debug + Send + 'static {
        /// `x W + b`.
        fn linear(
            x: FloatTensor<B>,
            weight: FloatTensor<B>,
            bias: FloatTensor<B>,
        ) -> FloatTensor<B>;

        /// Of each row; of a padding id and a smoothing.
        fn losses(logits: FloatTensor<B>, target: IntTensor<B>, of: (u32, f64)) -> FloatTensor<B>;

        /// The logits' gradient, from that of each row's loss.
        #[cfg(feature = "autodiff")]
        fn of_logits(
            logits: FloatTensor<B>,
            target: IntTensor<B>,
            grad: FloatTensor<B>,
            of: (u32, f64),
        ) -> FloatTensor<B>;

        /// `x y`.
        #[cfg(feature = "autodiff")]
        fn product(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B>;

        /// `x y`, and the sums over the rows of y.
        #[cfg(feature = "autodiff")]
        fn product_and_sums(
            x: FloatTensor<B>,
            y: FloatTensor<B>,
        ) -> (FloatTensor<B>, FloatTensor<B>);
    }

    /// At least one, which is empty where there is no row.
    pub(super) fn ranges(rows: usize, at_a_time: usize) -> impl Iterator<Item = Range<usize>> {
        (0..rows.max(1))
            .step_by(at_a_time)
            .map(move |from| from..rows.min(from + at_a_time))
    }

    pub(super) fn slice(range: Range<usize>) -> [Slice; 1] {
        [Slice::from(range)]
    }

    /// The losses of all rows, from x, weight and bias.
    pub(crate) fn forward<P: Parts<B>, B: Backend>(
        [x, weight, bias]: &[FloatTensor<B>; 3],
        target: &IntTensor<B>,
        of: (u32, f64),
        at_a_time: usize,
    ) -> FloatTensor<B> {
        let losses = |range: Range<usize>| {
            let x = B::float_slice(x.clone(), &slice(range.clone()));
            let target = B::int_slice(target.clone(), &slice(range));
            P::losses(P::linear(x, weight.clone(), bias.clone()), target, of)
        };
        let losses: Vec<_> = ranges(x.shape()[0], at_a_time).map(losses).collect();
        B::float_cat(losses, 0)
    }
}

#[cfg(feature = "autodiff")]
mod gradients {
    use std::marker::PhantomData;

    use burn::backend::autodiff::NodeId;
    use burn::backend::autodiff::checkpoint::base::Checkpointer;
    use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
    use burn::backend::autodiff::grads::Gradients;
    use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
    use burn::backend::tensor::{FloatTensor, IntTensor};
    use burn::backend::{Autodiff, Backend, TensorMetadata};

    use super::chunks::{Parts, forward, ranges, slice};

    /// The forward pass, and its place in the graph.
    pub(crate) fn forward_tracked<P: Parts<B>, B: Backend, C: CheckpointStrategy>(
        inputs: [FloatTensor<Autodiff<B, C>>; 3],
        target: IntTensor<B>,
        of: (u32, f64),
        at_a_time: usize,
    ) -> FloatTensor<Autodiff<B, C>> {
        let nodes = inputs.each_ref().map(|tensor| tensor.node());
        let prepared = LinearCrossEntropy::<P>(PhantomData).prepare::<C>(nodes);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let nodes = inputs.each_ref().map(|tensor| prep.checkpoint(tensor));
                let inputs = inputs.map(|tensor| tensor.into_primitive());
                let losses = forward::<P, B>(&inputs, &target, of, at_a_time);
                prep.finish((nodes, target, of, at_a_time), losses)
            }
            OpsKind::UnTracked(prep) => {
                let inputs = inputs.map(|tensor| tensor.into_primitive());
                prep.finish(forward::<P, B>(&inputs, &target, of, at_a_time))
            }
        }
    }

    #[derive(Debug)]
    struct LinearCrossEntropy<P>(PhantomData<P>);

    impl<B: Backend, P: Parts<B>> Backward<B, 3> for LinearCrossEntropy<P> {
        /// Inputs, target, padding and smoothing, rows at a time.
        type State = ([NodeId; 3], IntTensor<B>, (u32, f64), usize);

        fn backward(
            self,
            ops: Ops<Self::State, 3>,
            grads: &mut Gradients,
            checkpointer: &mut Checkpointer,
        ) {
            let (inputs, target, of, at_a_time) = ops.state;
            let inputs = inputs.map(|id| checkpointer.retrieve_node_output(id));
            let grad = grads.consume::<B>(&ops.node);
            let of_inputs = backward::<P, B>(&inputs, &target, &grad, of, at_a_time);
            let nodes = ops.parents.map(|node| node.map(|node| node.id));
            crate::nodes::register::<B, 3>(grads, nodes, of_inputs);
        }
    }

    /// Of x, weight and bias, from the gradient of each row's loss.
    fn backward<P: Parts<B>, B: Backend>(
        [x, weight, bias]: &[FloatTensor<B>; 3],
        target: &IntTensor<B>,
        grad: &FloatTensor<B>,
        of: (u32, f64),
        at_a_time: usize,
    ) -> [FloatTensor<B>; 3] {
        let transposed = |x: FloatTensor<B>| B::float_swap_dims(x, 0, 1);
        let mut of_x = Vec::new();
        let mut sums: Option<(FloatTensor<B>, FloatTensor<B>)> = None;
        for range in ranges(x.shape()[0], at_a_time) {
            let x = B::float_slice(x.clone(), &slice(range.clone()));
            let target = B::int_slice(target.clone(), &slice(range.clone()));
            let grad = B::float_slice(grad.clone(), &slice(range));
            let logits = P::linear(x.clone(), weight.clone(), bias.clone());
            let logits = P::of_logits(logits, target, grad, of);
            let (of_weight, of_bias) = P::product_and_sums(transposed(x), logits.clone());
            of_x.push(P::product(logits, transposed(weight.clone())));
            sums = Some(match sums {
                None => (of_weight, of_bias),
                Some((weight, bias)) => {
                    (B::float_add(weight, of_weight), B::float_add(bias, of_bias))
                }
            });
        }
        let (weight, bias) = sums.expect("there is a range");
        [B::float_cat(of_x, 0), weight, bias]
    }
}
