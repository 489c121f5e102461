//! The squared length of a tensor.

use burn::tensor::Tensor;

/// `Σ x²`, without a copy of `x` on flex: `[1]`. Gradients do not go through it there.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let x = Tensor::<2>::from_data([[1.0, -2.0], [0.0, 2.0]], &Device::flex());
/// assert_eq!(fused::sum_of_squares(&x).into_scalar::<f32>(), 9.0);
/// ```
pub fn sum_of_squares<const D: usize>(x: &Tensor<D>) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if let Some(x) = crate::flex::float(x) {
        use crate::profile::{Kind, Timer};

        let _timer = Timer::of(Kind::GradientNorm);
        let x = x.to_contiguous();
        return tensor(sum(crate::flex::slice(&x)));
    }
    x.clone().square().sum()
}

/// Elements that are summed in f32, so that a sum does not depend on the number of threads.
#[cfg(feature = "flex")]
pub(crate) const PIECE: usize = 1 << 14;

/// A sum as a tensor of flex.
#[cfg(feature = "flex")]
pub(crate) fn tensor(sum: f64) -> Tensor<1> {
    // Not by `from_data`, which would take the device's default kind of number.
    let mut output = crate::buffers::Buffer::zeros(1);
    output[0] = sum as f32;
    crate::flex::tensor(output, [1])
}

#[cfg(feature = "flex")]
fn sum(x: &[f32]) -> f64 {
    use rayon::prelude::*;

    let pieces: Vec<f64> = match x.len() > PIECE {
        true => x.par_chunks(PIECE).map(of_piece).collect(),
        false => x.chunks(PIECE).map(of_piece).collect(),
    };
    pieces.iter().sum()
}

/// On this thread.
#[cfg(feature = "flex")]
pub(crate) fn of_piece(x: &[f32]) -> f64 {
    const LANES: usize = 64;
    pulp::Arch::new().dispatch(|| {
        let mut sums = [0.0f32; LANES];
        let (lines, rest) = x.as_chunks::<LANES>();
        for line in lines {
            for (sum, x) in sums.iter_mut().zip(line) {
                *sum += x * x;
            }
        }
        for (sum, x) in sums.iter_mut().zip(rest) {
            *sum += x * x;
        }
        sums.iter().map(|&x| f64::from(x)).sum()
    })
}
