//! Dropout, computed on slices.

use pulp::{Simd, WithSimd};

use super::hash::{mix_32, mix_64};
#[cfg(feature = "autodiff")]
use crate::memory::buffer::Buffer;
use crate::parallel;
use crate::simd::level::arch;

/// Number of elements that share a hashed key, and number of elements in a piece for one thread.
pub(crate) const CHUNK: usize = 1 << 14;

/// Dropout whose mask is a function of each element's index. The default drops no element.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropout {
    /// Random bits from which the mask is computed.
    pub key: u64,
    /// Probability that an element is dropped; 0 for no dropout.
    pub probability: f64,
}

impl Dropout {
    /// Drops elements of `x` and scales the others, on the calling thread. `first` is the index of
    /// `x[0]` in its tensor.
    pub(crate) fn apply(self, x: &mut [f32], first: usize) {
        if self.probability == 0.0 {
            return;
        }
        let arch = arch();
        let until_next = (CHUNK - first % CHUNK).min(x.len());
        let (begun, whole) = x.split_at_mut(until_next);
        arch.dispatch(self.pass(begun, first));
        for (x, first) in whole
            .chunks_mut(CHUNK)
            .zip((first + until_next..).step_by(CHUNK))
        {
            arch.dispatch(self.pass(x, first));
        }
    }

    /// Returns the vector code that applies dropout to `x`. All elements of `x` must be in the same
    /// chunk of [`CHUNK`] elements of their tensor. `first` is the index of `x[0]` in this tensor.
    fn pass(self, x: &mut [f32], first: usize) -> Pass<'_> {
        let key = mix_64(self.key ^ mix_64((first / CHUNK) as u64));
        let threshold = (self.probability * 2.0f64.powi(32)).round();
        Pass {
            keys: [key as u32, (key >> 32) as u32],
            // Elements whose hash is below the threshold are dropped. A threshold of 2^32 does not
            // fit in a u32 and is reduced by 1.
            below: threshold.min(f64::from(u32::MAX)) as u32,
            scale: (1.0 / (1.0 - self.probability)) as f32,
            first: (first % CHUNK) as u32,
            x,
        }
    }
}

/// Applies dropout to a whole tensor, in place.
pub(super) fn drop_in_place(x: &mut [f32], dropout: Dropout) {
    parallel::for_each(x.chunks_mut(CHUNK).enumerate(), |(index, x)| {
        dropout.apply(x, index * CHUNK);
    });
}

/// Returns a copy of a whole tensor with dropout applied.
#[cfg(feature = "autodiff")]
pub(super) fn dropped(x: &[f32], dropout: Dropout) -> Buffer {
    let mut output = Buffer::arbitrary(x.len());
    let pieces = output.chunks_mut(CHUNK).zip(x.chunks(CHUNK));
    parallel::for_each(pieces.enumerate(), |(index, (output, x))| {
        output.copy_from_slice(x);
        dropout.apply(output, index * CHUNK);
    });
    output
}

struct Pass<'a> {
    keys: [u32; 2],
    below: u32,
    scale: f32,
    /// Index of `x[0]` in its chunk.
    first: u32,
    x: &'a mut [f32],
}

impl WithSimd for Pass<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let [low, high] = self.keys;
        for (x, index) in self.x.iter_mut().zip(self.first..) {
            *x = if mix_32(mix_32(index ^ low).wrapping_add(high)) < self.below {
                0.0
            } else {
                *x * self.scale
            };
        }
    }
}
