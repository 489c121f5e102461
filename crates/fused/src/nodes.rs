//! Nodes of Burn's graph.

use burn::backend::Backend;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::tensor::FloatTensor;

/// Adds each gradient to its node's, where there is one.
pub(crate) fn register<B: Backend, const N: usize>(
    grads: &mut Gradients,
    nodes: [Option<NodeId>; N],
    of_nodes: [FloatTensor<B>; N],
) {
    for (node, grad) in nodes.into_iter().zip(of_nodes) {
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
    use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
    use burn::backend::autodiff::grads::Gradients;
    use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Autodiff, Backend};

    /// The gradients of an operation's two results. In Burn's graph an operation has one result, so
    /// that there are three nodes: the operation's own, which nobody sees, and after it one for
    /// each result. These leave their gradients here, and the operation finds both.
    #[derive(Clone, Debug)]
    pub(crate) struct Pair<B: Backend>(Arc<Mutex<Both<B>>>);

    /// Of each result, where it has one.
    type Both<B> = [Option<FloatTensor<B>>; 2];

    impl<B: Backend> Default for Pair<B> {
        fn default() -> Self {
            Self(Arc::default())
        }
    }

    impl<B: Backend> Pair<B> {
        /// The results of the operation whose own node is `both`.
        pub(crate) fn results<C: CheckpointStrategy>(
            &self,
            both: &FloatTensor<Autodiff<B, C>>,
            results: [FloatTensor<B>; 2],
        ) -> [FloatTensor<Autodiff<B, C>>; 2] {
            let [first, second] = results;
            [(0, first), (1, second)].map(|(place, result)| {
                let prepared = OneOfTwo.prepare::<C>([both.node()]);
                match prepared.compute_bound().stateful() {
                    OpsKind::Tracked(prep) => prep.finish((self.clone(), place), result),
                    OpsKind::UnTracked(prep) => prep.finish(result),
                }
            })
        }

        /// What the results have left.
        pub(crate) fn take_gradients(&self) -> Both<B> {
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }

    /// A result's node: it hands its gradient on.
    #[derive(Debug)]
    struct OneOfTwo;

    impl<B: Backend> Backward<B, 1> for OneOfTwo {
        type State = (Pair<B>, usize);

        fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
            let (pair, place) = ops.state;
            let grad = grads.consume::<B>(&ops.node);
            let mut both = pair.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let ([None, None], [Some(node)]) = (&*both, ops.parents) {
                // Any tensor will do: Burn wants one where there is a gradient.
                grads.register::<B>(node.id, grad.clone());
            }
            both[place] = Some(grad);
        }
    }
}
