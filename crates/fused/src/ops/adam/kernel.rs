//! Adam and sums of squares, computed on slices.

use pulp::{Simd, WithSimd};

use super::update::Adam;
use crate::parallel;
use crate::simd::level::arch;

/// Number of elements in a piece for one thread. The sums of the pieces are added in order, so that
/// the result does not depend on the number of threads.
const PIECE: usize = 1 << 14;

/// Updates a parameter and its moments, `[w, m, v]`, with the gradient `scale * g`. Returns the sum
/// of squares of `g` if `is_measured`, else 0.
pub(super) fn step(
    adam: &Adam,
    [w, m, v]: [&mut [f32]; 3],
    g: &[f32],
    scale: f32,
    is_measured: bool,
) -> f64 {
    let [rate, deviation] = adam.corrections();
    let decay = adam.learning_rate * f64::from(adam.weight_decay);
    let arch = arch();
    type Slices<'a> = (((&'a mut [f32], &'a mut [f32]), &'a mut [f32]), &'a [f32]);
    let run = |(((w, m), v), g): Slices<'_>| {
        arch.dispatch(Piece {
            w,
            m,
            v,
            g,
            scale,
            beta_1: adam.beta_1,
            beta_2: adam.beta_2,
            epsilon: adam.epsilon,
            rate: rate as f32,
            deviation: deviation as f32,
            keep: (1.0 - decay) as f32,
        });
        // The gradient's sum of squares is computed here, while `g` is still in the CPU cache.
        if is_measured { sum_piece(g) } else { 0.0 }
    };
    let state = w.chunks_mut(PIECE).zip(m.chunks_mut(PIECE));
    let state = state.zip(v.chunks_mut(PIECE));
    sum(&parallel::map(state.zip(g.chunks(PIECE)), run))
}

struct Piece<'a> {
    w: &'a mut [f32],
    m: &'a mut [f32],
    v: &'a mut [f32],
    g: &'a [f32],
    scale: f32,
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
    rate: f32,
    deviation: f32,
    keep: f32,
}

impl WithSimd for Piece<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (beta_1, beta_2) = (self.beta_1, self.beta_2);
        let moments = self.m.iter_mut().zip(self.v);
        for ((w, (m, v)), &g) in self.w.iter_mut().zip(moments).zip(self.g) {
            let g = g * self.scale;
            *m = beta_1 * *m + (1.0 - beta_1) * g;
            *v = beta_2 * *v + (1.0 - beta_2) * (g * g);
            let update = *m * self.rate / (v.sqrt() * self.deviation + self.epsilon);
            *w = *w * self.keep - update;
        }
    }
}

/// Returns the sum of squares of `x`.
pub(super) fn sum_of_squares(x: &[f32]) -> f64 {
    sum(&parallel::map(x.chunks(PIECE), sum_piece))
}

fn sum(pieces: &[f64]) -> f64 {
    // `Iterator::sum` begins at -0, which would be the sum of no pieces.
    pieces.iter().fold(0.0, |sum, piece| sum + piece)
}

/// Returns the sum of squares of one piece, computed on the calling thread.
fn sum_piece(x: &[f32]) -> f64 {
    const LANES: usize = 64;
    arch().dispatch(|| {
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
