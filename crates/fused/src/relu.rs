//! A rectifier with dropout, in one pass.

use burn::tensor::{Tensor, activation};

/// `dropout(max(x, 0))`.
///
/// # Panics
///
/// If the probability is not in `[0, 1)`.
pub fn relu<const D: usize>(x: Tensor<D>, dropout: f64) -> Tensor<D> {
    crate::dropout::check(dropout);
    #[cfg(feature = "flex")]
    if crate::flex::takes(&x) {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let dropout = crate::dropout::Dropout::draw(dropout, &x.device());
        return Tensor::from_dispatch(Dispatch::fused_relu(x.into_dispatch(), dropout));
    }
    #[cfg(feature = "autodiff")]
    if crate::explicit::takes(&x) && x.shape().num_elements() > 0 {
        use crate::explicit::ExplicitOps;
        use burn::backend::Dispatch;

        let mask = crate::dropout::draw_mask(x.dims(), dropout, &x.device());
        let y = Dispatch::explicit_relu(x.into_dispatch(), mask, dropout);
        return Tensor::from_dispatch(y);
    }
    crate::dropout(activation::relu(x), dropout)
}

#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(crate) use kernel::backward;
#[cfg(feature = "flex")]
pub(crate) use kernel::forward;

#[cfg(feature = "flex")]
mod kernel {
    use pulp::Arch;
    use rayon::prelude::*;

    use crate::dropout::{CHUNK, Dropout};

    /// In place.
    pub(crate) fn forward(x: &mut [f32], dropout: Dropout) {
        let arch = Arch::new();
        let run = |(index, x): (usize, &mut [f32])| {
            arch.dispatch(|| {
                for x in x.iter_mut() {
                    // Not `max`, which would hide NaN.
                    *x = if *x < 0.0 { 0.0 } else { *x };
                }
            });
            dropout.apply(x, index * CHUNK);
        };
        x.par_chunks_mut(CHUNK).enumerate().for_each(run);
    }

    /// The gradient of the output to that of the input: what is dropped or cut off is 0 in the
    /// output `y`, too.
    #[cfg(feature = "autodiff")]
    pub(crate) fn backward(grad: &mut [f32], y: &[f32], probability: f64) {
        let arch = Arch::new();
        let scale = (1.0 / (1.0 - probability)) as f32;
        let pieces = grad.par_chunks_mut(CHUNK).zip(y.par_chunks(CHUNK));
        pieces.for_each(|(grad, y)| {
            arch.dispatch(|| {
                for (grad, y) in grad.iter_mut().zip(y) {
                    *grad = if *y <= 0.0 { 0.0 } else { *grad * scale };
                }
            });
        });
    }
}
