//! Cross-entropy over a vocabulary, with label smoothing and ignored targets.
//!
//! With `p = softmax(logits)`, the label smoothing `ε` and a vocabulary of `V` ids, a row's loss is
//! `-(1 - ε) log p(target) - ε / V Σ_v log p(v)`.

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(any(feature = "flex", feature = "autodiff"))]
mod chunks;
#[cfg(feature = "autodiff")]
mod chunks_autodiff;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod kernel;
#[cfg(all(feature = "_portable", feature = "autodiff"))]
mod portable;

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};

use super::linear::linear;

/// Returns the cross-entropy of each row, in nats: `-(1 - ε) log p(target) - ε / V Σ_v log p(v)`
/// with `p = softmax(logits)` and `ε = smoothing`, or 0 where the target is negative. The second
/// tensor has the cross-entropy without smoothing, `-log p(target)`, and no gradient.
///
/// # Shapes
///
/// - logits: `[N, V]`
/// - target: `[N]`, ids below `V`; a negative target is ignored
/// - outputs: `[N]`
///
/// # Panics
///
/// If the numbers of rows differ. On a CPU, also if a target is not below `V`.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
///
/// let device = Device::flex();
/// let logits = Tensor::<2>::zeros([2, 4], &device);
/// let target = Tensor::<1, Int>::from_data([3, -100], &device);
/// let (loss, _) = fused::cross_entropy(logits, target, 0.1);
/// let loss = loss.into_data();
/// let [first, ignored] = loss.iter::<f32>().collect::<Vec<_>>()[..] else { panic!() };
/// assert!((first - 4f32.ln()).abs() < 1e-6);
/// assert_eq!(ignored, 0.0);
/// ```
pub fn cross_entropy(
    logits: Tensor<2>,
    target: Tensor<1, Int>,
    smoothing: f64,
) -> (Tensor<1>, Tensor<1>) {
    let [rows, vocab_size] = logits.dims();
    assert_eq!(
        target.dims(),
        [rows],
        "logits are [{rows}, {vocab_size}], but the target is {:?}",
        target.dims()
    );
    #[cfg(feature = "flex")]
    if crate::backend::flex::takes(&logits) {
        return flex::cross_entropy(logits, target, smoothing);
    }
    #[cfg(all(feature = "_portable", feature = "autodiff"))]
    if crate::backend::portable::takes(&logits) {
        return portable::cross_entropy(logits, target, smoothing);
    }
    let target = target.reshape([rows, 1]);
    let is_ignored = target.clone().lower_elem(0);
    let log_probabilities = log_softmax(logits, 1);
    let target_loss = log_probabilities.clone().gather(1, target.clamp_min(0));
    let mut loss = target_loss.clone() * (smoothing - 1.0);
    if smoothing > 0.0 {
        loss = loss - log_probabilities.mean_dim(1) * smoothing;
    }
    let of_rows = |loss: Tensor<2>| loss.mask_fill(is_ignored.clone(), 0.0).reshape([rows]);
    (of_rows(loss), of_rows(-target_loss.detach()))
}

/// Returns [`cross_entropy`] of the outputs of a [linear layer](crate::linear()), without holding
/// all outputs at once.
///
/// Only the logits of `rows_at_a_time` rows are in memory at the same time, and the backward pass
/// computes all logits again. Without a fast path, all logits are in memory at once. Outside
/// WebAssembly, tensors with autodiff have a fast path on every backend that this crate is built
/// with. Tensors without autodiff have a fast path only on flex in f32.
///
/// # Shapes
///
/// - x: `[N, D]`
/// - weight: `[D, V]`
/// - bias: `[V]`
/// - target: `[N]`, ids below `V`; a negative target is ignored
/// - outputs: `[N]`
///
/// # Panics
///
/// If the shapes do not fit together, or `rows_at_a_time` is 0. On a CPU, also if a target is not
/// below `V`.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::<2>::ones([3, 2], &device);
/// let (weight, bias) = (Tensor::zeros([2, 4], &device), Tensor::zeros([4], &device));
/// let target = Tensor::<1, Int>::from_data([3, 2, 1], &device);
/// let (loss, _) = fused::linear_cross_entropy(x, weight, bias, target, 0.0, 2);
/// assert!(loss.into_data().iter::<f32>().all(|loss| (loss - 4f32.ln()).abs() < 1e-6));
/// ```
pub fn linear_cross_entropy(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Tensor<1>,
    target: Tensor<1, Int>,
    smoothing: f64,
    rows_at_a_time: usize,
) -> (Tensor<1>, Tensor<1>) {
    assert!(
        rows_at_a_time > 0,
        "rows_at_a_time is 0, but must be at least 1"
    );
    let [rows, d_input] = x.dims();
    let [found, d_output] = weight.dims();
    assert!(
        d_input == found && bias.dims() == [d_output] && target.dims() == [rows],
        "x is [{rows}, {d_input}], but the weight is [{found}, {d_output}], the bias {:?} and the target {:?}",
        bias.dims(),
        target.dims()
    );
    #[cfg(feature = "flex")]
    if crate::backend::flex::takes(&x) && crate::backend::flex::takes(&weight) {
        return flex::linear_cross_entropy([x, weight], bias, target, smoothing, rows_at_a_time);
    }
    #[cfg(all(feature = "_portable", feature = "autodiff"))]
    if crate::backend::portable::takes(&x) && crate::backend::portable::takes(&weight) {
        return portable::linear_cross_entropy(
            [x, weight],
            bias,
            target,
            smoothing,
            rows_at_a_time,
        );
    }
    cross_entropy(linear(x, weight, Some(bias)), target, smoothing)
}
