//! Cross-entropy over a vocabulary in one pass, with label smoothing and padding.

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};

/// The loss of each row, in nats: `-(1 - ε) log p(target) - ε / V Σ_v log p(v)` with
/// `p = softmax(logits)`; 0 where the target is padding.
///
/// # Shapes
///
/// - logits: `[N, V]`
/// - target: `[N]`, ids below `V`
/// - output: `[N]`
///
/// # Panics
///
/// If the numbers of rows differ, or a target is no id.
///
/// ```
/// use burn::tensor::{Device, Int, Tensor};
///
/// let device = Device::flex();
/// let logits = Tensor::<2>::zeros([2, 4], &device);
/// let target = Tensor::<1, Int>::from_data([3, 0], &device);
/// let loss = fused::cross_entropy(logits, target, 0, 0.1).into_data();
/// let [first, padding] = loss.iter::<f32>().collect::<Vec<_>>()[..] else { panic!() };
/// assert!((first - 4f32.ln()).abs() < 1e-6);
/// assert_eq!(padding, 0.0);
/// ```
pub fn cross_entropy(
    logits: Tensor<2>,
    target: Tensor<1, Int>,
    pad_id: u32,
    smoothing: f64,
) -> Tensor<1> {
    let [rows, vocab_size] = logits.dims();
    assert_eq!(
        target.dims(),
        [rows],
        "logits are [{rows}, {vocab_size}], but the target is {:?}",
        target.dims()
    );
    #[cfg(feature = "flex")]
    if crate::flex::takes(&logits) {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let (logits, target) = (logits.into_dispatch(), target.into_dispatch());
        let loss = Dispatch::fused_cross_entropy(logits, target, pad_id, smoothing);
        return Tensor::from_dispatch(loss);
    }
    #[cfg(feature = "autodiff")]
    if rows > 0 && crate::explicit::takes(&logits) {
        use crate::explicit::ExplicitOps;
        use burn::backend::Dispatch;

        let (logits, target) = (logits.into_dispatch(), target.into_dispatch());
        let loss = Dispatch::explicit_cross_entropy(logits, target, pad_id, smoothing);
        return Tensor::from_dispatch(loss);
    }
    let target = target.reshape([rows, 1]);
    let is_pad = target.clone().equal_elem(pad_id);
    let log_probabilities = log_softmax(logits, 1);
    let right = log_probabilities.clone().gather(1, target);
    let mut loss = right * (smoothing - 1.0);
    if smoothing > 0.0 {
        loss = loss - log_probabilities.mean_dim(1) * smoothing;
    }
    loss.mask_fill(is_pad, 0.0).reshape([rows])
}

#[cfg(feature = "flex")]
pub(crate) use kernel::{Settings, forward};

#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(crate) use gradient::backward;

#[cfg(feature = "flex")]
mod kernel {
    use rayon::prelude::*;

    use crate::buffers::Buffer;

    use crate::log_sum_exp::log_sum_exp;

    /// Elements that a thread takes at a time, about.
    const PIECE: usize = 1 << 14;

    /// Of all rows.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Settings {
        pub vocab_size: usize,
        pub pad_id: u32,
        pub smoothing: f64,
    }

    impl Settings {
        pub(super) fn rows_at_a_time(&self) -> usize {
            (PIECE / self.vocab_size.max(1)).max(1)
        }

        /// The target as an index; none for padding.
        pub(super) fn index(&self, target: i64) -> Option<usize> {
            if target == i64::from(self.pad_id) {
                return None;
            }
            let index = usize::try_from(target).ok();
            let index = index.filter(|&index| index < self.vocab_size);
            Some(index.unwrap_or_else(|| {
                panic!(
                    "target {target} is no id of a vocabulary of {}",
                    self.vocab_size
                )
            }))
        }
    }

    /// The losses of all rows.
    pub(crate) fn forward(settings: Settings, logits: &[f32], target: &[i64]) -> Buffer {
        let Settings {
            vocab_size,
            smoothing,
            ..
        } = settings;
        let loss = |(logits, &target): (&[f32], &i64)| {
            let Some(right) = settings.index(target) else {
                return 0.0;
            };
            // Also what tells that something is not a number.
            let mean = sum_of(logits) / vocab_size as f64;
            let right = f64::from(logits[right]) * (1.0 - smoothing);
            let loss = log_sum_exp(logits) - right - mean * smoothing;
            if mean.is_nan() { f32::NAN } else { loss as f32 }
        };
        let rows = logits.par_chunks(vocab_size).zip(target);
        let mut losses = Buffer::arbitrary(target.len());
        rows.with_min_len(settings.rows_at_a_time())
            .zip(losses.par_iter_mut())
            .for_each(|(row, to)| *to = loss(row));
        losses
    }

    /// In f64, in lanes that the processor adds side by side.
    fn sum_of(x: &[f32]) -> f64 {
        let mut sums = [0.0; 8];
        let (chunks, rest) = x.as_chunks::<8>();
        for chunk in chunks {
            for (sum, &x) in sums.iter_mut().zip(chunk) {
                *sum += f64::from(x);
            }
        }
        sums.iter().sum::<f64>() + rest.iter().map(|&x| f64::from(x)).sum::<f64>()
    }
}

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod gradient {
    use pulp::{Arch, Simd, WithSimd};
    use rayon::prelude::*;

    use super::Settings;
    use crate::log_sum_exp::{exponentiate, log_sum_exp};

    /// The logits to their gradient, from that of each row's loss.
    pub(crate) fn backward(settings: Settings, logits: &mut [f32], target: &[i64], grad: &[f32]) {
        let Settings {
            vocab_size,
            smoothing,
            ..
        } = settings;
        let row = |(row, logits): (usize, &mut [f32])| {
            let Some(right) = settings.index(target[row]) else {
                logits.fill(0.0);
                return;
            };
            let grad = grad[row];
            let normaliser = log_sum_exp(logits);
            let rounded = normaliser as f32;
            Arch::new().dispatch(Row {
                logits,
                normaliser: rounded,
                // Of large logits, an f32 would lose digits that count.
                rest: (f64::from(rounded) - normaliser).exp() as f32,
                grad,
                spread: (smoothing / vocab_size as f64) as f32,
            });
            logits[right] -= grad * (1.0 - smoothing) as f32;
        };
        let rows = logits.par_chunks_mut(vocab_size).enumerate();
        rows.with_min_len(settings.rows_at_a_time()).for_each(row);
    }

    struct Row<'a> {
        logits: &'a mut [f32],
        normaliser: f32,
        rest: f32,
        grad: f32,
        spread: f32,
    }

    impl WithSimd for Row<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            exponentiate(simd, self.logits, self.normaliser);
            for y in self.logits.iter_mut() {
                *y = self.grad * (*y * self.rest - self.spread);
            }
        }
    }
}
