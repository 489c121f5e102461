//! Layer normalisation in one pass each way.

use burn::tensor::{Tensor, module};

/// `(x - mean) / sqrt(variance + epsilon) * gamma + beta` over the last axis, with the variance
/// divided by `D`.
///
/// # Shapes
///
/// - x: `[N, D]`
/// - gamma, beta: `[D]`
/// - output: `[N, D]`
///
/// # Panics
///
/// If the sizes do not fit together.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::<2>::from_data([[1.0, 3.0]], &device);
/// let (gamma, beta) = (Tensor::ones([2], &device), Tensor::zeros([2], &device));
/// let y = fused::layer_norm(x, gamma, beta, 0.0).into_data();
/// assert_eq!(y.iter::<f32>().collect::<Vec<_>>(), [-1.0, 1.0]);
/// ```
pub fn layer_norm(x: Tensor<2>, gamma: Tensor<1>, beta: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let [rows, width] = x.dims();
    assert!(
        gamma.dims() == [width] && beta.dims() == [width],
        "x is [{rows}, {width}], but gamma is {:?} and beta {:?}",
        gamma.dims(),
        beta.dims()
    );
    // Burn's own is as good where there is no gradient.
    #[cfg(all(feature = "flex", feature = "autodiff"))]
    if x.device().is_autodiff() && crate::flex::takes(&x) && crate::flex::takes(&gamma) {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        return Tensor::from_dispatch(Dispatch::fused_layer_norm(
            x.into_dispatch(),
            gamma.into_dispatch(),
            beta.into_dispatch(),
            epsilon,
        ));
    }
    #[cfg(feature = "autodiff")]
    if crate::explicit::takes(&x) && crate::explicit::takes(&gamma) {
        use crate::explicit::ExplicitOps;
        use burn::backend::Dispatch;

        return Tensor::from_dispatch(Dispatch::explicit_layer_norm(
            x.into_dispatch(),
            gamma.into_dispatch(),
            beta.into_dispatch(),
            epsilon,
        ));
    }
    module::layer_norm(x, gamma, Some(beta), epsilon)
}

#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(crate) use kernel::Store;
#[cfg(feature = "flex")]
pub(crate) use kernel::{Norm, PIECE};

#[cfg(feature = "flex")]
mod kernel {
    use pulp::{Arch, Simd, WithSimd};
    #[cfg(feature = "autodiff")]
    use rayon::prelude::*;

    #[cfg(feature = "autodiff")]
    use crate::buffers::Buffer;
    #[cfg(feature = "autodiff")]
    use crate::dropout::Dropout;
    use crate::flex::{self, FlexTensor};

    /// Elements that a thread takes at a time, about. Sums over rows are made of these pieces, so
    /// that they do not depend on the number of threads.
    pub(crate) const PIECE: usize = 1 << 14;

