//! Layer norm, computed on slices, row by row.
//!
//! With `deviation = sqrt(variance + epsilon)`, `h = (x - mean) / deviation` and `g = dy gamma`,
//! the gradients are `dx = (g - mean(g) - h mean(g h)) / deviation`, `dgamma = Σ dy h` and
//! `dbeta = Σ dy`. The means are over a row, and the sums over all rows. For a norm that does not
//! subtract the mean, `mean` and `mean(g)` are zero.

use pulp::{Simd, WithSimd};

use super::statistics::Statistics;
use crate::memory::buffer::Buffer;
use crate::parallel;
use crate::simd::level::arch;

/// Approximate number of elements in a piece for one thread. The sums of the pieces are added in
/// order, so that sums over rows do not depend on the number of threads.
pub(crate) const PIECE: usize = 1 << 14;

/// The parameters of a layer norm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Norm<'a> {
    gamma: &'a [f32],
    beta: &'a [f32],
    epsilon: f32,
    is_centred: bool,
}

impl<'a> Norm<'a> {
    /// Returns the layer norm with `gamma` and `beta`. The backward pass does not read `beta`,
    /// which may be empty there.
    pub(crate) fn new(gamma: &'a [f32], beta: &'a [f32], statistics: Statistics) -> Self {
        Self {
            gamma,
            beta,
            epsilon: statistics.epsilon as f32,
            is_centred: statistics.is_centred,
        }
    }

    /// Returns the number of elements in a piece for one thread. A piece has as many whole rows as
    /// fit in `PIECE` elements, and at least one row.
    pub(crate) fn piece(&self) -> usize {
        let width = self.gamma.len().max(1);
        width * (PIECE / width).max(1)
    }

    /// Returns the layer norm of each row of `x`.
    pub(super) fn forward(&self, x: &[f32]) -> Buffer {
        let mut output = Buffer::arbitrary(x.len());
        let pieces = output.chunks_mut(self.piece());
        let pieces = pieces.zip(x.chunks(self.piece()));
        parallel::for_each(pieces, |(output, x)| self.forward_piece(x, output));
        output
    }

    /// Stores the layer norm of each row of `x` in `output`, on the calling thread.
    pub(crate) fn forward_piece(&self, x: &[f32], output: &mut [f32]) {
        let norm = *self;
        arch().dispatch(Forward { x, norm, output });
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
            is_centred,
        } = self.norm;
        let width = gamma.len();
        for (y, x) in self.output.chunks_mut(width).zip(self.x.chunks(width)) {
            let Moments { mean, scale } = moments(x, epsilon, is_centred);
            for (((y, x), gamma), beta) in y.iter_mut().zip(x).zip(gamma).zip(beta) {
                *y = (x - mean) * scale * gamma + beta;
            }
        }
    }
}

/// Mean and inverse deviation of a row.
struct Moments {
    mean: f32,
    /// `1 / sqrt(variance + epsilon)`.
    scale: f32,
}

#[inline(always)]
fn moments(x: &[f32], epsilon: f32, is_centred: bool) -> Moments {
    let width = x.len() as f32;
    let mean = if is_centred {
        sum_of(x, x, |x, _| x) / width
    } else {
        0.0
    };
    let variance = sum_of(x, x, |x, _| (x - mean) * (x - mean)) / width;
    Moments {
        mean,
        scale: 1.0 / (variance + epsilon).sqrt(),
    }
}

/// Returns the sum of `term(a[i], b[i])` over all `i`. The loop keeps 32 partial sums. The compiler
/// turns them into vectors only if the terms of a line are computed before they are added, and the
/// sums are added by halves.
#[inline(always)]
fn sum_of(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    const LANES: usize = 32;
    let mut sums = [0.0f32; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        let terms: [f32; LANES] = std::array::from_fn(|lane| term(a[lane], b[lane]));
        for lane in 0..LANES {
            sums[lane] += terms[lane];
        }
    }
    for (sum, (&a, &b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += term(a, b);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[half + lane];
        }
        half /= 2;
    }
    sums[0]
}

/// How the gradient of `x` is stored in `dx`.
#[cfg(feature = "autodiff")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    /// Replaces the old elements of `dx`, without reading them.
    Set,
    /// Adds the gradient to the old elements of `dx`.
    Add,
}

#[cfg(feature = "autodiff")]
impl Norm<'_> {
    /// Sets `dx` to the gradient of `x`, and returns the gradients of gamma and beta.
    pub(super) fn backward(&self, x: &[f32], grad: &[f32], dx: &mut [f32]) -> [Buffer; 2] {
        let piece = self.piece();
        let pieces = dx.chunks_mut(piece).zip(x.chunks(piece));
        let pieces = pieces.zip(grad.chunks(piece));
        let run = |((dx, x), grad): ((&mut [f32], &[f32]), &[f32])| {
            self.backward_piece(x, grad, dx, Store::Set)
        };
        self.sum_pieces(parallel::map(pieces, run))
    }

    /// Stores the gradient of `x` in `dx` as `store` says, on the calling thread. Returns the
    /// piece's gradients of gamma and then of beta, in one vector.
    pub(crate) fn backward_piece(
        &self,
        x: &[f32],
        grad: &[f32],
        dx: &mut [f32],
        store: Store,
    ) -> Vec<f32> {
        let width = self.gamma.len();
        let mut room = vec![0.0; 3 * width];
        let (sums, row) = room.split_at_mut(2 * width);
        arch().dispatch(Backward {
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

    /// Returns the gradients of gamma and beta, summed over all pieces.
    pub(crate) fn sum_pieces(&self, pieces: Vec<Vec<f32>>) -> [Buffer; 2] {
        let width = self.gamma.len();
        let (mut gamma, mut beta) = (Buffer::zeros(width), Buffer::zeros(width));
        for piece in pieces {
            let (gamma_sums, beta_sums) = piece.split_at(width);
            for (sums, piece) in [(&mut gamma, gamma_sums), (&mut beta, beta_sums)] {
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
    /// Gradients of gamma and then of beta, to which the gradients of each row are added.
    sums: &'a mut [f32],
    /// Scratch memory for `g = dy gamma` of one row.
    row: &'a mut [f32],
}

#[cfg(feature = "autodiff")]
impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Norm {
            gamma,
            epsilon,
            is_centred,
            ..
        } = self.norm;
        let width = gamma.len();
        let (gamma_sums, beta_sums) = self.sums.split_at_mut(width);
        let row = self.row;
        let rows = self.dx.chunks_mut(width).zip(self.x.chunks(width));
        for ((dx, x), dy) in rows.zip(self.grad.chunks(width)) {
            let Moments { mean, scale } = moments(x, epsilon, is_centred);
            for ((g, dy), gamma) in row.iter_mut().zip(dy).zip(gamma) {
                *g = dy * gamma;
            }
            let g_mean = if is_centred {
                sum_of(row, row, |g, _| g) / width as f32
            } else {
                0.0
            };
            let gh_mean = sum_of(row, x, |g, x| g * ((x - mean) * scale)) / width as f32;
            let terms = dx.iter_mut().zip(row.iter()).zip(x);
            match self.store {
                Store::Set => {
                    for ((dx, g), x) in terms {
                        *dx = (g - g_mean - (x - mean) * scale * gh_mean) * scale;
                    }
                }
                Store::Add => {
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
