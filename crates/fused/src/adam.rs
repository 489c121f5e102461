//! Adam and AdamW: one pass over a parameter and its moments.

use burn::tensor::Tensor;

/// One update: Kingma and Ba's, with Loshchilov and Hutter's decoupled decay.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    /// Learning rate.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta_1: f32,
    /// Decay of the second moment.
    pub beta_2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// Decay of the parameters, times the learning rate.
    pub weight_decay: f32,
    /// Number of this update, from 1.
    pub time: usize,
}

/// A parameter and its moments, each `[N]`, without autodiff.
#[derive(Clone, Debug)]
pub struct Moving {
    /// The parameter.
    pub parameter: Tensor<1>,
    /// Mean of the gradients.
    pub moment_1: Tensor<1>,
    /// Mean of their squares.
    pub moment_2: Tensor<1>,
}

impl Adam {
    /// `m = β1 m + (1 - β1) g`, `v = β2 v + (1 - β2) g²`, and then
    /// `w = (1 - η λ) w - η m / (1 - β1^t) / (sqrt(v / (1 - β2^t)) + ε)`.
    ///
    /// What nobody else holds is changed in place. `g` is the gradient times `scale`, a number on
    /// the same device: what clipping makes of the gradient's length, in no pass of its own.
    ///
    /// # Shapes
    ///
    /// - parameter, moments and gradient: `[N]`
    /// - scale: `[1]`
    ///
    /// # Panics
    ///
    /// If the sizes differ.
    pub fn step(&self, moving: Moving, gradient: Tensor<1>, scale: Option<&Tensor<1>>) -> Moving {
        moving.check(&gradient);
        if let Some([n]) = scale.map(Tensor::dims) {
            assert!(n == 1, "the gradient's scale is [{n}], not [1]");
        }
        #[cfg(feature = "flex")]
        if crate::flex::takes(&moving.parameter) {
            let scale = scale.map_or(1.0, |scale| scale.clone().into_scalar());
            return self.on_flex(moving, gradient, scale, false).0;
        }
        let gradient = match scale {
            Some(scale) => gradient * scale.clone(),
            None => gradient,
        };
        let Self {
            learning_rate,
            weight_decay,
            epsilon,
            ..
        } = *self;
        let (beta_1, beta_2) = (self.beta_1, self.beta_2);
        let moment_1 = moving.moment_1 * beta_1 + gradient.clone() * (1.0 - beta_1);
        let moment_2 = moving.moment_2 * beta_2 + gradient.square() * (1.0 - beta_2);
        let [rate, deviation] = self.corrections();
        let update = moment_1.clone() * rate / (moment_2.clone().sqrt() * deviation + epsilon);
        let parameter = match weight_decay {
            0.0 => moving.parameter,
            decay => moving.parameter * (1.0 - learning_rate * f64::from(decay)),
        };
        Moving {
            parameter: parameter - update,
            moment_1,
            moment_2,
        }
    }

    /// [`step`](Self::step) without a scale, and the gradient's `Σ g²`, `[1]`: on flex in the same
    /// pass, with the same bits as [`sum_of_squares`](crate::sum_of_squares).
    ///
    /// # Panics
    ///
    /// If the sizes differ.
    pub fn step_measured(&self, moving: Moving, gradient: Tensor<1>) -> (Moving, Tensor<1>) {
        #[cfg(feature = "flex")]
        if crate::flex::takes(&moving.parameter) {
            moving.check(&gradient);
            let (moving, squares) = self.on_flex(moving, gradient, 1.0, true);
            return (moving, crate::sum_of_squares::tensor(squares));
        }
        let squares = crate::sum_of_squares(&gradient);
        (self.step(moving, gradient, None), squares)
    }

    /// `η / (1 - β1^t)` and `1 / sqrt(1 - β2^t)`.
    fn corrections(&self) -> [f64; 2] {
        let power = |beta: f32| f64::from(beta).powf(self.time as f64);
        [
            self.learning_rate / (1.0 - power(self.beta_1)),
            1.0 / (1.0 - power(self.beta_2)).sqrt(),
        ]
    }

    /// And the sum of the gradient's squares, if it is measured.
    #[cfg(feature = "flex")]
    fn on_flex(
        &self,
        moving: Moving,
        gradient: Tensor<1>,
        scale: f32,
        is_measured: bool,
    ) -> (Moving, f64) {
        use crate::flex::{from_primitive, into_primitive, slice, with_mut};
        use crate::profile::{Kind, Timer};

        let _timer = Timer::of(Kind::Adam);
        let gradient = into_primitive(gradient).to_contiguous();
        let gradient = slice(&gradient);
        let mut parameter = into_primitive(moving.parameter);
        let mut moment_1 = into_primitive(moving.moment_1);
        let mut moment_2 = into_primitive(moving.moment_2);
        let squares = with_mut(&mut parameter, |parameter| {
            with_mut(&mut moment_1, |moment_1| {
                with_mut(&mut moment_2, |moment_2| {
                    let moving = [parameter, moment_1, moment_2];
                    kernel::step(self, moving, gradient, scale, is_measured)
                })
            })
        });
        let moving = Moving {
            parameter: from_primitive(parameter),
            moment_1: from_primitive(moment_1),
            moment_2: from_primitive(moment_2),
        };
        (moving, squares)
    }
}

impl Moving {
    fn check(&self, gradient: &Tensor<1>) {
        let sizes = [
            self.parameter.dims(),
            self.moment_1.dims(),
            self.moment_2.dims(),
        ];
        assert!(
            sizes.iter().all(|size| *size == gradient.dims()),
            "the gradient is {:?}, but parameter and moments are {sizes:?}",
            gradient.dims()
        );
    }
}

#[cfg(feature = "flex")]
mod kernel {
    use pulp::{Arch, Simd, WithSimd};
    use rayon::prelude::*;

    use super::Adam;
    use crate::sum_of_squares::{PIECE, of_piece};

    /// Of `[w, m, v]`; the sum of the gradient's squares if it is measured, or 0.
    pub(super) fn step(
        adam: &Adam,
        [w, m, v]: [&mut [f32]; 3],
        g: &[f32],
        scale: f32,
        is_measured: bool,
    ) -> f64 {
        let [rate, deviation] = adam.corrections();
        let decay = adam.learning_rate * f64::from(adam.weight_decay);
        let arch = Arch::new();
        let run = |(((w, m), v), g)| {
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
            // The piece is still in a cache.
            if is_measured { of_piece(g) } else { 0.0 }
        };
        if w.len() <= PIECE {
            return run((((w, m), v), g));
        }
        let moving = w.par_chunks_mut(PIECE).zip(m.par_chunks_mut(PIECE));
        let moving = moving.zip(v.par_chunks_mut(PIECE));
        let squares: Vec<f64> = moving.zip(g.par_chunks(PIECE)).map(run).collect();
        squares.iter().sum()
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
}
