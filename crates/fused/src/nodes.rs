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
