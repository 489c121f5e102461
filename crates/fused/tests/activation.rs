//! Compares activation functions and their gradients with the formulas in f64.

mod common;

use burn::tensor::{DType, Device, Tensor, TensorData};
use common::{assert_close, floats};
use fused::{Activation, Function};
use proptest::prelude::*;

/// Returns the error function `erf(x)`.
///
/// Uses its power series if `|x| < 3`, and otherwise the continued fraction of its complement,
/// `1 - erf(|x|)`.
fn erf(x: f64) -> f64 {
    if x.abs() < 3.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return sum * 2.0 / std::f64::consts::PI.sqrt();
    }
    let size = x.abs();
    let fraction = (1..80)
        .rev()
        .fold(size, |f, n| size + f64::from(n) / 2.0 / f);
    let complement = (-size * size).exp() / fraction / std::f64::consts::PI.sqrt();
    (1.0 - complement) * x.signum()
}

/// Returns the value of a function at `x`, and its derivative by finite differences.
fn by_hand(function: Function, x: f64) -> (f64, f64) {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let value = |x: f64| match function {
        Function::Relu => x.max(0.0),
        Function::Sigmoid => sigmoid(x),
        Function::Swish => x * sigmoid(x),
        Function::Gelu => x * 0.5 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Function::GeluTanh => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            x * (1.0 + u.tanh()) / 2.0
        }
    };
    let h = 1e-5;
    // ReLU has no derivative at 0, where 0 is usual.
    let is_kink = function == Function::Relu && x == 0.0;
    let slope = (value(x + h) - value(x - h)) / (2.0 * h);
    (value(x), if is_kink { 0.0 } else { slope })
}

fn check(of: Activation, rows: usize, columns: usize, scale: f32) {
    let device = Device::flex().autodiff();
    let width = if of.is_gated { 2 * columns } else { columns };
    let values = floats(rows * width, 1, scale);
    let x = Tensor::<2>::from_data(TensorData::new(values.clone(), [rows, width]), &device);
    let x = x.require_grad();
    let y = fused::activate(x.clone(), of, 0.0);
    assert_eq!(y.dims(), [rows, columns]);
    let weights = floats(rows * columns, 2, 1.0);
    let cotangent = TensorData::new(weights.clone(), [rows, columns]);
    let gradients = (y.clone() * Tensor::from_data(cotangent, &device))
        .sum()
        .backward();
    let (mut expected, mut gradient) = (Vec::new(), vec![0.0; values.len()]);
    for row in 0..rows {
        for column in 0..columns {
            let at = row * width + column;
            let weight = f64::from(weights[row * columns + column]);
            let (y, slope) = by_hand(of.function, values[at].into());
            if of.is_gated {
                let value = f64::from(values[at + columns]);
                expected.push(y * value);
                gradient[at] = weight * slope * value;
                gradient[at + columns] = weight * y;
            } else {
                expected.push(y);
                gradient[at] = weight * slope;
            }
        }
    }
    let name = format!("{of:?} of [{rows}, {width}], scale {scale}");
    assert_close(&name, &y.into_data(), &expected, 1e-6);
    let found = x.grad(&gradients).unwrap().into_data();
    assert_close(&format!("gradient of {name}"), &found, &gradient, 2e-6);

    // Beside an input that stays, and in the place of one that is no longer needed.
    let data = TensorData::new(values, [rows, width]);
    let x = Tensor::<2>::from_data(data.clone(), &Device::flex());
    let beside = fused::activate(x.clone(), of, 0.0).into_data();
    assert_eq!(x.to_data(), data, "{name}");
    assert_close(&name, &beside, &expected, 1e-6);
    assert_eq!(fused::activate(x, of, 0.0).into_data(), beside, "{name}");
}

#[test]
fn values_and_gradients_follow_the_formulas() {
    for of in Activation::all() {
        for (rows, columns) in [(1, 1), (3, 7), (5, 33), (40, 1000)] {
            for scale in [0.0, 0.5, 3.0, 12.0, 200.0] {
                check(of, rows, columns, scale);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_shape_follows_the_formulas(
        of in prop::sample::select(Activation::all().collect::<Vec<_>>()),
        rows in 1..30usize,
        columns in 1..70usize,
        scale in 0.0f32..20.0,
    ) {
        check(of, rows, columns, scale);
    }
}

#[test]
fn plain_operations_agree() {
    for of in Activation::all() {
        let device = Device::flex().autodiff();
        let run = |precision: DType| {
            let data = TensorData::new(floats(80, 3, 4.0), [4, 20]);
            let x = Tensor::<2>::from_data(data, (&device, precision)).require_grad();
            let y = fused::activate(x.clone(), of, 0.0);
            let gradients = y.clone().powf_scalar(2.0).sum().backward();
            [y.into_data(), x.grad(&gradients).unwrap().into_data()]
        };
        // The kernels have no version for f64, so this run takes the portable path, which consists
        // of Burn's own operations.
        let plain = run(DType::F64);
        for (fast, plain) in run(DType::F32).iter().zip(plain) {
            let plain: Vec<f64> = plain.iter::<f64>().collect();
            assert_close(&format!("{of:?}"), fast, &plain, 2e-6);
        }
    }
}

#[test]
fn gradients_are_dropped_with_the_output() {
    let device = Device::flex().autodiff();
    for of in Activation::all() {
        let (rows, columns) = (50, 700);
        let width = if of.is_gated { 2 * columns } else { columns };
        // With inputs of 1, no activation has an output or a gradient of 0. Each 0 below is
        // therefore a dropped element.
        let x = Tensor::<2>::ones([rows, width], &device).require_grad();
        let y = fused::activate(x.clone(), of, 0.3);
        let gradients = y.clone().sum().backward();
        let gradient = x.grad(&gradients).unwrap().into_data();
        let y: Vec<f32> = y.into_data().iter().collect();
        let dropped = y.iter().filter(|&&y| y == 0.0).count() as f64 / y.len() as f64;
        assert!((dropped - 0.3).abs() < 0.02, "{of:?}: {dropped}");
        let gradient: Vec<f32> = gradient.iter().collect();
        for (place, y) in y.iter().enumerate() {
            let at = place / columns * width + place % columns;
            assert_eq!(*y == 0.0, gradient[at] == 0.0, "{of:?} at {place}");
            if of.is_gated {
                assert_eq!(
                    *y == 0.0,
                    gradient[at + columns] == 0.0,
                    "{of:?} at {place}"
                );
            }
        }
    }
}

#[test]
fn nan_is_not_hidden() {
    let device = Device::flex();
    for of in Activation::all() {
        let x = Tensor::<2>::from_data([[f32::NAN, f32::NAN]], &device);
        let y = fused::activate(x, of, 0.0).into_data();
        assert!(y.iter::<f32>().all(f32::is_nan), "{of:?}");
    }
}
