//! Residual connections on tensors of flex.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;

use super::kernel::{add_to_dropped, normalize_sum};
use crate::backend::flex::{self, FlexTensor};
use crate::ops::dropout::flex::draw;
use crate::ops::dropout::kernel::Dropout;
use crate::ops::layer_norm::kernel::Norm;
use crate::ops::layer_norm::statistics::Statistics;
use crate::profile::Timer;

/// The operations that Burn dispatches to the backend flex, with or without autodiff.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait ResidualOps: Backend {
    /// Returns `x + dropout(y)`, `[N, D]`.
    fn fused_residual(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        dropout: Dropout,
    ) -> FloatTensor<Self>;

    /// Returns the sum `x + dropout(y)` and its layer norm, each `[N, D]`.
    fn fused_residual_and_norm(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        dropout: Dropout,
        statistics: Statistics,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// The fast path of a residual connection.
pub(super) fn residual(x: Tensor<2>, y: Tensor<2>, dropout: f64) -> Tensor<2> {
    let dropout = draw(dropout, &x.device());
    let (x, y) = (x.into_dispatch(), y.into_dispatch());
    Tensor::from_dispatch(Dispatch::fused_residual(x, y, dropout))
}

/// The fast path of a residual connection with layer norm.
pub(super) fn residual_and_norm(
    [x, y]: [Tensor<2>; 2],
    [gamma, beta]: [Tensor<1>; 2],
    dropout: f64,
    statistics: Statistics,
) -> (Tensor<2>, Tensor<2>) {
    let dropout = draw(dropout, &x.device());
    let (sum, norm) = Dispatch::fused_residual_and_norm(
        x.into_dispatch(),
        y.into_dispatch(),
        gamma.into_dispatch(),
        beta.into_dispatch(),
        dropout,
        statistics,
    );
    (Tensor::from_dispatch(sum), Tensor::from_dispatch(norm))
}

impl ResidualOps for Flex {
    fn fused_residual(x: FlexTensor, mut y: FlexTensor, dropout: Dropout) -> FlexTensor {
        let _timer = Timer::of("residual_norm");
        let x = x.to_contiguous();
        flex::with_mut(&mut y, |y| add_to_dropped(y, flex::slice(&x), dropout));
        y
    }

    fn fused_residual_and_norm(
        x: FlexTensor,
        mut y: FlexTensor,
        gamma: FlexTensor,
        beta: FlexTensor,
        dropout: Dropout,
        statistics: Statistics,
    ) -> (FlexTensor, FlexTensor) {
        let _timer = Timer::of("residual_norm");
        let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.to_contiguous());
        let norm = Norm::new(flex::slice(&gamma), flex::slice(&beta), statistics);
        let output = flex::with_mut(&mut y, |y| normalize_sum(y, flex::slice(&x), dropout, norm));
        (y, flex::primitive(output, x.layout().shape()))
    }
}

/// Returns the gradients of x, y, gamma and beta. `norm_grad` is the gradient of the layer norm's
/// output, and `sum_grad` the gradient of the sum, if the loss depends on the sum itself.
#[cfg(feature = "autodiff")]
pub(super) fn backward(
    sum: FlexTensor,
    gamma: FlexTensor,
    sum_grad: Option<FlexTensor>,
    mut norm_grad: FlexTensor,
    dropout: Dropout,
    statistics: Statistics,
) -> [FlexTensor; 4] {
    use crate::memory::buffer::Buffer;
    use crate::ops::layer_norm::kernel::Store;

    let _timer = Timer::of("residual_norm");
    let [sum, gamma] = [sum, gamma].map(|tensor| tensor.to_contiguous());
    let norm = Norm::new(flex::slice(&gamma), &[], statistics);
    let shape = sum.layout().shape();
    let (mut dx, store) = match sum_grad {
        Some(sum_grad) => (sum_grad, Store::Add),
        None => {
            let dx = Buffer::arbitrary(shape.num_elements());
            (flex::primitive(dx, shape), Store::Set)
        }
    };
    let parameters = flex::with_mut(&mut norm_grad, |grad| {
        flex::with_mut(&mut dx, |dx| {
            super::kernel::backward(norm, flex::slice(&sum), grad, dx, store, dropout)
        })
    });
    let dy = if dropout.probability > 0.0 {
        norm_grad
    } else {
        dx.clone()
    };
    let [gamma, beta] = parameters.map(flex::vector);
    [dx, dy, gamma, beta]
}
