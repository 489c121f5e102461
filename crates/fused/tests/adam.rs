//! The update against its formula in f64, by the fast path and by plain operations.

mod common;

use burn::tensor::{Device, Tensor, TensorData};
use common::{assert_close, numbers};
use fused::{Adam, Moving};
use proptest::prelude::*;

/// The switch is the process's.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn tensor(numbers: &[f64]) -> Tensor<1> {
    let data: Vec<f32> = numbers.iter().map(|&x| x as f32).collect();
    Tensor::from_data(TensorData::new(data, [numbers.len()]), &Device::flex())
}

/// Without a scale, half of the steps measure the gradient.
fn check(n: usize, weight_decay: f32, is_shared: bool, scale: Option<f64>) {
    let (mut w, mut m, mut v) = (numbers(n, 1), vec![0.0; n], vec![0.0; n]);
    let mut moving = Moving {
        parameter: tensor(&w),
        moment_1: tensor(&m),
        moment_2: tensor(&v),
    };
    for time in 1..=4 {
        let gradient = numbers(n, 10 + time);
        let adam = Adam {
            learning_rate: 0.03,
            beta_1: 0.9,
            beta_2: 0.98,
            epsilon: 1e-9,
            weight_decay,
            time,
        };
        let before = is_shared.then(|| moving.clone());
        let copy = before.as_ref().map(|before| before.parameter.to_data());
        let on_device = scale.map(|scale| tensor(&[scale]));
        moving = if scale.is_none() && time % 2 == 0 {
            let (moving, squares) = adam.step_measured(moving, tensor(&gradient));
            let expected = fused::sum_of_squares(&tensor(&gradient));
            assert_eq!(squares.into_data(), expected.into_data());
            moving
        } else {
            adam.step(moving, tensor(&gradient), on_device.as_ref())
        };
        if let (Some(before), Some(copy)) = (before, copy) {
            assert_eq!(before.parameter.into_data(), copy, "another's was changed");
        }
        for i in 0..n {
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
        ("parameter", &moving.parameter, &w),
        ("first moment", &moving.moment_1, &m),
        ("second moment", &moving.moment_2, &v),
    ] {
        assert_close(name, &found.to_data(), expected, 2e-6);
    }
}

#[test]
fn both_ways_are_the_formula() {
    let _turn = TURN.lock();
    for is_fused in [true, false] {
        fused::enable(is_fused);
        for n in [1, 7, 100, 40_000] {
            for weight_decay in [0.0, 0.5] {
                for scale in [None, Some(0.125)] {
                    check(n, weight_decay, false, scale);
                    check(n, weight_decay, true, scale);
                }
            }
        }
    }
    fused::enable(true);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_size_and_scale_is_the_formula(
        n in 1..2000usize,
        weight_decay in 0.0f32..1.0,
        is_shared: bool,
        scale in prop::option::of(0.001..4.0),
        is_fused: bool,
    ) {
        let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        fused::enable(is_fused);
        check(n, weight_decay, is_shared, scale);
        fused::enable(true);
    }
}

#[test]
#[should_panic(expected = "the gradient is [3], but parameter and moments are [[2], [2], [2]]")]
fn other_sizes_are_refused() {
    let two = || tensor(&[0.0, 1.0]);
    let moving = Moving {
        parameter: two(),
        moment_1: two(),
        moment_2: two(),
    };
    let adam = Adam {
        learning_rate: 0.1,
        beta_1: 0.9,
        beta_2: 0.999,
        epsilon: 1e-8,
        weight_decay: 0.0,
        time: 1,
    };
    adam.step(moving, tensor(&[1.0; 3]), None);
}
