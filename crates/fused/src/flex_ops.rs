//! The operations on flex, by the kernels of this crate.

use burn::backend::Flex;
use burn::backend::tensor::{BoolTensor, FloatTensor, IntTensor};

use crate::activation::{self, Activation};
#[cfg(feature = "autodiff")]
use crate::attention::backward::Backward;
use crate::attention::inputs::Inputs;
#[cfg(feature = "autodiff")]
use crate::buffers::Buffer;
use crate::cross_entropy;
#[cfg(feature = "autodiff")]
use crate::dropout::dropped;
use crate::dropout::{Dropout, drop_in_place};
#[cfg(feature = "autodiff")]
use crate::extension::Four;
use crate::extension::{FusedOps, Kernels};
use crate::flex::{self, FlexTensor};
#[cfg(feature = "autodiff")]
use crate::layer_norm::{Norm, Store};
use crate::linear::flex as linear;
use crate::linear_cross_entropy;
use crate::profile::{Kind, Timer};
use crate::relu;
use crate::residual::{add_to_dropped, flex as residual};

impl FusedOps for Flex {
    fn fused_product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::Linear);
        linear::product(x, weight, None)
    }

    #[cfg(feature = "autodiff")]
    fn fused_product_and_sums(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let _timer = Timer::of(Kind::Linear);
        linear::product_and_sums(x, weight)
    }

    fn fused_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::Linear);
        let bias = bias.to_contiguous();
        linear::product(x, weight, Some(flex::slice(&bias)))
    }

    fn fused_self_attention(
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::Attention);
        Inputs::packed(packed, mask, dropout).forward().0
    }

    fn fused_cross_attention(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::Attention);
        Inputs::apart(query, packed, mask, dropout).forward().0
    }

    #[cfg(feature = "autodiff")]
    fn fused_self_attention_forward(
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let _timer = Timer::of(Kind::Attention);
        Inputs::packed(packed, mask, dropout).forward()
    }

    #[cfg(feature = "autodiff")]
    fn fused_cross_attention_forward(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let _timer = Timer::of(Kind::Attention);
        Inputs::apart(query, packed, mask, dropout).forward()
    }

    #[cfg(feature = "autodiff")]
    fn fused_self_attention_backward(
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
        output: FloatTensor<Self>,
        log_sums: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::Attention);
        let shape = packed.layout().shape().clone();
        let inputs = Inputs::packed(packed, mask, dropout);
        let kept = [output, log_sums, grad].map(|tensor| tensor.to_contiguous());
        let [output, log_sums, grad] = kept.each_ref().map(flex::slice);
        let of = Backward {
            output,
            log_sums,
            grad,
        };
        let grad = inputs.attention().backward_packed(shape[0], of);
        flex::primitive(grad, &shape)
    }

    #[cfg(feature = "autodiff")]
    fn fused_cross_attention_backward(
        query: FloatTensor<Self>,
        packed: FloatTensor<Self>,
        mask: BoolTensor<Self>,
        dropout: Dropout,
        output: FloatTensor<Self>,
        log_sums: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let _timer = Timer::of(Kind::Attention);
        let shapes = [&query, &packed].map(|tensor| tensor.layout().shape().clone());
        let inputs = Inputs::apart(query, packed, mask, dropout);
        let kept = [output, log_sums, grad].map(|tensor| tensor.to_contiguous());
        let [output, log_sums, grad] = kept.each_ref().map(flex::slice);
        let of = Backward {
            output,
            log_sums,
            grad,
        };
        let (query, packed) = inputs.attention().backward(shapes[0][0], of);
        let [left, right] = shapes;
        (
            flex::primitive(query, &left),
            flex::primitive(packed, &right),
        )
    }

    fn fused_cross_entropy(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        pad_id: u32,
        smoothing: f64,
    ) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::CrossEntropy);
        let settings = settings(&logits, pad_id, smoothing);
        let (logits, target) = (logits.to_contiguous(), flex::ids(target));
        let loss = cross_entropy::forward(settings, flex::slice(&logits), &target);
        flex::primitive(loss, &[target.len()])
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
        let (inputs, of) = ([x, weight, bias], (pad_id, smoothing));
        linear_cross_entropy::forward::<Kernels, Self>(&inputs, &target, of, rows_at_a_time)
    }

    #[cfg(feature = "autodiff")]
    fn fused_cross_entropy_backward(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        grad: FloatTensor<Self>,
        pad_id: u32,
        smoothing: f64,
    ) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::CrossEntropy);
        let settings = settings(&logits, pad_id, smoothing);
        let (mut logits, grad) = (logits, grad.to_contiguous());
        let target = flex::ids(target);
        flex::with_mut(&mut logits, |logits| {
            cross_entropy::backward(settings, logits, &target, flex::slice(&grad));
        });
        logits
    }

    #[cfg(feature = "autodiff")]
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::ResidualNorm);
        let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.to_contiguous());
        let y = Norm::of(&gamma, &beta, epsilon).forward(flex::slice(&x));
        flex::primitive(y, x.layout().shape())
    }

    #[cfg(feature = "autodiff")]
    fn fused_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let _timer = Timer::of(Kind::ResidualNorm);
        let [x, gamma, grad] = [x, gamma, grad].map(|tensor| tensor.to_contiguous());
        let norm = Norm::of(&gamma, &gamma, epsilon);
        let mut dx = Buffer::arbitrary(flex::slice(&x).len());
        let found = norm.backward(flex::slice(&x), flex::slice(&grad), &mut dx);
        let [gamma, beta] = found.map(flex::vector);
        (flex::primitive(dx, x.layout().shape()), gamma, beta)
    }

    fn fused_dropout(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::Dropout);
        let mut x = x;
        flex::with_mut(&mut x, |x| drop_in_place(x, dropout));
        x
    }

    fn fused_residual(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::ResidualNorm);
        let (x, mut y) = (x.to_contiguous(), y);
        flex::with_mut(&mut y, |y| add_to_dropped(y, flex::slice(&x), dropout));
        y
    }

    fn fused_residual_and_norm(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        dropout: Dropout,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let _timer = Timer::of(Kind::ResidualNorm);
        residual::forward([x, y, gamma, beta], dropout, epsilon)
    }

    #[cfg(feature = "autodiff")]
    fn fused_residual_and_norm_backward(
        sum: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        of_sum: FloatTensor<Self>,
        of_norm: FloatTensor<Self>,
        store: Store,
        dropout: Dropout,
        epsilon: f64,
    ) -> Four<Self> {
        let _timer = Timer::of(Kind::ResidualNorm);
        residual::backward([sum, gamma, of_sum, of_norm], store, dropout, epsilon)
    }

    #[cfg(feature = "autodiff")]
    fn fused_dropped(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self> {
        if dropout.probability == 0.0 {
            return x;
        }
        let _timer = Timer::of(Kind::ResidualNorm);
        let x = x.to_contiguous();
        flex::primitive(dropped(flex::slice(&x), dropout), x.layout().shape())
    }

    fn fused_relu(x: FloatTensor<Self>, dropout: Dropout) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::Activation);
        let mut x = x;
        flex::with_mut(&mut x, |x| relu::forward(x, dropout));
        x
    }

    #[cfg(feature = "autodiff")]
    fn fused_relu_backward(
        y: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        probability: f64,
    ) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::Activation);
        let (y, mut grad) = (y.to_contiguous(), grad);
        flex::with_mut(&mut grad, |grad| {
            relu::backward(grad, flex::slice(&y), probability);
        });
        grad
    }

    fn fused_activate(
        x: FloatTensor<Self>,
        activation: Activation,
        dropout: Dropout,
    ) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::Activation);
        let x = x.to_contiguous();
        let [rows, width] = [0, 1].map(|axis| x.layout().shape()[axis]);
        let columns = if activation.is_gated() {
            width / 2
        } else {
            width
        };
        let y = activation::forward(flex::slice(&x), width, activation, dropout);
        flex::primitive(y, &[rows, columns])
    }

    #[cfg(feature = "autodiff")]
    fn fused_activate_backward(
        x: FloatTensor<Self>,
        activation: Activation,
        dropout: Dropout,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::Activation);
        let (x, mut grad) = (x.to_contiguous(), grad);
        let width = x.layout().shape()[1];
        let found = flex::with_mut(&mut grad, |grad| {
            activation::backward(flex::slice(&x), width, activation, dropout, grad)
        });
        flex::primitive(found, x.layout().shape())
    }

    #[cfg(feature = "autodiff")]
    fn fused_sum_rows(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let _timer = Timer::of(Kind::Linear);
        linear::sum_rows(x)
    }
}

fn settings(logits: &FlexTensor, pad_id: u32, smoothing: f64) -> cross_entropy::Settings {
    cross_entropy::Settings {
        vocab_size: logits.layout().shape()[1],
        pad_id,
        smoothing,
    }
}
