//! What each operation keeps, and its gradients.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsPrep, Tracked, unary};
use burn::backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend, TensorMetadata};

use crate::activation::Activation;
use crate::dropout::Dropout;
use crate::extension::FusedOps;
use crate::layer_norm::Store;
use crate::nodes::{Pair, register};

/// See `attention::kernel`.
#[derive(Debug)]
pub(super) struct SelfAttention;

/// See `attention::kernel`.
#[derive(Debug)]
pub(super) struct CrossAttention;

/// What both backward passes are made of.
#[derive(Clone, Debug)]
pub(super) struct KeptAttention<B: Backend, const N: usize> {
    pub inputs: [NodeId; N],
    pub mask: BoolTensor<B>,
    pub dropout: Dropout,
    pub output: FloatTensor<B>,
    pub log_sums: FloatTensor<B>,
}

impl<B: Backend + FusedOps> Backward<B, 1> for SelfAttention {
    type State = KeptAttention<B, 1>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let kept = ops.state;
        let [packed] = kept.inputs.map(|id| checkpointer.retrieve_node_output(id));
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            let (output, log_sums) = (kept.output, kept.log_sums);
            B::fused_self_attention_backward(
                packed,
                kept.mask,
                kept.dropout,
                output,
                log_sums,
                grad,
            )
        });
    }
}

impl<B: Backend + FusedOps> Backward<B, 2> for CrossAttention {
    type State = KeptAttention<B, 2>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let kept = ops.state;
        let [query, packed] = kept.inputs.map(|id| checkpointer.retrieve_node_output(id));
        let grad = grads.consume::<B>(&ops.node);
        let (query, packed) = B::fused_cross_attention_backward(
            query,
            packed,
            kept.mask,
            kept.dropout,
            kept.output,
            kept.log_sums,
            grad,
        );
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        register::<B, 2>(grads, nodes, [query, packed]);
    }
}

/// `dz_v = dloss (p_v - ε / V)`, less `dloss (1 - ε)` for the target.
#[derive(Debug)]
pub(super) struct CrossEntropy;

impl<B: Backend + FusedOps> Backward<B, 1> for CrossEntropy {
    /// Logits, which become their gradient if nobody else has them, target, padding and smoothing.
    type State = (FloatTensor<B>, IntTensor<B>, u32, f64);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (logits, target, pad_id, smoothing) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::fused_cross_entropy_backward(logits, target, grad, pad_id, smoothing)
        });
    }
}

/// See `layer_norm`.
#[derive(Debug)]
pub(super) struct LayerNorm;

impl<B: Backend + FusedOps> Backward<B, 3> for LayerNorm {
    /// `x`, gamma and epsilon.
    type State = (NodeId, NodeId, f64);

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (x, gamma, epsilon) = ops.state;
        let x = checkpointer.retrieve_node_output(x);
        let gamma = checkpointer.retrieve_node_output(gamma);
        let grad = grads.consume::<B>(&ops.node);
        let (x, gamma, beta) = B::fused_layer_norm_backward(x, gamma, grad, epsilon);
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        register::<B, 3>(grads, nodes, [x, gamma, beta]);
    }
}

/// `dx = dz`, and `dy` the same with the same elements dropped.
#[derive(Debug)]
pub(super) struct Residual;

impl<B: Backend + FusedOps> Backward<B, 2> for Residual {
    type State = Dropout;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let of_sum = grads.consume::<B>(&ops.node);
        let [x, y] = ops.parents.map(|node| node.map(|node| node.id));
        if let Some(y) = y {
            grads.register::<B>(y, B::fused_dropped(of_sum.clone(), ops.state));
        }
        if let Some(x) = x {
            grads.register::<B>(x, of_sum);
        }
    }
}

/// What the gradients of a residual connection with norm are made of.
#[derive(Clone, Debug)]
pub(super) struct KeptSum<B: Backend> {
    pub sum: FloatTensor<B>,
    pub gamma: NodeId,
    pub dropout: Dropout,
    pub epsilon: f64,
}

/// Layer norm's of the sum, to which the sum's own gradient is added, then the residual's.
#[derive(Debug)]
pub(super) struct ResidualAndNorm;

impl<B: Backend + FusedOps> Backward<B, 4> for ResidualAndNorm {
    type State = (KeptSum<B>, Pair<B>);

