//! Random test cases, which are the same at every instruction-set level.

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::tensor::{Device, Tensor, TensorData};

/// Sizes at or next to multiples of the sizes in which kernels split their work, such as those of
/// vectors and tiles.
const AWKWARD: [usize; 17] = [
    1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 47, 49, 63, 65, 127, 129,
];

/// A generator of random numbers, SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns a size from 1 to `most`; in at least half of the calls, it is one of [`AWKWARD`].
    pub fn size(&mut self, most: usize) -> usize {
        if self.below(2) == 0 {
            return 1 + self.below(most);
        }
        let count = AWKWARD.iter().filter(|&&size| size <= most).count();
        AWKWARD[self.below(count)]
    }

    /// Returns `true` or `false` with equal probability.
    pub fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Returns `n` numbers from `-scale` to `scale`, which are exact in f32.
    pub fn numbers(&mut self, n: usize, scale: f64) -> Vec<f64> {
        let number = |bits: u64| ((bits >> 40) as f64 / (1 << 23) as f64 - 1.0) * scale;
        (0..n)
            .map(|_| f64::from(number(self.next()) as f32))
            .collect()
    }
}

/// Returns a tensor of `numbers`, converted to f32.
pub fn tensor<const D: usize>(numbers: &[f64], shape: [usize; D], device: &Device) -> Tensor<D> {
    let numbers: Vec<f32> = numbers.iter().map(|&x| x as f32).collect();
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

/// Returns a leaf of the autodiff graph on flex, with `numbers` converted to f32.
pub fn leaf<const D: usize>(numbers: &[f64], shape: [usize; D]) -> Tensor<D> {
    tensor(numbers, shape, &Device::flex().autodiff()).require_grad()
}

/// Locks the device's random generator, which all tests share, until the returned guard is dropped.
pub fn lock() -> MutexGuard<'static, ()> {
    static RANDOM: Mutex<()> = Mutex::new(());
    RANDOM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the dropout mask of a seed: for each element, 0 or `1 / (1 - probability)`.
pub fn dropout_mask<const D: usize>(seed: u64, shape: [usize; D], probability: f64) -> Vec<f64> {
    let device = Device::flex().autodiff();
    device.seed(seed);
    let mask = fused::dropout(Tensor::<D>::ones(shape, &device), probability);
    mask.into_data().iter().collect()
}
