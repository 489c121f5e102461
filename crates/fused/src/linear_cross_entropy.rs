//! Cross-entropy of a linear layer's outputs, which are never all there at once.

use burn::tensor::{Int, Tensor};

/// [`cross_entropy`](crate::cross_entropy) of [`linear`](crate::linear), so many rows at a time.
///
/// On flex the logits of `rows_at_a_time` rows are there at once, and their gradient in their place;
/// the backward pass computes them again. Elsewhere it is the two operations on all rows.
///
/// # Shapes
///
/// - x: `[N, D]`
/// - weight: `[D, V]`
/// - bias: `[V]`
/// - target: `[N]`, ids below `V`
/// - output: `[N]`
///
/// # Panics
///
/// If the shapes do not fit together, a target is no id, or `rows_at_a_time` is 0.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::<2>::ones([3, 2], &device);
/// let (weight, bias) = (Tensor::zeros([2, 4], &device), Tensor::zeros([4], &device));
/// let target = Tensor::<1, Int>::from_data([3, 2, 1], &device);
/// let loss = fused::linear_cross_entropy(x, weight, bias, target, 0, 0.0, 2).into_data();
/// assert!(loss.iter::<f32>().all(|loss| (loss - 4f32.ln()).abs() < 1e-6));
/// ```
pub fn linear_cross_entropy(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    target: Tensor<1, Int>,
    pad_id: u32,
    smoothing: f64,
    rows_at_a_time: usize,
) -> Tensor<1> {
    assert!(
        rows_at_a_time > 0,
        "rows_at_a_time is 0, but must be at least 1"
    );
    #[cfg(feature = "flex")]
    if crate::flex::takes(&x) && crate::flex::takes(&weight) {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let [rows, d_input] = x.dims();
        let [found, d_output] = weight.dims();
        assert!(
            d_input == found && bias.dims() == [d_output] && target.dims() == [rows],
            "x is [{rows}, {d_input}], but the weight is [{found}, {d_output}], the bias {:?} and the target {:?}",
            bias.dims(),
            target.dims()
        );
        return Tensor::from_dispatch(Dispatch::fused_linear_cross_entropy(
            x.into_dispatch(),
            weight.into_dispatch(),
            bias.into_dispatch(),
            target.into_dispatch(),
            pad_id,
            smoothing,
            rows_at_a_time,
        ));
    }
    crate::cross_entropy(
        crate::linear(x, weight, Some(bias)),
        target,
        pad_id,
        smoothing,
    )
}

#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(crate) use chunks::backward;
#[cfg(feature = "flex")]
pub(crate) use chunks::forward;

#[cfg(feature = "flex")]
mod chunks {
    use std::ops::Range;

    use burn::backend::TensorMetadata;
    use burn::backend::tensor::{FloatTensor, IntTensor};
    use burn::tensor::Slice;

    use crate::extension::FusedOps;

    /// At least one, which is empty where there is no row.
    fn ranges(rows: usize, at_a_time: usize) -> impl Iterator<Item = Range<usize>> {
        (0..rows.max(1))
            .step_by(at_a_time)
            .map(move |from| from..rows.min(from + at_a_time))
    }

    fn slice(range: Range<usize>) -> [Slice; 1] {
        [Slice::from(range)]
    }

    /// The losses of all rows.
    pub(crate) fn forward<B: FusedOps>(
        x: &FloatTensor<B>,
        weight: &FloatTensor<B>,
        bias: &FloatTensor<B>,
        target: &IntTensor<B>,
        (pad_id, smoothing): (u32, f64),
        at_a_time: usize,
    ) -> FloatTensor<B> {
        let rows = x.shape()[0];
        let loss = |range: Range<usize>| {
            let x = B::float_slice(x.clone(), &slice(range.clone()));
            let target = B::int_slice(target.clone(), &slice(range));
            let logits = B::fused_linear(x, weight.clone(), bias.clone());
            B::fused_cross_entropy(logits, target, pad_id, smoothing)
        };
        let losses: Vec<_> = ranges(rows, at_a_time).map(loss).collect();
        B::float_cat(losses, 0)
    }

    /// Those of x, the weight and the bias.
    #[cfg(feature = "autodiff")]
    pub(crate) struct OfInputs<B: FusedOps> {
        pub x: FloatTensor<B>,
        pub weight: FloatTensor<B>,
        pub bias: FloatTensor<B>,
    }

    /// From the gradient of each row's loss.
    #[cfg(feature = "autodiff")]
    pub(crate) fn backward<B: FusedOps>(
        x: &FloatTensor<B>,
        weight: &FloatTensor<B>,
        bias: &FloatTensor<B>,
        target: &IntTensor<B>,
        grad: &FloatTensor<B>,
        (pad_id, smoothing): (u32, f64),
        at_a_time: usize,
    ) -> OfInputs<B> {
        let rows = x.shape()[0];
        let transposed = |x: FloatTensor<B>| B::float_swap_dims(x, 0, 1);
        let mut of_x = Vec::new();
        let mut sums: Option<(FloatTensor<B>, FloatTensor<B>)> = None;
        for range in ranges(rows, at_a_time) {
            let x = B::float_slice(x.clone(), &slice(range.clone()));
            let target = B::int_slice(target.clone(), &slice(range.clone()));
            let grad = B::float_slice(grad.clone(), &slice(range));
            let logits = B::fused_linear(x.clone(), weight.clone(), bias.clone());
            let logits = B::fused_cross_entropy_backward(logits, target, grad, pad_id, smoothing);
            let of_bias = B::fused_sum_rows(logits.clone());
            let of_weight = B::fused_product(transposed(x), logits.clone());
            of_x.push(B::fused_product(logits, transposed(weight.clone())));
            sums = Some(match sums {
                None => (of_weight, of_bias),
                Some((weight, bias)) => {
                    (B::float_add(weight, of_weight), B::float_add(bias, of_bias))
                }
            });
        }
        let (weight, bias) = sums.expect("there is a range");
        OfInputs {
            x: B::float_cat(of_x, 0),
            weight,
            bias,
        }
    }
}
