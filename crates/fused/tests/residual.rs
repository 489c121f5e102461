//! Compares residual connections and ReLU, both with dropout, with plain Burn, forward and
//! backward.
//!
//! Also compares sums of squares with the formula.

mod common;

use std::sync::{Mutex, MutexGuard};

use burn::tensor::{Device, Tensor, TensorData, activation, module};
use common::{assert_close, floats};
use proptest::prelude::*;

/// Each test that uses the device's random generator holds this lock, since all tests share the
/// generator.
static RANDOM: Mutex<()> = Mutex::new(());

/// Returns a guard that keeps other tests from using the device's random generator.
fn lock_random() -> MutexGuard<'static, ()> {
    RANDOM
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The tensors x, y, gamma and beta; gamma and beta have one row.
type Inputs = [Tensor<2>; 4];

/// A test case: the sizes, dropout, seed and device of the inputs.
#[derive(Debug)]
struct Case {
    sizes: [usize; 2],
    dropout: f64,
    seed: usize,
    /// Whether x, y, gamma and beta have gradients.
    tracked: [bool; 4],
    device: Device,
}

impl Case {
    fn new(sizes: [usize; 2], dropout: f64, seed: usize) -> Self {
        Self {
            sizes,
            dropout,
            seed,
            tracked: [true; 4],
            device: Device::flex().autodiff(),
        }
    }
}

/// Returns the output, and the gradient of each input that has one.
fn run(case: &Case, f: &dyn Fn(&Inputs) -> Tensor<2>) -> Vec<Option<TensorData>> {
    let [rows, width] = case.sizes;
    let device = &case.device;
    let inputs = [(0, rows), (1, rows), (2, 1), (3, 1)].map(|(input, rows)| {
        let values = floats(rows * width, case.seed + input, 2.0);
        let tensor = Tensor::<2>::from_data(TensorData::new(values, [rows, width]), device);
        if case.tracked[input] {
            tensor.require_grad()
        } else {
            tensor
        }
    });
    device.seed(case.seed as u64);
    let output = f(&inputs);
    let weights = TensorData::new(floats(rows * width, case.seed + 4, 1.0), [rows, width]);
    let weighted = output.clone() * Tensor::from_data(weights, device);
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
    case: &Case,
    fused: &dyn Fn(&Inputs) -> Tensor<2>,
    plain: &dyn Fn(&Inputs) -> Tensor<2>,
) {
    let _guard = lock_random();
    let (actual, expected) = (run(case, fused), run(case, plain));
    let mut compared = 0;
    for ((actual, expected), of) in actual
        .iter()
        .zip(&expected)
        .zip(["", "x", "y", "gamma", "beta"])
    {
        assert_eq!(actual.is_some(), expected.is_some(), "{name} {of} {case:?}");
        if let (Some(actual), Some(expected)) = (actual, expected) {
            let expected: Vec<f64> = expected.iter().collect();
            assert_close(&format!("{name} {of} {case:?}"), actual, &expected, 3e-5);
            compared += 1;
        }
    }
    assert!(compared > 1, "{name} has no gradient, {case:?}");
}

/// A function of both outputs of `residual_and_norm`, the sum and its layer norm.
///
/// Tests compare the function's output and gradients with plain Burn.
type Use = fn(Tensor<2>, Tensor<2>) -> Tensor<2>;