    /// What all rows have in common.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Norm<'a> {
        pub gamma: &'a [f32],
        pub beta: &'a [f32],
        pub epsilon: f32,
    }

    impl<'a> Norm<'a> {
        /// With contiguous gamma and beta; gamma may stand for a beta that is not read.
        pub(crate) fn of(gamma: &'a FlexTensor, beta: &'a FlexTensor, epsilon: f64) -> Self {
            Self {
                gamma: flex::slice(gamma),
                beta: flex::slice(beta),
                epsilon: epsilon as f32,
            }
        }

        /// Elements of some whole rows.
        pub(crate) fn piece(&self) -> usize {
            let width = self.gamma.len().max(1);
            width * (PIECE / width).max(1)
        }

        /// The rows, normalised, scaled and shifted.
        #[cfg(feature = "autodiff")]
        pub(crate) fn forward(&self, x: &[f32]) -> Buffer {
            let mut output = Buffer::arbitrary(x.len());
            let pieces = output.par_chunks_mut(self.piece());
            let pieces = pieces.zip(x.par_chunks(self.piece()));
            pieces.for_each(|(output, x)| self.forward_piece(x, output));
            output
        }

        /// The same on this thread.
        pub(crate) fn forward_piece(&self, x: &[f32], output: &mut [f32]) {
            let norm = *self;
            Arch::new().dispatch(Forward { x, norm, output });
        }
    }

    struct Forward<'a> {
        x: &'a [f32],
        norm: Norm<'a>,
        output: &'a mut [f32],
    }

    impl WithSimd for Forward<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Norm {
                gamma,
                beta,
                epsilon,
            } = self.norm;
            let width = gamma.len();
            for (y, x) in self.output.chunks_mut(width).zip(self.x.chunks(width)) {
                let Moments { mean, scale } = moments(x, epsilon);
                for (((y, x), gamma), beta) in y.iter_mut().zip(x).zip(gamma).zip(beta) {
                    *y = (x - mean) * scale * gamma + beta;
                }
            }
        }
    }

    /// Of one row.
    struct Moments {
        mean: f32,
        /// One over the standard deviation.
        scale: f32,
    }

    #[inline(always)]
    fn moments(x: &[f32], epsilon: f32) -> Moments {
        let width = x.len() as f32;
        let mean = sum_of(x, x, |x, _| x) / width;
        let variance = sum_of(x, x, |x, _| (x - mean) * (x - mean)) / width;
        Moments {
            mean,
            scale: 1.0 / (variance + epsilon).sqrt(),
        }
    }

    /// Sum of `term` over both rows, in lanes that the compiler makes vectors of.
    #[inline(always)]
    fn sum_of(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
        const LANES: usize = 32;
        let mut sums = [0.0f32; LANES];
        let (a, a_rest) = a.as_chunks::<LANES>();
        let (b, b_rest) = b.as_chunks::<LANES>();
        for (a, b) in a.iter().zip(b) {
            for lane in 0..LANES {
                sums[lane] += term(a[lane], b[lane]);
            }
        }
        for (sum, (&a, &b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
            *sum += term(a, b);
        }
        sums.iter().sum()
    }

    /// What becomes of x's gradient.
    #[cfg(feature = "autodiff")]
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Store {
        /// It is written.
        Written,
        /// It is added to what is there.
        Added,
    }

    #[cfg(feature = "autodiff")]
    impl Norm<'_> {
        /// With `h = (x - mean) / deviation` and `g = dy gamma`:
        /// `dx = (g - mean(g) - h mean(g h)) / deviation`, `dgamma = Σ dy h`, `dbeta = Σ dy`.
        /// The last two are returned.
        pub(crate) fn backward(&self, x: &[f32], grad: &[f32], dx: &mut [f32]) -> [Buffer; 2] {
            let piece = self.piece();
            let pieces = dx.par_chunks_mut(piece).zip(x.par_chunks(piece));
            let pieces = pieces.zip(grad.par_chunks(piece));
            let run = |((dx, x), grad)| self.backward_piece(x, grad, dx, Store::Written);
            self.in_all(pieces.map(run).collect())
        }

        /// The same where `x` is a residual connection's sum, of whose second part elements were
        /// dropped: that one's gradient stands in `grad` then, unless nothing is dropped.
        pub(crate) fn backward_residual(
            &self,
            x: &[f32],
            grad: &mut [f32],
            dx: &mut [f32],
            store: Store,
            dropout: Dropout,
        ) -> [Buffer; 2] {
            let piece = self.piece();
            let pieces = dx.par_chunks_mut(piece).zip(x.par_chunks(piece));
            let pieces = pieces.zip(grad.par_chunks_mut(piece)).enumerate();
            let sums = pieces.map(|(index, ((dx, x), grad))| {
                let sums = self.backward_piece(x, grad, dx, store);
                if dropout.probability > 0.0 {
                    grad.copy_from_slice(dx);
                    dropout.apply(grad, index * piece);
                }
                sums
            });
            self.in_all(sums.collect())
        }

        /// On this thread; gamma's gradient, then beta's.
        fn backward_piece(
            &self,
            x: &[f32],
            grad: &[f32],
            dx: &mut [f32],
            store: Store,
        ) -> Vec<f32> {
            let width = self.gamma.len();
            let mut room = vec![0.0; 3 * width];
            let (sums, row) = room.split_at_mut(2 * width);
            Arch::new().dispatch(Backward {
                x,
                norm: *self,
                grad,
                dx,
                store,
                sums,
                row,
            });
            room.truncate(2 * width);
            room
        }

        /// Sums over all pieces.
        fn in_all(&self, pieces: Vec<Vec<f32>>) -> [Buffer; 2] {
            let width = self.gamma.len();
            let (mut gamma, mut beta) = (Buffer::zeros(width), Buffer::zeros(width));
            for piece in pieces {
                let (of_gamma, of_beta) = piece.split_at(width);
                for (sums, piece) in [(&mut gamma, of_gamma), (&mut beta, of_beta)] {
                    for (sum, x) in sums.iter_mut().zip(piece) {
                        *sum += x;
                    }
                }
            }
            [gamma, beta]
        }
    }

    #[cfg(feature = "autodiff")]
    struct Backward<'a> {
        x: &'a [f32],
        norm: Norm<'a>,
        grad: &'a [f32],
        dx: &'a mut [f32],
        store: Store,
        /// Of gamma's gradient, and of beta's.
        sums: &'a mut [f32],
        /// Room for `g`.
        row: &'a mut [f32],
    }

    #[cfg(feature = "autodiff")]
    impl WithSimd for Backward<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Norm { gamma, epsilon, .. } = self.norm;
            let width = gamma.len();
            let (gamma_sums, beta_sums) = self.sums.split_at_mut(width);
            let row = self.row;
            let rows = self.dx.chunks_mut(width).zip(self.x.chunks(width));
            for ((dx, x), dy) in rows.zip(self.grad.chunks(width)) {
                let Moments { mean, scale } = moments(x, epsilon);
                for ((g, dy), gamma) in row.iter_mut().zip(dy).zip(gamma) {
                    *g = dy * gamma;
                }
                let g_mean = sum_of(row, row, |g, _| g) / width as f32;
                let gh_mean = sum_of(row, x, |g, x| g * ((x - mean) * scale)) / width as f32;
                let terms = dx.iter_mut().zip(row.iter()).zip(x);
                match self.store {
                    Store::Written => {
                        for ((dx, g), x) in terms {
                            *dx = (g - g_mean - (x - mean) * scale * gh_mean) * scale;
                        }
                    }
                    Store::Added => {
                        for ((dx, g), x) in terms {
                            *dx += (g - g_mean - (x - mean) * scale * gh_mean) * scale;
                        }
                    }
                }
                for ((sum, dy), x) in gamma_sums.iter_mut().zip(dy).zip(x) {
                    *sum += dy * ((x - mean) * scale);
                }
                for (sum, dy) in beta_sums.iter_mut().zip(dy) {
                    *sum += dy;
                }
            }
        }
    }
}
