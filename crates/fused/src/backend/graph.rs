//! Helpers for nodes of Burn's autodiff graph, and for operations with two results.

use burn::backend::Backend;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::Ops;
use burn::backend::tensor::FloatTensor;

/// The strategy of the nodes of all devices. It has no effect on an operation that is bound by its
/// computation, as all of this crate are, and one strategy is half the code of two.
pub(crate) type Strategy = NoCheckpointing;

/// Returns the node of each input of an operation, or `None` for an input that needs no gradient.
pub(crate) fn parents<S, const N: usize>(ops: &Ops<S, N>) -> [Option<NodeId>; N] {
    ops.parents
        .each_ref()
        .map(|node| node.as_ref().map(|node| node.id))
}

/// Adds the gradient of each input to the input's node. Inputs without a node are skipped.
pub(crate) fn register<B: Backend, const N: usize>(
    grads: &mut Gradients,
    parents: [Option<NodeId>; N],
    input_grads: [FloatTensor<B>; N],
) {
    for (node, grad) in parents.into_iter().zip(input_grads) {
        if let Some(node) = node {
            grads.register::<B>(node, grad);
        }
    }
}

#[cfg(feature = "flex")]
pub(crate) use pair::Pair;

#[cfg(feature = "flex")]
mod pair {
    use std::sync::{Arc, Mutex, PoisonError};

    use burn::backend::autodiff::checkpoint::base::Checkpointer;
    use burn::backend::autodiff::grads::Gradients;
    use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Autodiff, Backend};

    use super::Strategy;

    /// Gradients of the two results of an operation.
    ///
    /// A node of Burn's graph has one result. An operation with two results therefore has three
    /// nodes: its own node, whose result is hidden, and after it one node for each result. The node
    /// of each result stores the gradient of this result in the pair. The operation's backward pass
    /// takes both gradients from the pair.
    #[derive(Clone, Debug)]
    pub(crate) struct Pair<B: Backend>(Arc<Mutex<Both<B>>>);

    /// The stored gradient of each result. In the operation's backward pass, `None` means that the
    /// loss does not depend on that result.
    type Both<B> = [Option<FloatTensor<B>>; 2];

    impl<B: Backend> Default for Pair<B> {
        fn default() -> Self {
            Self(Arc::default())
        }
    }

    impl<B: Backend> Pair<B> {
        /// Returns `results` as tensors of the graph. The parent of their nodes is the node of
        /// `both`, the operation's hidden result.
        pub(crate) fn results(
            &self,
            both: &FloatTensor<Autodiff<B>>,
            results: [FloatTensor<B>; 2],
        ) -> [FloatTensor<Autodiff<B>>; 2] {
            let [first, second] = results;
            [(0, first), (1, second)].map(|(index, result)| {
                let prepared = OneOfTwo.prepare::<Strategy>([both.node()]);
                match prepared.compute_bound().stateful() {
                    OpsKind::Tracked(prep) => prep.finish((self.clone(), index), result),
                    OpsKind::UnTracked(prep) => prep.finish(result),
                }
            })
        }

        /// Takes the gradients that the nodes of the two results have stored.
        pub(crate) fn take_gradients(&self) -> Both<B> {
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }

    /// Backward pass of one result's node, which stores the gradient of the result in the pair.
    #[derive(Debug)]
    struct OneOfTwo;

    impl<B: Backend> Backward<B, 1> for OneOfTwo {
        /// The pair, and the index of the result.
        type State = (Pair<B>, usize);

        fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
            let (pair, index) = ops.state;
            let grad = grads.consume::<B>(&ops.node);
            let mut both = pair.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let ([None, None], [Some(node)]) = (&*both, ops.parents) {
                // The operation's backward pass consumes the gradient of its own node, so there
                // must be one. Its value is not read.
                grads.register::<B>(node.id, grad.clone());
            }
            both[index] = Some(grad);
        }
    }
}