fn check_both(case: &Case, uses: &[(&str, Use)]) {
    let dropout = case.dropout;
    let row = |x: &Tensor<2>| x.clone().flatten::<1>(0, 1);
    for (name, f) in uses {
        assert_same(
            &format!("residual_and_norm, {name}"),
            case,
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
}

fn check(case: &Case) {
    let dropout = case.dropout;
    let row = |x: &Tensor<2>| x.clone().flatten::<1>(0, 1);
    assert_same(
        "residual",
        case,
        &|[x, y, ..]| fused::residual(x.clone(), y.clone(), dropout),
        &|[x, y, ..]| x.clone() + fused::dropout(y.clone(), dropout),
    );
    assert_same(
        "residual_norm",
        case,
        &|[x, y, gamma, beta]| {
            fused::residual_norm(x.clone(), y.clone(), row(gamma), row(beta), dropout, 1e-3)
        },
        &|[x, y, gamma, beta]| {
            let sum = x.clone() + fused::dropout(y.clone(), dropout);
            module::layer_norm(sum, row(gamma), Some(row(beta)), 1e-3)
        },
    );
    let rms = |sum: Tensor<2>, gamma: &Tensor<2>| {
        let mean_square = sum.clone().square().mean_dim(1);
        let scale = (mean_square + 1e-3).sqrt().recip();
        sum * scale * gamma.clone()
    };
    assert_same(
        "residual_norm without beta",
        case,
        &|[x, y, gamma, _]| {
            fused::residual_norm(x.clone(), y.clone(), row(gamma), None, dropout, 1e-3)
        },
        &|[x, y, gamma, _]| rms(x.clone() + fused::dropout(y.clone(), dropout), gamma),
    );
    assert_same(
        "residual_and_norm without beta",
        case,
        &|[x, y, gamma, _]| {
            let (x, y) = (x.clone(), y.clone());
            let (sum, norm) = fused::residual_and_norm(x, y, row(gamma), None, dropout, 1e-3);
            sum.square() + norm
        },
        &|[x, y, gamma, _]| {
            let sum = x.clone() + fused::dropout(y.clone(), dropout);
            sum.clone().square() + rms(sum, gamma)
        },
    );
    check_both(
        case,
        &[
            ("the norm", |_, norm| norm),
            ("both", |sum, norm| sum.clone() * sum + norm),
            ("both, the norm twice", |sum, norm| {
                sum * norm.clone() + norm
            }),
            ("both, of one gradient", |sum, norm| sum + norm),
        ],
    );
    // Only the sum is used, so gamma and beta have gradients of zeros. Plain Burn would give them
    // no gradients. The reference therefore adds the product of gamma and beta, times 0.
    assert_same(
        "residual_and_norm, the sum",
        case,
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
        case,
        &|[x, ..]| fused::relu(x.clone(), dropout),
        &|[x, ..]| fused::dropout(activation::relu(x.clone()), dropout),
    );
}

#[test]
fn all_operations_agree_with_plain_burn() {
    for sizes in [[1, 1], [3, 7], [40, 64], [70, 512], [2, 20_000]] {
        for dropout in [0.0, 0.1, 0.6] {
            check(&Case::new(sizes, dropout, 7));
        }
    }
}

#[test]
fn inputs_without_gradients_get_none() {
    let uses: [(&str, Use); 1] = [("both", |sum, norm| sum.clone() * sum + norm)];
    for tracked in 1..16 {
        let tracked = [0, 1, 2, 3].map(|input| tracked >> input & 1 == 1);
        let case = Case {
            tracked,
            ..Case::new([5, 8], 0.3, 7)
        };
        check_both(&case, &uses);
    }
    // If only gamma and beta have gradients, the norm has a gradient and the sum has none, as in
    // plain Burn. `require_grad` would panic if the sum had a gradient.
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::ones([2, 4], &device);
    let row = Tensor::<1>::ones([4], &device).require_grad();
    let _guard = lock_random();
    let (sum, _) = fused::residual_and_norm(x.clone(), x, row.clone(), row, 0.1, 1e-3);
    assert!(sum.require_grad().is_require_grad());
}

#[test]
fn gradient_checkpointing_changes_nothing() {
    let case = Case {
        device: Device::flex().autodiff().gradient_checkpointing(),
        ..Case::new([5, 8], 0.3, 7)
    };
    check(&case);
}

#[test]
fn one_tensor_may_be_both_x_and_y() {
    let row = |x: &Tensor<2>| x.clone().flatten::<1>(0, 1);
    assert_same(
        "x + x",
        &Case::new([5, 8], 0.0, 7),
        &|[x, _, gamma, beta]| {
            let (x, y) = (x.clone(), x.clone());
            let (sum, norm) = fused::residual_and_norm(x, y, row(gamma), row(beta), 0.0, 1e-3);
            sum * norm
        },
        &|[x, _, gamma, beta]| {
            let sum = x.clone() + x.clone();
            module::layer_norm(sum.clone(), row(gamma), Some(row(beta)), 1e-3) * sum
        },
    );
}

#[test]
fn empty_tensors_have_empty_sums() {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::zeros([0, 4], &device).require_grad();
    let row = Tensor::<1>::ones([4], &device).require_grad();
    let _guard = lock_random();
    let (sum, norm) = fused::residual_and_norm(x.clone(), x, row.clone(), row.clone(), 0.1, 1e-3);
    assert_eq!([sum.dims(), norm.dims()], [[0, 4]; 2]);
    let gradients = (sum * norm).sum().backward();
    let of_row = row.grad(&gradients).unwrap().into_data();
    assert_eq!(of_row.iter::<f32>().collect::<Vec<_>>(), [0.0; 4]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_size_agrees_with_plain_burn(rows in 1..50usize, width in 2..70usize, dropout in 0.0..0.9, seed in 0..1000usize) {
        check(&Case::new([rows, width], dropout, seed));
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

/// Checks two blocks in a chain, which use some inputs and intermediate results more than once.
///
/// Each gradient must belong to its own tensor, and must not be changed in place while it has
/// another owner.
#[test]
fn blocks_in_a_chain_agree_with_plain_burn() {
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
        assert_same(
            "two blocks",
            &Case::new([40, 64], dropout, 7),
            &fused,
            &plain,
        );
    }
}

#[test]
fn nan_is_not_hidden() {
    let x = Tensor::<1>::from_data([f32::NAN, 1.0], &Device::flex());
    let y = fused::relu(x, 0.0).into_data();
    assert!(y.iter::<f32>().next().unwrap().is_nan());
}

#[test]
fn a_sum_of_squares_follows_the_formula() {
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
fn different_shapes_are_rejected() {
    let device = Device::flex();
    let (x, y) = (
        Tensor::zeros([2, 3], &device),
        Tensor::zeros([2, 4], &device),
    );
    let _ = fused::residual(x, y, 0.0);
}

#[test]
#[should_panic(expected = "is 1, but must be at least 0 and less than 1")]
fn a_probability_of_one_is_rejected() {
    let _ = fused::relu(Tensor::<1>::zeros([2], &Device::flex()), 1.0);
}
