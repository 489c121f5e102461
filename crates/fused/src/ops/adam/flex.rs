//! Adam and sums of squares on tensors of flex. They have no backward pass, so they are plain
//! functions and not methods of a trait that Burn dispatches to a backend.

use burn::tensor::Tensor;

use super::kernel;
use super::update::{Adam, AdamState};
use crate::backend::flex::{self, FlexTensor};
use crate::memory::buffer::Buffer;
use crate::profile::Timer;

/// The fast path of an Adam update. Also returns the sum of squares of the gradient's elements
/// `state.part` if `is_measured`, else 0.
pub(super) fn step(
    adam: &Adam,
    state: AdamState,
    gradient: Tensor<1>,
    scale: f32,
    is_measured: bool,
) -> (AdamState, f64) {
    let _timer = Timer::of("adam");
    let gradient = flex::into_primitive(gradient).to_contiguous();
    let part = state.part;
    let gradient = &flex::slice(&gradient)[part.clone()];
    let mut parameter = flex::into_primitive(state.parameter);
    let mut moment_1 = flex::into_primitive(state.moment_1);
    let mut moment_2 = flex::into_primitive(state.moment_2);
    let squares = flex::with_mut(&mut parameter, |parameter| {
        flex::with_mut(&mut moment_1, |moment_1| {
            flex::with_mut(&mut moment_2, |moment_2| {
                let state = [&mut parameter[part.clone()], moment_1, moment_2];
                kernel::step(adam, state, gradient, scale, is_measured)
            })
        })
    });
    let state = AdamState {
        parameter: flex::from_primitive(parameter),
        part,
        moment_1: flex::from_primitive(moment_1),
        moment_2: flex::from_primitive(moment_2),
    };
    (state, squares)
}

/// The fast path of a sum of squares.
pub(super) fn sum_of_squares(x: FlexTensor) -> Tensor<1> {
    let _timer = Timer::of("gradient_norm");
    // `to_contiguous` would copy a slice of a larger tensor even if the slice is contiguous.
    let x = if x.layout().is_contiguous() {
        x
    } else {
        x.to_contiguous()
    };
    scalar(kernel::sum_of_squares(flex::slice(&x)))
}

/// Returns `x` as an f32 tensor `[1]`.
pub(super) fn scalar(x: f64) -> Tensor<1> {
    // `Tensor::from_data` would convert `x` to the device's default precision.
    let mut output = Buffer::zeros(1);
    output[0] = x as f32;
    flex::tensor(output, [1])
}
