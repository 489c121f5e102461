//! A residual connection with dropout and norm, and a rectifier with dropout, against the same in
//! plain Burn, forward and backward.

mod common;

use std::sync::Mutex;

use burn::tensor::{Device, Tensor, TensorData, activation, module};
use common::{assert_close, floats};
use proptest::prelude::*;

/// Random numbers are the device's, which the tests share.
static RANDOM: Mutex<()> = Mutex::new(());

/// `x`, `y` and gamma, beta as rows of one.
type Inputs = [Tensor<2>; 4];

/// The output and all gradients that there are.
fn run(sizes: [usize; 2], f: &dyn Fn(&Inputs) -> Tensor<2>) -> Vec<Option<TensorData>> {
    let [rows, width] = sizes;
    let device = Device::flex().autodiff();
    let leaf = |seed, shape: [usize; 2]| {
        let data = TensorData::new(floats(shape[0] * shape[1], seed, 2.0), shape);
        Tensor::<2>::from_data(data, &device).require_grad()
    };
    let inputs =
        [(1, rows), (2, rows), (3, 1), (4, 1)].map(|(seed, rows)| leaf(seed, [rows, width]));
    device.seed(7);
    let output = f(&inputs);
    let weights = TensorData::new(floats(rows * width, 5, 1.0), [rows, width]);
    let weighted = output.clone() * Tensor::from_data(weights, &device);
    let gradients = weighted.sum().backward();
    let mut all = vec![Some(output.into_data())];
    all.extend(
        inputs
            .iter()
            .map(|x| x.grad(&gradients).map(Tensor::into_data)),
    );
    all
}

fn assert_same(
    name: &str,
    sizes: [usize; 2],
    fused: &dyn Fn(&Inputs) -> Tensor<2>,
    plain: &dyn Fn(&Inputs) -> Tensor<2>,
) {
    let _guard = RANDOM
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let (actual, expected) = (run(sizes, fused), run(sizes, plain));
    let mut compared = 0;
    for ((actual, expected), of) in actual
        .iter()
        .zip(&expected)
        .zip(["", "x", "y", "gamma", "beta"])
    {
        assert_eq!(actual.is_some(), expected.is_some(), "{name} {of}");
        if let (Some(actual), Some(expected)) = (actual, expected) {
            let expected: Vec<f64> = expected.iter().collect();
            assert_close(&format!("{name} {of} {sizes:?}"), actual, &expected, 3e-5);
            compared += 1;
        }
    }
    assert!(compared > 1, "{name} has no gradient");
}

fn check(sizes: [usize; 2], dropout: f64) {
    let row = |x: &Tensor<2>| x.clone().flatten::<1>(0, 1);
    assert_same(
        "residual",
        sizes,
        &|[x, y, ..]| fused::residual(x.clone(), y.clone(), dropout),
        &|[x, y, ..]| x.clone() + fused::dropout(y.clone(), dropout),
    );
    assert_same(
        "residual_norm",
        sizes,
        &|[x, y, gamma, beta]| {
            fused::residual_norm(x.clone(), y.clone(), row(gamma), row(beta), dropout, 1e-3)
        },
        &|[x, y, gamma, beta]| {
            let sum = x.clone() + fused::dropout(y.clone(), dropout);
            module::layer_norm(sum, row(gamma), Some(row(beta)), 1e-3)
        },
    );
    // What is made of the sum, of its norm, or of both.
    type Use = fn(Tensor<2>, Tensor<2>) -> Tensor<2>;
    let uses: [(&str, Use); 3] = [
        ("the norm", |_, norm| norm),
        ("both", |sum, norm| sum.clone() * sum + norm),
        ("both, the norm twice", |sum, norm| {
            sum * norm.clone() + norm
        }),
    ];
    for (name, f) in uses {
        assert_same(
            &format!("residual_and_norm, {name}"),
            sizes,
            &|[x, y, gamma, beta]| {
                let (x, y) = (x.clone(), y.clone());
                let (sum, norm) =
                    fused::residual_and_norm(x, y, row(gamma), row(beta), dropout, 1e-3);
                f(sum, norm)
            },
            &|[x, y, gamma, beta]| {
                let sum = x.clone() + fused::dropout(y.clone(), dropout);
                let norm = module::layer_norm(sum.clone(), row(gamma), Some(row(beta)), 1e-3);
                f(sum, norm)
            },
        );
    }
    // The norm's parameters have a gradient of zeros, where plain Burn has none.
    assert_same(
        "residual_and_norm, the sum",
        sizes,
        &|[x, y, gamma, beta]| {
            let (x, y) = (x.clone(), y.clone());
            fused::residual_and_norm(x, y, row(gamma), row(beta), dropout, 1e-3).0
        },
        &|[x, y, gamma, beta]| {
            let sum = x.clone() + fused::dropout(y.clone(), dropout);
            sum + gamma.clone() * beta.clone() * 0.0
        },
    );
    assert_same(
        "relu",
        sizes,
        &|[x, ..]| fused::relu(x.clone(), dropout),
        &|[x, ..]| fused::dropout(activation::relu(x.clone()), dropout),
    );
}

