//! Cross-entropy, computed on slices.

#[cfg(feature = "autodiff")]
use pulp::{Simd, WithSimd};

use crate::memory::buffer::Buffer;
use crate::parallel;
#[cfg(feature = "autodiff")]
use crate::simd::exp::exponentiate;
use crate::simd::exp::log_sum_exp;
#[cfg(feature = "autodiff")]
use crate::simd::level::arch;

/// Approximate number of elements in a piece for one thread.
const PIECE: usize = 1 << 14;

/// Vocabulary size and label smoothing, which all rows share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub vocab_size: usize,
    pub smoothing: f64,
}

impl Settings {
    fn rows_at_a_time(&self) -> usize {
        (PIECE / self.vocab_size.max(1)).max(1)
    }

    /// Returns the target as an index, or `None` if it is ignored.
    fn index(&self, target: i64) -> Option<usize> {
        let index = usize::try_from(target).ok()?;
        assert!(
            index < self.vocab_size,
            "target {target} is not an id of a vocabulary of {}",
            self.vocab_size
        );
        Some(index)
    }
}

/// Returns the loss of each row, with and without label smoothing.
pub(super) fn forward(settings: Settings, logits: &[f32], target: &[i64]) -> [Buffer; 2] {
    let Settings {
        vocab_size,
        smoothing,
    } = settings;
    let losses = |(logits, &target): (&[f32], &i64)| {
        let Some(target) = settings.index(target) else {
            return [0.0; 2];
        };
        // `log_sum_exp` skips NaN. The mean is NaN if any logit is NaN, and the losses are then set
        // to NaN.
        let mean = sum_of(logits) / vocab_size as f64;
        let target_logit = f64::from(logits[target]);
        // The mean is minus infinity if any logit is. Without smoothing, the mean is therefore not
        // used, because minus infinity times 0 is NaN.
        let smoothed = if smoothing > 0.0 {
            mean * smoothing
        } else {
            0.0
        };
        let lse = log_sum_exp(logits);
        let losses = [
            lse - target_logit * (1.0 - smoothing) - smoothed,
            lse - target_logit,
        ];
        losses.map(|loss| if mean.is_nan() { f32::NAN } else { loss as f32 })
    };
    let [mut smoothed, mut plain] = [(); 2].map(|()| Buffer::arbitrary(target.len()));
    let rows = settings.rows_at_a_time();
    let inputs = logits.chunks(rows * vocab_size).zip(target.chunks(rows));
    let outputs = smoothed.chunks_mut(rows).zip(plain.chunks_mut(rows));
    parallel::for_each(
        inputs.zip(outputs),
        |((logits, target), (smoothed, plain))| {
            let rows = logits.chunks(vocab_size).zip(target);
            for (row, (smoothed, plain)) in rows.zip(smoothed.iter_mut().zip(plain)) {
                [*smoothed, *plain] = losses(row);
            }
        },
    );
    [smoothed, plain]
}

/// Returns the sum of `x` in f64. The loop keeps eight partial sums, which the processor can update
/// in parallel.
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

/// Replaces `logits` by their gradient. `grad` holds the gradient of each row's loss.
#[cfg(feature = "autodiff")]
pub(super) fn backward(settings: Settings, logits: &mut [f32], target: &[i64], grad: &[f32]) {
    let Settings {
        vocab_size,
        smoothing,
    } = settings;
    let row = |(row, logits): (usize, &mut [f32])| {
        let Some(target) = settings.index(target[row]) else {
            logits.fill(0.0);
            return;
        };
        let grad = grad[row];
        let lse = log_sum_exp(logits);
        let rounded = lse as f32;
        arch().dispatch(Row {
            logits,
            lse: rounded,
            // The log-sum-exp of large logits loses digits when it is rounded to f32. This factor
            // corrects the error.
            rest: (f64::from(rounded) - lse).exp() as f32,
            grad,
            spread: (smoothing / vocab_size as f64) as f32,
        });
        logits[target] -= grad * (1.0 - smoothing) as f32;
    };
    let rows = settings.rows_at_a_time();
    let pieces = logits.chunks_mut(rows * vocab_size).enumerate();
    parallel::for_each(pieces, |(piece, logits)| {
        let all = (piece * rows..).zip(logits.chunks_mut(vocab_size));
        all.for_each(row);
    });
}

#[cfg(feature = "autodiff")]
struct Row<'a> {
    logits: &'a mut [f32],
    /// The log-sum-exp of the logits, rounded to f32.
    lse: f32,
    /// Factor that corrects the softmax for the rounding of `lse`.
    rest: f32,
    grad: f32,
    /// Probability that label smoothing gives to each id, `ε / V`.
    spread: f32,
}

#[cfg(feature = "autodiff")]
impl WithSimd for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        exponentiate(simd, self.logits, self.lse);
        for y in self.logits.iter_mut() {
            *y = self.grad * (*y * self.rest - self.spread);
        }
    }
}
