//! Compares Adam's updates, on the fast path and in plain Burn, with the formula in f64.

mod common;

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};
use common::{assert_close, elements};
use fused::{Adam, AdamState};
use proptest::prelude::*;

fn tensor(elements: &[f64]) -> Tensor<1> {
    let data: Vec<f32> = elements.iter().map(|&x| x as f32).collect();
    Tensor::from_data(TensorData::new(data, [elements.len()]), &Device::flex())
}

/// Compares four Adam updates of `n` parameters with the formula.
///
/// Only the elements `part` are updated, and the others must not change. `scale` multiplies the
/// gradient. If it is `None`, every second update also returns the gradient's sum of squares. If
/// `is_shared` is set, a clone shares the tensors of the state, and an update must not change the
/// clone.
fn check(n: usize, part: Range<usize>, weight_decay: f32, is_shared: bool, scale: Option<f64>) {
    let (mut w, mut m, mut v) = (elements(n, 1), vec![0.0; n], vec![0.0; n]);
    let mut state = AdamState::new(tensor(&w), part.clone());
    for time in 1..=4 {
        let gradient = elements(n, 10 + time);
        let adam = Adam {
            learning_rate: 0.03,
            beta_1: 0.9,
            beta_2: 0.98,
            epsilon: 1e-9,
            weight_decay,
            time,
        };
        let before = is_shared.then(|| state.clone());
        let copy = before.as_ref().map(|before| before.parameter.to_data());
        let on_device = scale.map(|scale| tensor(&[scale]));
        state = if scale.is_none() && time % 2 == 0 {
            let (state, squares) = adam.step_measured(state, tensor(&gradient));
            let expected = fused::sum_of_squares(&tensor(&gradient).slice([part.clone()]));
            assert_eq!(squares.into_data(), expected.into_data(), "{part:?} of {n}");
            state
        } else {
            adam.step(state, tensor(&gradient), on_device.as_ref())
        };
        if let (Some(before), Some(copy)) = (before, copy) {
            assert_eq!(
                before.parameter.into_data(),
                copy,
                "a shared tensor was changed"
            );
        }
        for i in part.clone() {
            let g = gradient[i] * scale.unwrap_or(1.0);
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.98 * v[i] + 0.02 * g * g;
            let m_hat = m[i] / (1.0 - 0.9f64.powi(time as i32));
            let v_hat = v[i] / (1.0 - 0.98f64.powi(time as i32));
            w[i] -= 0.03 * f64::from(weight_decay) * w[i];
            w[i] -= 0.03 * m_hat / (v_hat.sqrt() + 1e-9);
        }
    }
    for (name, found, expected) in [
        ("parameter", &state.parameter, &w[..]),
        ("first moment", &state.moment_1, &m[part.clone()]),
        ("second moment", &state.moment_2, &v[part.clone()]),
    ] {
        assert_close(name, &found.to_data(), expected, 2e-6);
    }
}

#[test]
fn fast_path_and_plain_operations_follow_the_formula() {
    for is_fused in [true, false] {
        let _fast_paths = fused::fast_paths(is_fused);
        for n in [1, 7, 100, 40_000] {
            for weight_decay in [0.0, 0.5] {
                for scale in [None, Some(0.125)] {
                    for part in [0..n, n / 3..n, 0..n / 2] {
                        check(n, part.clone(), weight_decay, false, scale);
                        check(n, part, weight_decay, true, scale);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_size_and_scale_follows_the_formula(
        (n, start, end) in (1..2000usize).prop_flat_map(|n| (Just(n), 0..=n, 0..=n)),
        weight_decay in 0.0f32..1.0,
        is_shared: bool,
        scale in prop::option::of(0.001..4.0),
        is_fused: bool,
    ) {
        let _fast_paths = fused::fast_paths(is_fused);
        check(n, start.min(end)..start.max(end), weight_decay, is_shared, scale);
    }
}

const ADAM: Adam = Adam {
    learning_rate: 0.1,
    beta_1: 0.9,
    beta_2: 0.999,
    epsilon: 1e-8,
    weight_decay: 0.0,
    time: 1,
};

#[test]
#[should_panic(expected = "the gradient is [3], but the parameter is [2]")]
fn different_sizes_are_rejected() {
    let state = AdamState::new(tensor(&[0.0, 1.0]), 0..2);
    ADAM.step(state, tensor(&[1.0; 3]), None);
}

#[test]
#[should_panic(
    expected = "the parameter is [3], but the moments are [[3], [3]] for its elements 1..3"
)]
fn moments_of_another_part_are_rejected() {
    let state = AdamState::new(tensor(&[0.0; 3]), 0..3);
    ADAM.step(
        AdamState {
            part: 1..3,
            ..state
        },
        tensor(&[1.0; 3]),
        None,
    );
}

#[test]
#[should_panic(expected = "the parameter is [3], which has no elements 2..4")]
fn a_part_outside_of_the_parameter_is_rejected() {
    AdamState::new(tensor(&[0.0; 3]), 2..4);
}
