//! Backward passes, over any backend that has the operations.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, OpsPrep, Tracked, unary};
use burn::backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend};

use crate::dropout::Dropout;
use crate::extension::FusedOps;

impl<B: Backend + FusedOps, C: CheckpointStrategy> FusedOps for Autodiff<B, C> {
    fn fused_product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        let prepared = Linear.prepare::<C>([x.node(), weight.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let kept = Kept::of(&mut prep, &x, &weight);
                prep.finish(
                    kept,
                    B::fused_product(x.into_primitive(), weight.into_primitive()),
                )
            }
            OpsKind::UnTracked(prep) => prep.finish(B::fused_product(
                x.into_primitive(),
                weight.into_primitive(),
            )),
        }
    }

    fn fused_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let prepared = Linear.prepare::<C>([x.node(), weight.node(), bias.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let kept = Kept::of(&mut prep, &x, &weight);
                let y = B::fused_linear(
                    x.into_primitive(),
                    weight.into_primitive(),
                    bias.into_primitive(),
                );
                prep.finish(kept, y)
            }
            OpsKind::UnTracked(prep) => {
                let y = B::fused_linear(
                    x.into_primitive(),
                    weight.into_primitive(),
                    bias.into_primitive(),
                );
                prep.finish(y)
            }
        }
    }

    fn fused_self_attention(
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let prepared = SelfAttention.prepare::<C>([packed.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let node = prep.checkpoint(&packed);
                let packed = packed.into_primitive();
                let (output, log_sums) =
                    B::fused_self_attention_forward(packed, mask.clone(), dropout);
                let kept = KeptAttention {
                    inputs: [node],
                    mask,
                    dropout,
                    output: output.clone(),
                    log_sums,
                };
                prep.finish(kept, output)
            }
            OpsKind::UnTracked(prep) => {
                let packed = packed.into_primitive();
                prep.finish(B::fused_self_attention(packed, mask, dropout))
            }
        }
    }

    fn fused_cross_attention(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let prepared = CrossAttention.prepare::<C>([query.node(), packed.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let nodes = [prep.checkpoint(&query), prep.checkpoint(&packed)];
                let (query, packed) = (query.into_primitive(), packed.into_primitive());
                let (output, log_sums) =
                    B::fused_cross_attention_forward(query, packed, mask.clone(), dropout);
                let kept = KeptAttention {
                    inputs: nodes,
                    mask,
                    dropout,
                    output: output.clone(),
                    log_sums,
                };
                prep.finish(kept, output)
            }
            OpsKind::UnTracked(prep) => {
                let (query, packed) = (query.into_primitive(), packed.into_primitive());
                let y = B::fused_cross_attention(query, packed, mask, dropout);
                prep.finish(y)
            }
        }
    }

    fn fused_self_attention_forward(
        _: FloatTensor<Self>,
        _: BoolTensor<Self>,
        _: Dropout,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{ONCE}")
    }

    fn fused_cross_attention_forward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: BoolTensor<Self>,
        _: Dropout,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{ONCE}")
    }

    fn fused_self_attention_backward(
        _: FloatTensor<Self>,
        _: BoolTensor<Self>,
        _: Dropout,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }

    fn fused_cross_attention_backward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: BoolTensor<Self>,
        _: Dropout,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{ONCE}")
    }

    fn fused_cross_entropy(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        pad_id: u32,
        smoothing: f64,
    ) -> FloatTensor<Self> {
        let prepared = CrossEntropy.prepare::<C>([logits.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let logits = logits.into_primitive();
                let loss =
                    B::fused_cross_entropy(logits.clone(), target.clone(), pad_id, smoothing);
                prep.finish((logits, target, pad_id, smoothing), loss)
            }
            OpsKind::UnTracked(prep) => {
                let logits = logits.into_primitive();
                prep.finish(B::fused_cross_entropy(logits, target, pad_id, smoothing))
            }
        }
    }

    fn fused_cross_entropy_backward(
        _: FloatTensor<Self>,
        _: IntTensor<Self>,
        _: FloatTensor<Self>,
        _: u32,
        _: f64,
    ) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }

    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let prepared = LayerNorm.prepare::<C>([x.node(), gamma.node(), beta.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let state = (prep.checkpoint(&x), prep.checkpoint(&gamma), epsilon);
                let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.into_primitive());
                prep.finish(state, B::fused_layer_norm(x, gamma, beta, epsilon))
            }
            OpsKind::UnTracked(prep) => {
                let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.into_primitive());
                prep.finish(B::fused_layer_norm(x, gamma, beta, epsilon))
            }
        }
    }

    fn fused_layer_norm_backward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{ONCE}")
    }

    fn fused_dropout(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self> {
        let prepared = Dropping.prepare::<C>([x.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let y = B::fused_dropout(x.into_primitive(), dropout);
                prep.finish(dropout, y)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::fused_dropout(x.into_primitive(), dropout)),
        }
    }

    fn fused_sum_rows(_: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }

    fn fused_residual(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let prepared = Residual.prepare::<C>([x.node(), y.node()]);
        let sum = B::fused_residual(x.into_primitive(), y.into_primitive(), dropout);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(dropout, sum),
            OpsKind::UnTracked(prep) => prep.finish(sum),
        }
    }

    fn fused_residual_norm(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        dropout: Dropout,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let parents = [&x, &y, &gamma, &beta].map(|tensor| tensor.node());
        let prepared = ResidualNorm.prepare::<C>(parents);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let kept = prep.checkpoint(&gamma);
                let [x, y, gamma, beta] = [x, y, gamma, beta].map(|tensor| tensor.into_primitive());
                let (output, sum) =
                    B::fused_residual_norm_forward(x, y, gamma, beta, dropout, epsilon);
                prep.finish((sum, kept, dropout, epsilon), output)
            }
            OpsKind::UnTracked(prep) => {
                let [x, y, gamma, beta] = [x, y, gamma, beta].map(|tensor| tensor.into_primitive());
                prep.finish(B::fused_residual_norm(x, y, gamma, beta, dropout, epsilon))
            }
        }
    }

    fn fused_residual_norm_forward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: Dropout,
        _: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{ONCE}")
    }

    fn fused_dropped(_: FloatTensor<Self>, _: Dropout) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }

    fn fused_relu(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self> {
        let prepared = Relu.prepare::<C>([x.node()]);
        let y = B::fused_relu(x.into_primitive(), dropout);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((y.clone(), dropout.probability), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        }
    }

    fn fused_relu_backward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: f64,
    ) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }
}

