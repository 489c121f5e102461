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
    assert!(
        (0.0..1.0).contains(&probability),
        "a probability of dropout must be at least 0 and less than 1, not {probability}"
    );
    if probability == 0.0 || !x.device().is_autodiff() {
        return x;
    }
    #[cfg(feature = "flex")]
    if crate::flex::takes(&x) {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let key = draw_key(&x.device());
        let y = Dispatch::fused_dropout(x.into_dispatch(), key, probability);
        return Tensor::from_dispatch(y);
    }
    let keep = 1.0 - probability;
    let mask = x.random_like(Distribution::Bernoulli(keep));
    x * mask * (1.0 / keep)
}

/// 64 random bits of the device.
#[cfg(feature = "flex")]
fn draw_key(device: &burn::tensor::Device) -> u64 {
    let device = device.clone().without_autodiff();
    let random = Tensor::<1>::random([3], Distribution::Default, &device).into_data();
    let bits = |x: f32| (x * (1 << 24) as f32) as u64;
    random
        .iter::<f32>()
        .fold(0, |key: u64, x| key.rotate_left(24) ^ bits(x))
}

#[cfg(feature = "flex")]
pub(crate) use kernel::drop_in_place;

#[cfg(feature = "flex")]
mod kernel {
    use pulp::{Arch, Simd, WithSimd};
    use rayon::prelude::*;

    /// Elements that share a key; also what a thread takes at a time.
    const CHUNK: usize = 1 << 14;

    /// Drops elements of a tensor.
    pub(crate) fn drop_in_place(x: &mut [f32], key: u64, probability: f64) {
        let settings = |chunk: usize| {
            let key = mix_64(key ^ mix_64(chunk as u64));
            Drop {
                keys: [key as u32, (key >> 32) as u32],
                // Values below are dropped; 2^32 of them cannot be written.
                below: (probability * 2.0f64.powi(32))
                    .round()
                    .min(f64::from(u32::MAX)) as u32,
                scale: (1.0 / (1.0 - probability)) as f32,
            }
        };
        let arch = Arch::new();
        let run = |(index, x)| {
            arch.dispatch(Pass {
                drop: settings(index),
                x,
            });
        };
        match x.len() <= CHUNK {
            true => x.chunks_mut(CHUNK).enumerate().for_each(run),
            false => x.par_chunks_mut(CHUNK).enumerate().for_each(run),
        }
    }

    /// SplitMix64's mix.
    fn mix_64(x: u64) -> u64 {
        let mut x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    struct Drop {
        keys: [u32; 2],
        below: u32,
        scale: f32,
    }

    impl WithSimd for Pass<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Drop { keys, below, scale } = self.drop;
            for (index, x) in self.x.iter_mut().enumerate() {
                let random = mix_32((index as u32) ^ keys[0]).wrapping_add(keys[1]);
                *x = if mix_32(random) < below {
                    0.0
                } else {
                    *x * scale
                };
            }
        }
    }

    struct Pass<'a> {
        drop: Drop,
        x: &'a mut [f32],
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