    fn backward(
        self,
        ops: Ops<Self::State, 4>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (kept, pair) = ops.state;
        let gamma: FloatTensor<B> = checkpointer.retrieve_node_output(kept.gamma);
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        drop(grads.consume::<B>(&ops.node));
        let (of_sum, of_norm, store) = match pair.take_gradients() {
            [Some(of_sum), Some(of_norm)] => (of_sum, of_norm, Store::Added),
            [None, Some(of_norm)] => (kept.sum.clone(), of_norm, Store::Written),
            [Some(of_sum), None] => {
                let of_y = B::fused_dropped(of_sum.clone(), kept.dropout);
                // A scale that was computed waits for its gradient.
                let dtype = gamma.dtype().into();
                let zeros = B::float_zeros(gamma.shape(), &gamma.device(), dtype);
                return register::<B, 4>(grads, nodes, [of_sum, of_y, zeros.clone(), zeros]);
            }
            [None, None] => unreachable!("neither result has a gradient"),
        };
        let (sum, dropout, epsilon) = (kept.sum, kept.dropout, kept.epsilon);
        let of_inputs = B::fused_residual_and_norm_backward(
            sum, gamma, of_sum, of_norm, store, dropout, epsilon,
        );
        register::<B, 4>(grads, nodes, of_inputs.into());
    }
}

/// See `relu`.
#[derive(Debug)]
pub(super) struct Relu;

impl<B: Backend + FusedOps> Backward<B, 1> for Relu {
    /// The output, and the probability of dropout.
    type State = (FloatTensor<B>, f64);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (y, probability) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::fused_relu_backward(y, grad, probability)
        });
    }
}

/// See `activation`.
#[derive(Debug)]
pub(super) struct Activate;

impl<B: Backend + FusedOps> Backward<B, 1> for Activate {
    type State = (NodeId, Activation, Dropout);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (x, activation, dropout) = ops.state;
        let x = checkpointer.retrieve_node_output(x);
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::fused_activate_backward(x, activation, dropout, grad)
        });
    }
}

/// The same elements of the gradient are dropped.
#[derive(Debug)]
pub(super) struct Dropping;

impl<B: Backend + FusedOps> Backward<B, 1> for Dropping {
    type State = Dropout;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dropout = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::fused_dropout(grad, dropout)
        });
    }
}

/// `dx = dy W^T`, `dW = x^T dy`, `db = sum of dy's rows`.
#[derive(Debug)]
pub(super) struct Linear;

/// What the gradients are made of: each where the other one has a gradient.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    x: Option<NodeId>,
    weight: Option<NodeId>,
}

impl Kept {
    pub(super) fn of<B: Backend, C: CheckpointStrategy, const N: usize>(
        prep: &mut OpsPrep<Linear, B, Self, C, N, Tracked>,
        x: &FloatTensor<Autodiff<B, C>>,
        weight: &FloatTensor<Autodiff<B, C>>,
    ) -> Self
    where
        Linear: Backward<B, N, State = Self>,
    {
        Self {
            x: weight.is_tracked().then(|| prep.checkpoint(x)),
            weight: x.is_tracked().then(|| prep.checkpoint(weight)),
        }
    }

    fn backward<B: Backend + FusedOps>(
        self,
        [x, weight, bias]: [Option<NodeId>; 3],
        grad: FloatTensor<B>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let mut transposed = |kept: Option<NodeId>| {
            let id = kept.expect("it was kept for this");
            B::float_transpose(checkpointer.retrieve_node_output(id))
        };
        match (weight, bias) {
            (Some(weight), Some(bias)) => {
                let (of_weight, of_bias) =
                    B::fused_product_and_sums(transposed(self.x), grad.clone());
                grads.register::<B>(weight, of_weight);
                grads.register::<B>(bias, of_bias);
            }
            (Some(weight), None) => {
                let of_weight = B::fused_product(transposed(self.x), grad.clone());
                grads.register::<B>(weight, of_weight);
            }
            (None, Some(bias)) => {
                grads.register::<B>(bias, B::fused_sum_rows(grad.clone()));
            }
            (None, None) => {}
        }
        if let Some(node) = x {
            let grad = B::fused_product(grad, transposed(self.weight));
            grads.register::<B>(node, grad);
        }
    }
}

impl<B: Backend + FusedOps> Backward<B, 2> for Linear {
    type State = Kept;

    fn backward(self, ops: Ops<Kept, 2>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let [x, weight] = ops.parents.map(|node| node.map(|node| node.id));
        let grad = grads.consume::<B>(&ops.node);
        ops.state
            .backward::<B>([x, weight, None], grad, grads, checkpointer);
    }
}

impl<B: Backend + FusedOps> Backward<B, 3> for Linear {
    type State = Kept;

    fn backward(self, ops: Ops<Kept, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let parents = ops.parents.map(|node| node.map(|node| node.id));
        let grad = grads.consume::<B>(&ops.node);
        ops.state.backward::<B>(parents, grad, grads, checkpointer);
    }
}