#[test]
fn they_are_the_same_as_plain_burn() {
    for sizes in [[1, 1], [3, 7], [40, 64], [70, 512], [2, 20_000]] {
        for dropout in [0.0, 0.1, 0.6] {
            check(sizes, dropout);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_of_them_is(rows in 1..50usize, width in 2..70usize, dropout in 0.0..0.9) {
        check([rows, width], dropout);
    }
}

#[test]
fn inputs_that_are_used_again_are_not_changed() {
    let device = Device::flex();
    let x = Tensor::<2>::from_data([[1.0, -2.0]], &device);
    let y = Tensor::<2>::from_data([[3.0, -4.0]], &device);
    let sum = fused::residual(x.clone(), y.clone(), 0.0);
    let cut = fused::relu(y.clone(), 0.0);
    let values = |x: Tensor<2>| x.into_data().iter::<f32>().collect::<Vec<_>>();
    assert_eq!(values(sum), [4.0, -6.0]);
    assert_eq!(values(cut), [3.0, 0.0]);
    let gamma = Tensor::<1>::ones([2], &device);
    let (both, norm) =
        fused::residual_and_norm(x.clone(), y.clone(), gamma.clone(), gamma, 0.0, 0.0);
    assert_eq!([values(both), values(norm)], [[4.0, -6.0], [2.0, 0.0]]);
    assert_eq!([values(x), values(y)], [[1.0, -2.0], [3.0, -4.0]]);
}

/// Two blocks with the norm in front, and what they are made of used again: no gradient is taken
/// for another, and none is changed in its place while somebody else has it.
#[test]
fn blocks_in_a_chain_are_those_of_plain_burn() {
    let row = |x: &Tensor<2>| x.clone().flatten::<1>(0, 1);
    for dropout in [0.0, 0.3] {
        let fused = |[x, y, gamma, beta]: &Inputs| {
            let (x, y) = (x.clone(), y.clone());
            let (sum, norm) =
                fused::residual_and_norm(x.clone(), y, row(gamma), row(beta), dropout, 1e-3);
            let (again, last) =
                fused::residual_and_norm(sum.clone(), norm, row(beta), row(gamma), dropout, 1e-3);
            fused::residual(again * x, last, dropout) + sum
        };
        let plain = |[x, y, gamma, beta]: &Inputs| {
            let both = |x: Tensor<2>, y: Tensor<2>, gamma: &Tensor<2>, beta: &Tensor<2>| {
                let sum = x + fused::dropout(y, dropout);
                let norm = module::layer_norm(sum.clone(), row(gamma), Some(row(beta)), 1e-3);
                (sum, norm)
            };
            let (sum, norm) = both(x.clone(), y.clone(), gamma, beta);
            let (again, last) = both(sum.clone(), norm, beta, gamma);
            again * x.clone() + fused::dropout(last, dropout) + sum
        };
        assert_same("two blocks", [40, 64], &fused, &plain);
    }
}

#[test]
fn a_number_that_is_none_stays_one() {
    let x = Tensor::<1>::from_data([f32::NAN, 1.0], &Device::flex());
    let y = fused::relu(x, 0.0).into_data();
    assert!(y.iter::<f32>().next().unwrap().is_nan());
}

#[test]
fn a_sum_of_squares_is_the_one_by_hand() {
    for n in [0, 1, 63, 64, 16_384, 50_001] {
        let x = floats(n, 1, 3.0);
        let expected: f64 = x.iter().map(|&x| f64::from(x).powi(2)).sum();
        let x = Tensor::<1>::from_data(TensorData::new(x, [n]), &Device::flex());
        assert_close(
            "sum",
            &fused::sum_of_squares(&x).into_data(),
            &[expected],
            1e-6,
        );
    }
}

#[test]
#[should_panic(expected = "x is [2, 3], but y is [2, 4]")]
fn two_shapes_are_refused() {
    let device = Device::flex();
    let (x, y) = (
        Tensor::zeros([2, 3], &device),
        Tensor::zeros([2, 4], &device),
    );
    let _ = fused::residual(x, y, 0.0);
}

#[test]
#[should_panic(expected = "must be at least 0 and less than 1, not 1")]
fn dropping_everything_is_refused() {
    let _ = fused::relu(Tensor::<1>::zeros([2], &Device::flex()), 1.0);
}
