//! Compares the cross-entropy loss and its gradient with the formula in f64.

mod common;

use burn::tensor::{Device, Int, Tensor, TensorData};
use common::{assert_close, floats};
use proptest::prelude::*;

struct Case {
    logits: Vec<f32>,
    /// Ids, or -1 for a row that is ignored.
    target: Vec<i64>,
    vocab_size: usize,
    smoothing: f64,
}

impl Case {
    fn new(rows: usize, vocab_size: usize, scale: f32, smoothing: f64, seed: usize) -> Self {
        Self {
            logits: floats(rows * vocab_size, seed, scale),
            target: (0..rows)
                .map(|i| ((i * 31 + seed) % (vocab_size + 1)) as i64 - 1)
                .collect(),
            vocab_size,
            smoothing,
        }
    }

    /// Returns the loss of each row, with and without smoothing, and the gradient of the sum of
    /// `weight(row) * loss` with respect to the logits.
    fn by_hand(&self, weight: impl Fn(usize) -> f64) -> [Vec<f64>; 3] {
        let v = self.vocab_size as f64;
        let (mut losses, mut plain, mut gradients) = (Vec::new(), Vec::new(), Vec::new());
        let rows = self.logits.chunks(self.vocab_size).zip(&self.target);
        for (row, (logits, &target)) in rows.enumerate() {
            let largest = logits
                .iter()
                .fold(f64::NEG_INFINITY, |m, &x| m.max(x.into()));
            let sum: f64 = logits.iter().map(|&x| (f64::from(x) - largest).exp()).sum();
            let log_p = |i: usize| f64::from(logits[i]) - largest - sum.ln();
            let all: f64 = (0..self.vocab_size).map(log_p).sum();
            let is_real = f64::from(target >= 0);
            let right = log_p(target.max(0) as usize);
            losses.push(is_real * -((1.0 - self.smoothing) * right + self.smoothing / v * all));
            plain.push(is_real * -right);
            gradients.extend((0..self.vocab_size).map(|i| {
                let is_right = f64::from(i as i64 == target);
                let wanted = (1.0 - self.smoothing) * is_right + self.smoothing / v;
                is_real * weight(row) * (log_p(i).exp() - wanted)
            }));
        }
        [losses, plain, gradients]
    }

    fn check(&self) {
        let rows = self.target.len();
        let device = Device::flex().autodiff();
        let logits = TensorData::new(self.logits.clone(), [rows, self.vocab_size]);
        let logits = Tensor::<2>::from_data(logits, &device).require_grad();
        let target = TensorData::new(self.target.clone(), [rows]);
        let target = Tensor::<1, Int>::from_data(target, &device);
        let (loss, plain) = fused::cross_entropy(logits.clone(), target, self.smoothing);
        let weight = |row: usize| 0.5 + (row % 4) as f64;
        let weights: Vec<f32> = (0..rows).map(|row| weight(row) as f32).collect();
        let weights = Tensor::<1>::from_data(TensorData::new(weights, [rows]), &device);
        let gradients = (loss.clone() * weights).sum().backward();
        let [losses, plain_losses, expected] = self.by_hand(weight);
        assert_close("loss", &loss.into_data(), &losses, 2e-6);
        assert_close("plain", &plain.into_data(), &plain_losses, 2e-6);
        let gradient = logits.grad(&gradients).unwrap().into_data();
        assert_close("dlogits", &gradient, &expected, 2e-6);
    }
}

#[test]
fn losses_and_gradients_follow_the_formula() {
    for (rows, vocab_size) in [(1, 2), (7, 11), (40, 16), (9, 1000), (3, 10_007)] {
        for smoothing in [0.0, 0.1] {
            for scale in [0.0, 1.0, 20.0] {
                Case::new(rows, vocab_size, scale, smoothing, 3).check();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_batch_follows_the_formula(
        rows in 1..50usize,
        vocab_size in 2..70usize,
        scale in 0.0f32..30.0,
        smoothing in 0.0..0.9,
        seed in 0..1000usize,
    ) {
        Case::new(rows, vocab_size, scale, smoothing, seed).check();
    }
}

#[test]
fn an_impossible_token_has_no_part_in_the_loss() {
    for device in [Device::flex(), Device::flex().autodiff()] {
        let of = |logits: Vec<f32>| {
            let ids = logits.len();
            let logits = Tensor::<2>::from_data(TensorData::new(logits, [1, ids]), &device);
            let target = Tensor::<1, Int>::from_data([2i64], &device);
            let (loss, _) = fused::cross_entropy(logits, target, 0.0);
            loss.into_data().iter::<f32>().sum::<f32>()
        };
        let possible = of(vec![0.5, -0.25, 1.0]);
        let both = of(vec![0.5, -0.25, 1.0, f32::NEG_INFINITY]);
        assert!((possible - both).abs() < 1e-6, "{possible} {both}");
    }
}

#[test]
fn nan_is_not_hidden() {
    let device = Device::flex();
    let mut case = Case::new(3, 40, 1.0, 0.0, 1);
    case.logits[45] = f32::NAN;
    let logits = Tensor::<2>::from_data(TensorData::new(case.logits, [3, 40]), &device);
    let target = Tensor::<1, Int>::from_data([3, 4, 5], &device);
    let (loss, _) = fused::cross_entropy(logits, target, 0.0);
    let loss = loss.into_data();
    let finite: Vec<bool> = loss.iter::<f32>().map(f32::is_finite).collect();
    assert_eq!(finite, [true, false, true]);
}

#[test]
#[should_panic(expected = "target 5 is not an id of a vocabulary of 5")]
fn a_target_outside_the_vocabulary_is_rejected() {
    let device = Device::flex();
    let target = Tensor::<1, Int>::from_data([5], &device);
    fused::cross_entropy(Tensor::<2>::zeros([1, 5], &device), target, 0.0);
}

#[test]
#[should_panic(expected = "logits are [2, 5], but the target is [3]")]
fn different_numbers_of_rows_are_rejected() {
    let device = Device::flex();
    let target = Tensor::<1, Int>::from_data([0, 1, 2], &device);
    fused::cross_entropy(Tensor::<2>::zeros([2, 5], &device), target, 0.0);
}
