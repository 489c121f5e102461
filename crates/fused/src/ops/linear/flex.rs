//! The linear layer for tensors on the backend flex.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;

use crate::backend::flex::{self, FlexTensor};
use crate::memory::buffer::Buffer;
use crate::profile::Timer;
use crate::simd::matmul::matrix::Matrix;

/// The operations that Burn dispatches to the backend flex, with or without autodiff.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub(crate) trait LinearOps: Backend {
    /// Returns `x W`, `[M, N]`, for x `[M, K]` and W `[K, N]`.
    fn fused_matmul(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Returns `x W + b`, `[M, N]`, for x `[M, K]`, W `[K, N]` and b `[N]`.
    fn fused_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}

/// The fast path of [`linear`](super::linear).
pub(super) fn linear(x: Tensor<2>, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Tensor<2> {
    let (x, weight) = (x.into_dispatch(), weight.into_dispatch());
    Tensor::from_dispatch(match bias {
        Some(bias) => Dispatch::fused_linear(x, weight, bias.into_dispatch()),
        None => Dispatch::fused_matmul(x, weight),
    })
}

impl LinearOps for Flex {
    fn fused_matmul(x: FlexTensor, weight: FlexTensor) -> FlexTensor {
        let _timer = Timer::of("linear");
        matmul(x, weight, None)
    }

    fn fused_linear(x: FlexTensor, weight: FlexTensor, bias: FlexTensor) -> FlexTensor {
        let _timer = Timer::of("linear");
        let bias = bias.to_contiguous();
        matmul(x, weight, Some(flex::slice(&bias)))
    }
}

fn matmul(x: FlexTensor, weight: FlexTensor, bias: Option<&[f32]>) -> FlexTensor {
    let (x, weight) = (flex::strided(x), flex::strided(weight));
    let (x, weight) = (matrix(&x), matrix(&weight));
    let mut y = Buffer::arbitrary(x.rows * weight.columns);
    crate::simd::matmul::matmul(x, weight, bias, &mut y);
    flex::primitive(y, &[x.rows, weight.columns])
}

/// Returns `x W`, and the sum of all rows of W, `[N]`.
#[cfg(feature = "autodiff")]
pub(crate) fn matmul_and_sums(x: FlexTensor, weight: FlexTensor) -> (FlexTensor, FlexTensor) {
    let _timer = Timer::of("linear");
    let (x, weight) = (flex::strided(x), flex::strided(weight));
    let (x, weight) = (matrix(&x), matrix(&weight));
    let mut y = Buffer::arbitrary(x.rows * weight.columns);
    let mut sums = Buffer::arbitrary(weight.columns);
    crate::simd::matmul::matmul_and_sums(x, weight, &mut y, &mut sums);
    (
        flex::primitive(y, &[x.rows, weight.columns]),
        flex::primitive(sums, &[weight.columns]),
    )
}

/// Returns the sum of all rows of `x`, `[M, N]`, as a tensor `[N]`.
#[cfg(feature = "autodiff")]
pub(super) fn sum_rows(x: FlexTensor) -> FlexTensor {
    let _timer = Timer::of("linear");
    let x = x.to_contiguous();
    let width = x.layout().shape()[1];
    flex::primitive(super::kernel::sum_rows(flex::slice(&x), width), &[width])
}

fn matrix(x: &FlexTensor) -> Matrix<'_> {
    let layout = x.layout();
    let [rows, columns] = layout.shape()[..] else {
        panic!("a matrix has two dimensions, not {:?}", layout.shape());
    };
    let stride =
        |dim: usize| usize::try_from(layout.strides()[dim]).expect("a stride is not negative");
    Matrix {
        data: &x.storage()[layout.start_offset()..],
        rows,
        columns,
        row_stride: stride(0),
        column_stride: stride(1),
    }
}
