//! Smooth non-linearities, gated ones too, with dropout in the same pass.

use burn::tensor::Tensor;
use burn::tensor::activation::{self, sigmoid, silu};

/// A non-linearity. The last three are gated: of `[gate, value]` they make `act(gate) * value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x Φ(x)`, by the error function.
    Gelu,
    /// `x σ(x)`.
    Swish,
    /// Gated by `σ(x)`.
    Glu,
    /// Gated by GELU.
    Geglu,
    /// Gated by Swish.
    Swiglu,
}

impl Activation {
    /// Whether it halves the last axis.
    pub fn is_gated(self) -> bool {
        matches!(self, Self::Glu | Self::Geglu | Self::Swiglu)
    }
}

/// `dropout(act(x))`.
///
/// # Shapes
///
/// - x: `[N, F]`, `[N, 2 F]` if it is gated
/// - output: `[N, F]`
///
/// # Panics
///
/// If the probability is not in `[0, 1)`, or a gated one is given an odd number of columns.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use fused::Activation;
///
/// let x = Tensor::<2>::from_data([[0.0, 8.0, 3.0, 5.0]], &Device::flex());
/// let y = fused::activate(x, Activation::Glu, 0.0).into_data();
/// let [half, all] = y.iter::<f32>().collect::<Vec<_>>()[..] else { panic!() };
/// assert!((half - 1.5).abs() < 1e-6 && (all - 5.0).abs() < 2e-3);
/// ```
pub fn activate(x: Tensor<2>, activation: Activation, dropout: f64) -> Tensor<2> {
    crate::dropout::check(dropout);
    let [_, width] = x.dims();
    assert!(
        !activation.is_gated() || width.is_multiple_of(2),
        "x has {width} columns, but must have a gate for each value"
    );
    #[cfg(feature = "flex")]
    if crate::flex::takes(&x) {
        use crate::extension::FusedOps;
        use burn::backend::Dispatch;

        let dropout = crate::dropout::Dropout::draw(dropout, &x.device());
        let y = Dispatch::fused_activate(x.into_dispatch(), activation, dropout);
        return Tensor::from_dispatch(y);
    }
    #[cfg(feature = "autodiff")]
    if crate::explicit::takes(&x) && x.shape().num_elements() > 0 {
        use crate::explicit::ExplicitOps;
        use burn::backend::Dispatch;

        let [rows, width] = x.dims();
        let columns = match activation.is_gated() {
            true => width / 2,
            false => width,
        };
        let mask = crate::dropout::draw_mask([rows, columns], dropout, &x.device());
        let y = Dispatch::explicit_activate(x.into_dispatch(), activation, mask, dropout);
        return Tensor::from_dispatch(y);
    }
    crate::dropout(plain(x, activation), dropout)
}

fn plain(x: Tensor<2>, activation: Activation) -> Tensor<2> {
    let gated = |act: fn(Tensor<2>) -> Tensor<2>| {
        let [_, width] = x.dims();
        let gate = x.clone().narrow(1, 0, width / 2);
        let value = x.clone().narrow(1, width / 2, width / 2);
        act(gate) * value
    };
    match activation {
        Activation::Gelu => gelu(x),
        Activation::Swish => silu(x),
        Activation::Glu => gated(sigmoid),
        Activation::Geglu => gated(gelu),
        Activation::Swiglu => gated(silu),
    }
}

