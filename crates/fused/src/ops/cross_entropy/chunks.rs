//! Cross-entropy of the outputs of a linear layer, computed in chunks of rows, for any backend.

use std::ops::Range;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::Slice;

/// The backend-specific operations on a chunk of rows.
pub(super) trait ChunkOps<B: Backend>: std::fmt::Debug + Send + 'static {
    /// Returns `x W + b`.
    fn linear(x: FloatTensor<B>, weight: FloatTensor<B>, bias: FloatTensor<B>) -> FloatTensor<B>;

    /// Returns the loss of each row, with and without label smoothing.
    fn losses(
        logits: FloatTensor<B>,
        target: IntTensor<B>,
        smoothing: f64,
    ) -> (FloatTensor<B>, FloatTensor<B>);

    /// Returns the gradient of the logits, from the gradient of each row's loss.
    #[cfg(feature = "autodiff")]
    fn logits_grad(
        logits: FloatTensor<B>,
        target: IntTensor<B>,
        grad: FloatTensor<B>,
        smoothing: f64,
    ) -> FloatTensor<B>;

    /// Returns `x y`.
    #[cfg(feature = "autodiff")]
    fn matmul(x: FloatTensor<B>, y: FloatTensor<B>) -> FloatTensor<B>;

    /// Returns `x y`, and the sum of all rows of `y`.
    #[cfg(feature = "autodiff")]
    fn matmul_and_sums(x: FloatTensor<B>, y: FloatTensor<B>) -> (FloatTensor<B>, FloatTensor<B>);
}

/// Splits `rows` rows into ranges of at most `at_a_time` rows. If there are no rows, returns one
/// empty range.
pub(super) fn ranges(rows: usize, at_a_time: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows.max(1))
        .step_by(at_a_time)
        .map(move |from| from..rows.min(from + at_a_time))
}

/// Returns the slice that selects a range of the first axis.
pub(super) fn slice(range: Range<usize>) -> [Slice; 1] {
    [Slice::from(range)]
}

/// Returns the losses of all rows, `[N]`, with and without label smoothing, from x, weight and bias.
/// At most `at_a_time` rows are computed at once.
pub(super) fn forward<P: ChunkOps<B>, B: Backend>(
    [x, weight, bias]: &[FloatTensor<B>; 3],
    target: &IntTensor<B>,
    smoothing: f64,
    at_a_time: usize,
) -> (FloatTensor<B>, FloatTensor<B>) {
    let losses = |range: Range<usize>| {
        let x = B::float_slice(x.clone(), &slice(range.clone()));
        let target = B::int_slice(target.clone(), &slice(range));
        P::losses(
            P::linear(x, weight.clone(), bias.clone()),
            target,
            smoothing,
        )
    };
    let (smoothed, plain) = ranges(x.shape()[0], at_a_time).map(losses).unzip();
    (B::float_cat(smoothed, 0), B::float_cat(plain, 0))
}
