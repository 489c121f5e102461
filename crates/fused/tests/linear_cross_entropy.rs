//! Compares the loss that is computed in chunks of rows with a linear layer followed by
//! cross-entropy.
//!
//! These two operations have their own tests.

mod common;

use burn::tensor::{Device, Int, Tensor, TensorData};
use common::{assert_close, floats};
use proptest::prelude::*;

/// Returns the losses, and the gradients of x, weight and bias.
///
/// The losses are computed in chunks of `at_a_time` rows. `None` means a linear layer and then
/// cross-entropy.
fn run(
    [rows, d_input, vocab_size]: [usize; 3],
    smoothing: f64,
    at_a_time: Option<usize>,
) -> Vec<Vec<f64>> {
    let device = Device::flex().autodiff();
    let leaf = |shape: [usize; 2], seed| {
        let values = floats(shape.iter().product(), seed, 1.0);
        Tensor::<2>::from_data(TensorData::new(values, shape), &device).require_grad()
    };
    let x = leaf([rows, d_input], 1);
    let weight = leaf([d_input, vocab_size], 2);
    let bias = leaf([1, vocab_size], 3);
    let target = (0..rows).map(|row| (row * 7 % (vocab_size + 1)) as i64 - 1);
    let target = TensorData::new(target.collect::<Vec<_>>(), [rows]);
    let target = Tensor::<1, Int>::from_data(target, &device);
    let row = bias.clone().reshape([vocab_size]);
    let (loss, plain) = match at_a_time {
        Some(at_a_time) => fused::linear_cross_entropy(
            x.clone(),
            weight.clone(),
            row,
            target,
            smoothing,
            at_a_time,
        ),
        None => {
            let logits = fused::linear(x.clone(), weight.clone(), Some(row));
            fused::cross_entropy(logits, target, smoothing)
        }
    };
    let weights = Tensor::<1>::from_data(TensorData::new(floats(rows, 4, 1.0), [rows]), &device);
    let gradients = (loss.clone() * weights).sum().backward();
    let mut all = vec![loss.into_data(), plain.into_data()];
    all.extend([x, weight, bias].map(|leaf| leaf.grad(&gradients).unwrap().into_data()));
    all.iter()
        .map(|data| data.iter::<f64>().collect())
        .collect()
}

fn check(shape: [usize; 3], smoothing: f64, at_a_time: usize) {
    let names = ["losses", "plain losses", "dx", "dweight", "dbias"];
    let expected = run(shape, smoothing, None);
    for ((name, found), expected) in names
        .into_iter()
        .zip(run(shape, smoothing, Some(at_a_time)))
        .zip(expected)
    {
        let length = found.len();
        assert_close(name, &TensorData::new(found, [length]), &expected, 1e-5);
    }
}

#[test]
fn chunks_change_only_rounding() {
    for at_a_time in [1, 3, 10, 11, 100] {
        check([10, 5, 17], 0.1, at_a_time);
    }
    check([70, 33, 1000], 0.0, 32);
    check([0, 5, 17], 0.1, 4);
}

#[test]
#[should_panic(expected = "x is [2, 3], but the weight is [4, 5]")]
fn shapes_that_do_not_fit_are_rejected() {
    let device = Device::flex();
    let x = Tensor::<2>::ones([2, 3], &device);
    let (weight, bias) = (Tensor::ones([4, 5], &device), Tensor::ones([5], &device));
    let target = Tensor::<1, Int>::from_data([1, 2], &device);
    fused::linear_cross_entropy(x, weight, bias, target, 0.0, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn chunks_of_any_size_change_only_rounding(rows in 1usize..40, d_input in 1usize..20, vocab_size in 2usize..60, at_a_time in 1usize..50, smooth: bool) {
        check([rows, d_input, vocab_size], if smooth { 0.1 } else { 0.0 }, at_a_time);
    }
}