/// `x Φ(x) = x / 2 (1 + erf(x / sqrt(2)))`.
fn gelu(x: Tensor<2>) -> Tensor<2> {
    if x.is_autodiff() {
        // The derivative of Burn's own is, on every backend but flex, the one of another function,
        // the tanh approximation: up to 1e-3 off.
        let erf = (x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf();
        x * (erf + 1.0) * 0.5
    } else {
        activation::gelu(x)
    }
}

#[cfg(all(feature = "flex", feature = "autodiff"))]
pub(crate) use kernel::backward;
#[cfg(feature = "flex")]
pub(crate) use kernel::forward;

#[cfg(feature = "flex")]
mod kernel {
    use pulp::Arch;
    use rayon::prelude::*;

    use super::Activation;
    use crate::buffers::Buffer;
    use crate::dropout::{CHUNK, Dropout};

    trait Function {
        /// `f(x)` and its derivative.
        fn of(x: f32) -> (f32, f32);
    }

    struct Sigmoid;
    struct Swish;
    struct Gelu;

    impl Function for Sigmoid {
        #[inline(always)]
        fn of(x: f32) -> (f32, f32) {
            let e = exp(-x.abs());
            let large = 1.0 / (1.0 + e);
            let value = if x < 0.0 { e * large } else { large };
            (value, e * large * large)
        }
    }

    impl Function for Swish {
        #[inline(always)]
        fn of(x: f32) -> (f32, f32) {
            let (sigmoid, slope) = Sigmoid::of(x);
            (x * sigmoid, sigmoid + x * slope)
        }
    }

    impl Function for Gelu {
        /// The error function by Abramowitz and Stegun 7.1.26, within 1.5e-7.
        #[inline(always)]
        fn of(x: f32) -> (f32, f32) {
            let size = x.abs();
            let e = exp(-0.5 * x * x);
            let t = 1.0 / (1.0 + 0.231_641_9 * size);
            let mut tail = 1.061_405_4;
            for factor in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
                tail = tail * t + factor;
            }
            let tail = 0.5 * tail * t * e;
            let below = if x < 0.0 { tail } else { 1.0 - tail };
            const DENSITY: f32 = 0.398_942_3;
            (x * below, below + x * DENSITY * e)
        }
    }

    /// `exp(x)` for `x <= 0`, as that of `log_sum_exp`, a number at a time.
    #[inline(always)]
    fn exp(x: f32) -> f32 {
        const LN_2_HIGH: f32 = 0.693_359_4;
        const LN_2_LOW: f32 = -2.121_944_4e-4;
        const MAGIC: f32 = 12_582_912.0;
        let shifted = x * std::f32::consts::LOG2_E + MAGIC;
        let n = shifted - MAGIC;
        let r = x - n * LN_2_HIGH - n * LN_2_LOW;
        let mut y = 1.0 / 5040.0;
        for factor in [
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ] {
            y = y * r + factor;
        }
        let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
        // NaN stays what it is.
        if x < -87.0 { 0.0 } else { y * power }
    }

    /// The pieces of rows that a thread takes at a time: columns of the output, rows.
    fn piece(width: usize, is_gated: bool) -> (usize, usize) {
        let columns = if is_gated { width / 2 } else { width };
        (columns, (CHUNK / columns.max(1)).max(1))
    }

    /// Rows of `width` numbers.
    pub(crate) fn forward(x: &[f32], width: usize, of: Activation, dropout: Dropout) -> Buffer {
        match of {
            Activation::Gelu => run::<Gelu>(x, width, false, dropout),
            Activation::Swish => run::<Swish>(x, width, false, dropout),
            Activation::Glu => run::<Sigmoid>(x, width, true, dropout),
            Activation::Geglu => run::<Gelu>(x, width, true, dropout),
            Activation::Swiglu => run::<Swish>(x, width, true, dropout),
        }
    }

    fn run<F: Function>(x: &[f32], width: usize, is_gated: bool, dropout: Dropout) -> Buffer {
        let (columns, rows) = piece(width, is_gated);
        let mut output = Buffer::arbitrary(x.len() / width.max(1) * columns);
        let pieces = output.par_chunks_mut((rows * columns).max(1));
        let pieces = pieces.zip(x.par_chunks((rows * width).max(1))).enumerate();
        pieces.for_each(|(index, (y, x))| {
            Arch::new().dispatch(|| {
                if !is_gated {
                    for (y, x) in y.iter_mut().zip(x) {
                        *y = F::of(*x).0;
                    }
                    return;
                }
                for (y, x) in y.chunks_exact_mut(columns).zip(x.chunks_exact(width)) {
                    let (gate, value) = x.split_at(columns);
                    for ((y, gate), value) in y.iter_mut().zip(gate).zip(value) {
                        *y = F::of(*gate).0 * value;
                    }
                }
            });
            dropout.apply(y, index * rows * columns);
        });
        output
    }

    /// The gradient of x, from that of the output.
    #[cfg(feature = "autodiff")]
    pub(crate) fn backward(
        x: &[f32],
        width: usize,
        of: Activation,
        dropout: Dropout,
        grad: &mut [f32],
    ) -> Buffer {
        match of {
            Activation::Gelu => gradient::<Gelu>(x, width, false, dropout, grad),
            Activation::Swish => gradient::<Swish>(x, width, false, dropout, grad),
            Activation::Glu => gradient::<Sigmoid>(x, width, true, dropout, grad),
            Activation::Geglu => gradient::<Gelu>(x, width, true, dropout, grad),
            Activation::Swiglu => gradient::<Swish>(x, width, true, dropout, grad),
        }
    }

    #[cfg(feature = "autodiff")]
    fn gradient<F: Function>(
        x: &[f32],
        width: usize,
        is_gated: bool,
        dropout: Dropout,
        grad: &mut [f32],
    ) -> Buffer {
        let (columns, rows) = piece(width, is_gated);
        let mut output = Buffer::arbitrary(x.len());
        let pieces = output.par_chunks_mut((rows * width).max(1));
        let pieces = pieces.zip(x.par_chunks((rows * width).max(1)));
        let pieces = pieces.zip(grad.par_chunks_mut((rows * columns).max(1)));
        pieces.enumerate().for_each(|(index, ((to, x), grad))| {
            dropout.apply(grad, index * rows * columns);
            let grad = &*grad;
            Arch::new().dispatch(|| {
                if !is_gated {
                    for ((to, x), grad) in to.iter_mut().zip(x).zip(grad) {
                        *to = grad * F::of(*x).1;
                    }
                    return;
                }
                let each = to.chunks_exact_mut(width).zip(x.chunks_exact(width));
                for ((to, x), grad) in each.zip(grad.chunks_exact(columns)) {
                    let (gate, value) = x.split_at(columns);
                    let (to_gate, to_value) = to.split_at_mut(columns);
                    let inputs = gate.iter().zip(value).zip(grad);
                    let outputs = to_gate.iter_mut().zip(to_value);
                    for ((to_gate, to_value), ((gate, value), grad)) in outputs.zip(inputs) {
                        let (y, slope) = F::of(*gate);
                        *to_gate = grad * value * slope;
                        *to_value = grad * y;
                    }
                }
            });
        });
        output
    }
}
