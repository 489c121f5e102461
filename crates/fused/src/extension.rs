//! The operations as a Burn backend extension: on flex by the kernels of this crate, and through
//! autodiff with backward passes of their own.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Flex, backend_extension};

use crate::cross_entropy;
use crate::dropout::drop_in_place;
use crate::flex::{self, FlexTensor};
#[cfg(feature = "autodiff")]
use crate::layer_norm;
use crate::product::{Matrix, product};

/// What flex has kernels for. Tensors are f32.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait FusedOps: Backend {
    /// `x W`: `[M, K]` and `[K, N]`.
    fn fused_product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `x W + b`: `[M, K]`, `[K, N]` and `[N]`.
    fn fused_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// The loss of each row of `[N, V]`, 0 where the target is `pad_id`: `[N]`.
    fn fused_cross_entropy(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        pad_id: u32,
        smoothing: f64,
    ) -> FloatTensor<Self>;

    /// The gradient of the logits, from that of each row's loss.
    #[cfg(feature = "autodiff")]
    fn fused_cross_entropy_backward(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        grad: FloatTensor<Self>,
        pad_id: u32,
        smoothing: f64,
    ) -> FloatTensor<Self>;

    /// The rows of `[N, D]`, normalised, times gamma, plus beta.
    #[cfg(feature = "autodiff")]
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self>;

    /// The gradients of x, gamma and beta.
    #[cfg(feature = "autodiff")]
    fn fused_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Elements are dropped as a function of the key and their place.
    fn fused_dropout(x: FloatTensor<Self>, key: u64, probability: f64) -> FloatTensor<Self>;

    /// Sums over the rows of `[M, N]`: `[N]`.
    #[cfg(feature = "autodiff")]
    fn fused_sum_rows(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl FusedOps for Flex {
    fn fused_product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        linear(x, weight, None)
    }

    fn fused_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let bias = bias.to_contiguous();
        linear(x, weight, Some(flex::slice(&bias)))
    }

    fn fused_cross_entropy(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        pad_id: u32,
        smoothing: f64,
    ) -> FloatTensor<Self> {
        let settings = settings(&logits, pad_id, smoothing);
        let (logits, target) = (logits.to_contiguous(), flex::ids(target));
        let loss = cross_entropy::forward(settings, flex::slice(&logits), &target);
        flex::primitive(loss, &[target.len()])
    }

    #[cfg(feature = "autodiff")]
    fn fused_cross_entropy_backward(
        logits: FloatTensor<Self>,
        target: IntTensor<Self>,
        grad: FloatTensor<Self>,
        pad_id: u32,
        smoothing: f64,
    ) -> FloatTensor<Self> {
        let settings = settings(&logits, pad_id, smoothing);
        let (logits, target) = (logits.to_contiguous(), flex::ids(target));
        let grad = grad.to_contiguous();
        let (values, grad) = (flex::slice(&logits), flex::slice(&grad));
        let output = cross_entropy::backward(settings, values, &target, grad);
        flex::primitive(output, &[target.len(), settings.vocab_size])
    }

    #[cfg(feature = "autodiff")]
    fn fused_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let [x, gamma, beta] = [x, gamma, beta].map(|tensor| tensor.to_contiguous());
        let [rows, scale, shift] = [&x, &gamma, &beta].map(flex::slice);
        let y = layer_norm::forward(rows, scale, shift, epsilon as f32);
        flex::primitive(y, x.layout().shape())
    }

    #[cfg(feature = "autodiff")]
    fn fused_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let [x, gamma, grad] = [x, gamma, grad].map(|tensor| tensor.to_contiguous());
        let [rows, scale, dy] = [&x, &gamma, &grad].map(flex::slice);
        let found = layer_norm::backward(rows, scale, dy, epsilon as f32);
        let width = [scale.len()];
        (
            flex::primitive(found.x, x.layout().shape()),
            flex::primitive(found.gamma, &width),
            flex::primitive(found.beta, &width),
        )
    }

    fn fused_dropout(x: FloatTensor<Self>, key: u64, probability: f64) -> FloatTensor<Self> {
        let mut x = x;
        flex::with_mut(&mut x, |x| drop_in_place(x, key, probability));
        x
    }

    #[cfg(feature = "autodiff")]
    fn fused_sum_rows(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let x = x.to_contiguous();
        let columns = x.layout().shape()[1];
        let mut sums = vec![0.0f32; columns];
        for row in flex::slice(&x).chunks(columns.max(1)) {
            for (sum, x) in sums.iter_mut().zip(row) {
                *sum += x;
            }
        }
        flex::primitive(sums, &[columns])
    }
}

fn settings(logits: &FlexTensor, pad_id: u32, smoothing: f64) -> cross_entropy::Settings {
    cross_entropy::Settings {
        vocab_size: logits.layout().shape()[1],
        pad_id,
        smoothing,
    }
}

fn linear(x: FlexTensor, weight: FlexTensor, bias: Option<&[f32]>) -> FlexTensor {
    let (x, weight) = (flex::strided(x), flex::strided(weight));
    let (x, weight) = (matrix(&x), matrix(&weight));
    flex::primitive(product(x, weight, bias), &[x.rows, weight.columns])
}

fn matrix(x: &FlexTensor) -> Matrix<'_> {
    let layout = x.layout();
    let [rows, columns] = layout.shape()[..] else {
        panic!("a matrix has two dimensions, not {:?}", layout.shape());
    };
    let stride = |dim: usize| usize::try_from(layout.strides()[dim]).expect("it is not negative");
    Matrix {
        data: &x.storage()[layout.start_offset()..],
        rows,
        columns,
        row_stride: stride(0),
        column_stride: stride(1),
    }
}
