//! Activation functions, computed on slices.

use super::function::{ARGUMENT, Activation, Function};
#[cfg(feature = "autodiff")]
use crate::memory::buffer::Buffer;
use crate::ops::dropout::kernel::{CHUNK, Dropout};
use crate::parallel;
use crate::simd::exp::exp_scalar;
use crate::simd::level::arch;

trait Formula {
    /// Returns the value `f(x)` and the derivative `f'(x)`.
    fn of(x: f32) -> (f32, f32);
}

struct Relu;
struct Sigmoid;
struct Swish;
struct Gelu;
struct GeluTanh;

impl Formula for Relu {
    #[inline(always)]
    fn of(x: f32) -> (f32, f32) {
        // `f32::max` would turn NaN into 0.
        let value = if x < 0.0 { 0.0 } else { x };
        (value, if x > 0.0 { 1.0 } else { 0.0 })
    }
}

impl Formula for Sigmoid {
    #[inline(always)]
    fn of(x: f32) -> (f32, f32) {
        let e = exp_scalar(-x.abs());
        let large = 1.0 / (1.0 + e);
        let value = if x < 0.0 { e * large } else { large };
        (value, e * large * large)
    }
}

impl Formula for Swish {
    #[inline(always)]
    fn of(x: f32) -> (f32, f32) {
        let (sigmoid, slope) = Sigmoid::of(x);
        (x * sigmoid, sigmoid + x * slope)
    }
}

impl Formula for Gelu {
    /// Approximates the error function by formula 7.1.26 of Abramowitz and Stegun. The formula has
    /// an error of at most 1.5e-7.
    #[inline(always)]
    fn of(x: f32) -> (f32, f32) {
        let size = x.abs();
        let e = exp_scalar(-0.5 * x * x);
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

impl Formula for GeluTanh {
    #[inline(always)]
    fn of(x: f32) -> (f32, f32) {
        let [a, b] = ARGUMENT.map(|factor| factor as f32);
        let square = x * x;
        let (sigmoid, slope) = Sigmoid::of(x * (a + b * square));
        (x * sigmoid, sigmoid + x * slope * (a + 3.0 * b * square))
    }
}

/// Returns the number of columns of the output, and the number of rows in a piece for one thread.
fn piece(width: usize, activation: Activation) -> (usize, usize) {
    let columns = activation.columns(width);
    (columns, (CHUNK / columns.max(1)).max(1))
}

/// Writes `dropout(act(x))` to `y`. Each row of `x` has `width` elements. Without `x`, a function
/// without gates is applied to `y` itself.
pub(super) fn activate(
    x: Option<&[f32]>,
    y: &mut [f32],
    width: usize,
    activation: Activation,
    dropout: Dropout,
) {
    match activation.function {
        Function::Relu => run::<Relu>(x, y, width, activation, dropout),
        Function::Sigmoid => run::<Sigmoid>(x, y, width, activation, dropout),
        Function::Swish => run::<Swish>(x, y, width, activation, dropout),
        Function::Gelu => run::<Gelu>(x, y, width, activation, dropout),
        Function::GeluTanh => run::<GeluTanh>(x, y, width, activation, dropout),
    }
}

fn run<F: Formula>(
    x: Option<&[f32]>,
    y: &mut [f32],
    width: usize,
    activation: Activation,
    dropout: Dropout,
) {
    let (columns, rows) = piece(width, activation);
    let pieces = y.chunks_mut((rows * columns).max(1));
    parallel::for_each(pieces.enumerate(), |(index, y)| {
        let x = x.map(|x| &x[index * rows * width..][..y.len() / columns * width]);
        arch().dispatch(|| {
            if !activation.is_gated {
                // A piece is small, so that the copy stays in the cache.
                if let Some(x) = x {
                    y.copy_from_slice(x);
                }
                for y in &mut *y {
                    *y = F::of(*y).0;
                }
                return;
            }
            let x = x.expect("a gated function does not work in place");
            for (y, x) in y.chunks_exact_mut(columns).zip(x.chunks_exact(width)) {
                let (gate, value) = x.split_at(columns);
                for ((y, gate), value) in y.iter_mut().zip(gate).zip(value) {
                    *y = F::of(*gate).0 * value;
                }
            }
        });
        dropout.apply(y, index * rows * columns);
    });
}

/// Returns the gradient of `x` from `grad`, the gradient of the output. First applies dropout to
/// `grad`, in place.
#[cfg(feature = "autodiff")]
pub(super) fn activate_backward(
    x: &[f32],
    width: usize,
    activation: Activation,
    dropout: Dropout,
    grad: &mut [f32],
) -> Buffer {
    match activation.function {
        Function::Relu => gradient::<Relu>(x, width, activation, dropout, grad),
        Function::Sigmoid => gradient::<Sigmoid>(x, width, activation, dropout, grad),
        Function::Swish => gradient::<Swish>(x, width, activation, dropout, grad),
        Function::Gelu => gradient::<Gelu>(x, width, activation, dropout, grad),
        Function::GeluTanh => gradient::<GeluTanh>(x, width, activation, dropout, grad),
    }
}

#[cfg(feature = "autodiff")]
fn gradient<F: Formula>(
    x: &[f32],
    width: usize,
    activation: Activation,
    dropout: Dropout,
    grad: &mut [f32],
) -> Buffer {
    let (columns, rows) = piece(width, activation);
    let mut output = Buffer::arbitrary(x.len());
    let pieces = output.chunks_mut((rows * width).max(1));
    let pieces = pieces.zip(x.chunks((rows * width).max(1)));
    let pieces = pieces.zip(grad.chunks_mut((rows * columns).max(1)));
    parallel::for_each(pieces.enumerate(), |(index, ((to, x), grad))| {
        dropout.apply(grad, index * rows * columns);
        let grad = &*grad;
        arch().dispatch(|| {
            if !activation.is_gated {
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

/// Replaces `x` by `dropout(max(x, 0))`.
pub(super) fn relu(x: &mut [f32], dropout: Dropout) {
    let arch = arch();
    let run = |(index, x): (usize, &mut [f32])| {
        arch.dispatch(|| {
            for x in x.iter_mut() {
                // `f32::max` would turn NaN into 0.
                *x = if *x < 0.0 { 0.0 } else { *x };
            }
        });
        dropout.apply(x, index * CHUNK);
    };
    parallel::for_each(x.chunks_mut(CHUNK).enumerate(), run);
}

/// Replaces `grad`, the gradient of the output `y`, by the gradient of the input. `y` is 0 where
/// the input is at most 0 or the element was dropped. The function therefore needs neither the
/// input nor the dropout mask.
#[cfg(feature = "autodiff")]
pub(super) fn relu_backward(grad: &mut [f32], y: &[f32], probability: f64) {
    let arch = arch();
    let scale = (1.0 / (1.0 - probability)) as f32;
    let pieces = grad.chunks_mut(CHUNK).zip(y.chunks(CHUNK));
    parallel::for_each(pieces, |(grad, y)| {
        arch.dispatch(|| {
            for (grad, y) in grad.iter_mut().zip(y) {
                *grad = if *y <= 0.0 { 0.0 } else { *grad * scale };
            }
        });
    });
}