const ONCE: &str = "backward passes are not differentiated";

/// See `attention::kernel`.
#[derive(Debug)]
struct SelfAttention;

/// See `attention::kernel`.
#[derive(Debug)]
struct CrossAttention;

/// What both backward passes are made of.
#[derive(Clone, Debug)]
struct KeptAttention<B: Backend, const N: usize> {
    inputs: [NodeId; N],
    mask: BoolTensor<B>,
    dropout: Dropout,
    output: FloatTensor<B>,
    log_sums: FloatTensor<B>,
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
        for (node, grad) in ops.parents.into_iter().zip([query, packed]) {
            if let Some(node) = node {
                grads.register::<B>(node.id, grad);
            }
        }
    }
}

/// `dz_v = dloss (p_v - ε / V)`, less `dloss (1 - ε)` for the target.
#[derive(Debug)]
struct CrossEntropy;

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
struct LayerNorm;

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
        for (node, grad) in ops.parents.into_iter().zip([x, gamma, beta]) {
            if let Some(node) = node {
                grads.register::<B>(node.id, grad);
            }
        }
    }
}

/// `dx = dz`, and `dy` the same with the same elements dropped.
#[derive(Debug)]
struct Residual;

impl<B: Backend + FusedOps> Backward<B, 2> for Residual {
    type State = Dropout;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let parents = ops.parents.map(|node| node.map(|node| node.id));
        register_residual::<B>(parents, grad, ops.state, grads);
    }
}

fn register_residual<B: Backend + FusedOps>(
    [x, y]: [Option<NodeId>; 2],
    grad: FloatTensor<B>,
    dropout: Dropout,
    grads: &mut Gradients,
) {
    if let Some(node) = y {
        let grad = match dropout.probability > 0.0 {
            true => B::fused_dropped(grad.clone(), dropout),
            false => grad.clone(),
        };
        grads.register::<B>(node, grad);
    }
    if let Some(node) = x {
        grads.register::<B>(node, grad);
    }
}

/// Layer norm's, then the residual's.
#[derive(Debug)]
struct ResidualNorm;

impl<B: Backend + FusedOps> Backward<B, 4> for ResidualNorm {
    /// The sum, gamma, dropout and epsilon.
    type State = (FloatTensor<B>, NodeId, Dropout, f64);

    fn backward(
        self,
        ops: Ops<Self::State, 4>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (sum, gamma, dropout, epsilon) = ops.state;
        let gamma = checkpointer.retrieve_node_output(gamma);
        let grad = grads.consume::<B>(&ops.node);
        let (grad, gamma, beta) = B::fused_layer_norm_backward(sum, gamma, grad, epsilon);
        let [x, y, gamma_node, beta_node] = ops.parents.map(|node| node.map(|node| node.id));
        for (node, grad) in [(gamma_node, gamma), (beta_node, beta)] {
            if let Some(node) = node {
                grads.register::<B>(node, grad);
            }
        }
        register_residual::<B>([x, y], grad, dropout, grads);
    }
}

/// See `relu`.
#[derive(Debug)]
struct Relu;

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

/// The same elements of the gradient are dropped.
#[derive(Debug)]
struct Dropping;

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
struct Linear;

/// What the gradients are made of: each where the other one has a gradient.
#[derive(Clone, Debug)]
struct Kept {
    x: Option<NodeId>,
    weight: Option<NodeId>,
}

impl Kept {
    fn of<B: Backend, C: CheckpointStrategy, const N: usize>(
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
        [x, weight]: [Option<NodeId>; 2],
        grad: FloatTensor<B>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let mut transposed = |kept: Option<NodeId>| {
            let id = kept.expect("it was kept for this");
            B::float_transpose(checkpointer.retrieve_node_output(id))
        };
        if let Some(node) = weight {
            let grad = B::fused_product(transposed(self.x), grad.clone());
            grads.register::<B>(node, grad);
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
        let parents = ops.parents.map(|node| node.map(|node| node.id));
        let grad = grads.consume::<B>(&ops.node);
        ops.state.backward::<B>(parents, grad, grads, checkpointer);
    }
}

impl<B: Backend + FusedOps> Backward<B, 3> for Linear {
    type State = Kept;

    fn backward(self, ops: Ops<Kept, 3>, grads: &mut Gradients, checkpointer: &mut Checkpointer) {
        let [x, weight, bias] = ops.parents.map(|node| node.map(|node| node.id));
        let grad = grads.consume::<B>(&ops.node);
        if let Some(node) = bias {
            grads.register::<B>(node, B::fused_sum_rows(grad.clone()));
        }
        ops.state
            .backward::<B>([x, weight], grad, grads, checkpointer);
    }
}
