//! Backward passes, over any backend that has the operations.

mod backward;

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::ops::{Backward, OpsKind};
use burn::backend::tensor::{BoolTensor, FloatTensor, IntTensor};
use burn::backend::{Autodiff, Backend};

use self::backward::{
    Activate, CrossAttention, CrossEntropy, Dropping, Kept, KeptAttention, KeptSum, LayerNorm,
    Linear, Relu, Residual, ResidualAndNorm, SelfAttention,
};
use crate::activation::Activation;
use crate::dropout::Dropout;
use crate::extension::{Four, FusedOps, Kernels};
use crate::layer_norm::Store;
use crate::linear_cross_entropy;
use crate::nodes::Pair;

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

    fn fused_product_and_sums(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("{ONCE}")
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

    fn fused_linear_cross_entropy(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        target: IntTensor<Self>,
        pad_id: u32,
        smoothing: f64,
        rows_at_a_time: usize,
    ) -> FloatTensor<Self> {
        linear_cross_entropy::forward_tracked::<Kernels, B, C>(
            [x, weight, bias],
            target,
            (pad_id, smoothing),
            rows_at_a_time,
        )
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

    fn fused_residual_and_norm(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        dropout: Dropout,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        if !x.is_tracked() && !y.is_tracked() {
            // The sum has no gradient, whatever the norm has.
            let sum = Self::fused_residual(x, y, dropout);
            let norm = Self::fused_layer_norm(sum.clone(), gamma, beta, epsilon);
            return (sum, norm);
        }
        let parents = [&x, &y, &gamma, &beta].map(|tensor| tensor.node());
        let gamma_node = gamma.clone();
        let [x, y, gamma, beta] = [x, y, gamma, beta].map(|tensor| tensor.into_primitive());
        let (sum, norm) = B::fused_residual_and_norm(x, y, gamma, beta, dropout, epsilon);
        let pair = Pair::default();
        let prepared = ResidualAndNorm.prepare::<C>(parents);
        let both = match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let kept = KeptSum {
                    sum: sum.clone(),
                    gamma: prep.checkpoint(&gamma_node),
                    dropout,
                    epsilon,
                };
                prep.finish((kept, pair.clone()), sum.clone())
            }
            OpsKind::UnTracked(prep) => prep.finish(sum.clone()),
        };
        pair.results::<C>(&both, [sum, norm]).into()
    }

    fn fused_residual_and_norm_backward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: Store,
        _: Dropout,
        _: f64,
    ) -> Four<Self> {
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

    fn fused_activate(
        x: FloatTensor<Self>,
        activation: Activation,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let prepared = Activate.prepare::<C>([x.node()]);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let kept = (prep.checkpoint(&x), activation, dropout);
                prep.finish(
                    kept,
                    B::fused_activate(x.into_primitive(), activation, dropout),
                )
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(B::fused_activate(x.into_primitive(), activation, dropout))
            }
        }
    }

    fn fused_activate_backward(
        _: FloatTensor<Self>,
        _: Activation,
        _: Dropout,
        _: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        unreachable!("{ONCE}")
    }
}

const ONCE: &str = "backward passes are not differentiated";
