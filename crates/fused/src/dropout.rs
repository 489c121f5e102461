//! Dropout whose mask is a function of a key and the place: nothing is stored for the backward
//! pass, and threads need no order.

use burn::tensor::{Distribution, Tensor};

/// Sets each element to zero with this probability, and multiplies the others by
/// `1 / (1 - probability)`. Does nothing on a device without autodiff, as Burn's own.
///
/// What is dropped follows from the device's random numbers ([`Device::seed`]), of which a fast
/// path draws one key.
///
/// [`Device::seed`]: burn::tensor::Device::seed
///
/// # Panics
///
/// If the probability is not in `[0, 1)`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::<1>::ones([1000], &device);
/// assert_eq!(fused::dropout(x.clone(), 0.5).sum().into_scalar::<f32>(), 1000.0);
/// # #[cfg(feature = "autodiff")] {
/// let x = Tensor::<1>::ones([1000], &device.autodiff());
/// let y = fused::dropout(x, 0.5).into_data();
/// assert!(y.iter::<f32>().all(|y| y == 0.0 || y == 2.0));
/// # }
/// ```
pub fn dropout<const D: usize>(x: Tensor<D>, probability: f64) -> Tensor<D> {
    check(probability);
    if probability == 0.0 || !x.device().is_autodiff() {
        return x;
    }
    #[cfg(feature = "flex")]
    if crate::flex::takes(&x) {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let dropout = Dropout::draw(probability, &x.device());
        let y = Dispatch::fused_dropout(x.into_dispatch(), dropout);
        return Tensor::from_dispatch(y);
    }
    let keep = 1.0 - probability;
    let mask = x.random_like(Distribution::Bernoulli(keep));
    x * (mask * (1.0 / keep))
}

pub(crate) fn check(probability: f64) {
    assert!(
        (0.0..1.0).contains(&probability),
        "a probability of dropout must be at least 0 and less than 1, not {probability}"
    );
}

/// Which elements are dropped, for an operation of `explicit`; not read if the probability is 0.
#[cfg(feature = "autodiff")]
pub(crate) fn draw_mask<const D: usize>(
    shape: [usize; D],
    probability: f64,
    device: &burn::tensor::Device,
) -> burn::backend::tensor::BoolTensor<burn::backend::Dispatch> {
    use burn::tensor::{Bool, DType};

    let device = device.clone().without_autodiff();
    if probability == 0.0 {
        // Without an upload.
        return Tensor::<D, Bool>::empty([1; D], &device).into_dispatch();
    }
    // Half precision has too few numbers for a share.
    let random = Tensor::<D>::random(shape, Distribution::Default, (&device, DType::F32));
    random.lower_elem(probability).into_dispatch()
}

/// 64 random bits of the device.
#[cfg(any(feature = "flex", feature = "autodiff"))]
pub(crate) fn draw_key(device: &burn::tensor::Device) -> u64 {
    let device = device.clone().without_autodiff();
    // Half precision would have fewer bits.
    let options = (&device, burn::tensor::DType::F32);
    let random = Tensor::<1>::random([3], Distribution::Default, options).into_data();
    let bits = |x: f32| (x * (1 << 24) as f32) as u64;
    random
        .iter::<f32>()
        .fold(0, |key: u64, x| key.rotate_left(24) ^ bits(x))
}

/// SplitMix64's mix.
#[cfg(any(feature = "flex", feature = "autodiff"))]
pub(crate) fn mix_64(x: u64) -> u64 {
    let mut x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(crate) use kernel::dropped;
#[cfg(feature = "flex")]
pub(crate) use kernel::{CHUNK, Dropout, drop_in_place};

#[cfg(feature = "flex")]
mod kernel {
    use burn::tensor::Device;
    use pulp::{Arch, Simd, WithSimd};
    use rayon::prelude::*;

    use super::mix_64;
    #[cfg(feature = "autodiff")]
    use crate::buffers::Buffer;

    /// Elements that share a key; also what a thread takes at a time.
    pub(crate) const CHUNK: usize = 1 << 14;

    /// What is dropped, as a function of the place. The default drops nothing.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Dropout {
        pub key: u64,
        pub probability: f64,
    }

    impl Dropout {
        /// With a new key; nothing, and no key drawn, without autodiff.
        pub(crate) fn draw(probability: f64, device: &Device) -> Self {
            match probability > 0.0 && device.is_autodiff() {
                true => Self {
                    key: super::draw_key(device),
                    probability,
                },
                false => Self::default(),
            }
        }

        /// Drops elements on this thread; the first one has place `first`.
        pub(crate) fn apply(self, x: &mut [f32], first: usize) {
            if self.probability == 0.0 {
                return;
            }
            let arch = Arch::new();
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

        /// Some elements of one chunk.
        fn pass(self, x: &mut [f32], first: usize) -> Pass<'_> {
            let key = mix_64(self.key ^ mix_64((first / CHUNK) as u64));
            let threshold = (self.probability * 2.0f64.powi(32)).round();
            Pass {
                keys: [key as u32, (key >> 32) as u32],
                // Values below are dropped; 2^32 of them cannot be written.
                below: threshold.min(f64::from(u32::MAX)) as u32,
                scale: (1.0 / (1.0 - self.probability)) as f32,
                first: (first % CHUNK) as u32,
                x,
            }
        }
    }

    /// Drops elements of a tensor.
    pub(crate) fn drop_in_place(x: &mut [f32], dropout: Dropout) {
        let run = |(index, x): (usize, &mut [f32])| dropout.apply(x, index * CHUNK);
        match x.len() <= CHUNK {
            true => x.chunks_mut(CHUNK).enumerate().for_each(run),
            false => x.par_chunks_mut(CHUNK).enumerate().for_each(run),
        }
    }

    /// A copy of which elements are dropped.
    #[cfg(feature = "autodiff")]
    pub(crate) fn dropped(x: &[f32], dropout: Dropout) -> Buffer {
        let mut output = Buffer::arbitrary(x.len());
        let pieces = output.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK));
        pieces.enumerate().for_each(|(index, (output, x))| {
            output.copy_from_slice(x);
            dropout.apply(output, index * CHUNK);
        });
        output
    }

    struct Pass<'a> {
        keys: [u32; 2],
        below: u32,
        scale: f32,
        /// Place in the chunk of the first element.
        first: u32,
        x: &'a mut [f32],
    }

    impl WithSimd for Pass<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let [low, high] = self.keys;
            for (x, place) in self.x.iter_mut().zip(self.first..) {
                *x = if mix_32(mix_32(place ^ low).wrapping_add(high)) < self.below {
                    0.0
                } else {
                    *x * self.scale
                };
            }
        }
    }

    /// A bijection that changes about half of the bits for each bit of `x`, with the constants of
    /// Wellons' search for hash functions.
    #[inline(always)]
    fn mix_32(mut x: u32) -> u32 {
        x = (x ^ (x >> 16)).wrapping_mul(0x21f0_aaad);
        x = (x ^ (x >> 15)).wrapping_mul(0xd35a_2d97);
        x ^ (x >> 15)
    }
}
