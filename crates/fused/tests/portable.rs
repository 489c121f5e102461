//! Compares the portable backward passes with those that Burn's autodiff derives, in f32 and f64, and
//! with finite differences in f64.
#![allow(deprecated)] // The backend ndarray is deprecated.

mod common;

use std::sync::{Mutex, MutexGuard};

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData};
use common::{assert_close, elements};
use fused::{Activation, Function, ScoreTerms};
use proptest::prelude::*;

/// Each test that uses the device's random generator holds this lock, since all tests share the
/// generator.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock();
    turn.unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn leaf(values: &[f64], device: &Device, precision: DType) -> Tensor<1> {
    let data = TensorData::new(values.to_vec(), [values.len()]);
    Tensor::from_data(data, (device, precision)).require_grad()
}

/// Returns the output of `f`, followed by the gradient of each leaf.
///
/// `sizes` holds the number of elements of each leaf. The loss is a weighted sum of the elements of
/// the output.
fn run(
    sizes: &[usize],
    f: &dyn Fn(&[Tensor<1>]) -> Tensor<1>,
    device: &Device,
    precision: DType,
) -> Vec<TensorData> {
    let leaves: Vec<Tensor<1>> = sizes
        .iter()
        .zip(1..)
        .map(|(&size, seed)| leaf(&elements(size, seed), device, precision))
        .collect();
    let y = f(&leaves);
    let weights = elements(y.dims()[0], 99);
    let weights = TensorData::new(weights.clone(), [weights.len()]);
    let weights = Tensor::<1>::from_data(weights, (device, precision));
    let gradients = (y.clone() * weights).sum().backward();
    let of_leaves = leaves.iter().map(|leaf| leaf.grad(&gradients));
    let mut all = vec![y.into_data()];
    all.extend(of_leaves.map(|grad| grad.expect("it has one").into_data()));
    all
}

/// Checks that `f` and its gradients agree with `plain` and with the gradients that Burn's autodiff
/// derives from `plain`.
fn compare(
    name: &str,
    sizes: &[usize],
    f: &dyn Fn(&[Tensor<1>]) -> Tensor<1>,
    plain: &dyn Fn(&[Tensor<1>]) -> Tensor<1>,
) {
    let _turn = turn();
    let device = Device::ndarray().autodiff();
    for (precision, tolerance) in [(DType::F32, 2e-5), (DType::F64, 1e-11)] {
        let found = run(sizes, f, &device, precision);
        let _plain = fused::fast_paths(false);
        let expected = run(sizes, plain, &device, precision);
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found.dtype(), precision, "{name}");
            let expected: Vec<f64> = expected.iter().collect();
            let name = format!("{name} on {device:?}, {index}");
            assert_close(&name, found, &expected, tolerance);
        }
    }
}

/// Checks that the gradients of `f` agree with finite differences, in f64.
///
/// Every call of `f` drops the same elements.
fn check_slope(name: &str, sizes: &[usize], f: &dyn Fn(&[Tensor<1>]) -> Tensor<1>) {
    const STEP: f64 = 1e-5;
    let _turn = turn();
    let device = Device::ndarray().autodiff();
    let seeded = |leaves: &[Tensor<1>]| {
        device.seed(42);
        f(leaves)
    };
    let found = run(sizes, &seeded, &device, DType::F64);
    let weights = elements(found[0].num_elements(), 99);
    for (index, gradient) in found[1..].iter().enumerate() {
        let direction = elements(sizes[index], 1000 + index);
        let loss = |by: f64| -> f64 {
            let moved = |(i, &size): (usize, &usize)| {
                let at = elements(size, i + 1);
                let by = if i == index { by } else { 0.0 };
                let at = at.iter().zip(elements(size, 1000 + i));
                let at: Vec<f64> = at.map(|(x, d)| x + by * d).collect();
                leaf(&at, &device, DType::F64)
            };
            let leaves: Vec<_> = sizes.iter().enumerate().map(moved).collect();
            let y = seeded(&leaves).into_data();
            y.iter::<f64>().zip(&weights).map(|(y, w)| y * w).sum()
        };
        let expected = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
        let along = gradient.iter::<f64>().zip(direction);
        let found: f64 = along.map(|(g, d)| g * d).sum();
        assert!(
            (found - expected).abs() < 1e-7 * expected.abs().max(1.0),
            "{name}, input {index}: {found}, not {expected}"
        );
    }
}

fn flat<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    let n = x.shape().num_elements();
    x.reshape([n])
}

#[derive(Clone, Copy, Debug)]
struct Attention {
    batch: usize,
    n_heads: usize,
    /// Number of query heads that share one key head and one value head.
    group: usize,
    t: usize,
    /// Number of keys; `None` for self-attention.
    s: Option<usize>,
    d_head: usize,
    mask: Mask,
    dropout: f64,
    /// Whether self-attention adds a bias to the scores.
    has_bias: bool,
    is_unscaled: bool,
}

#[derive(Clone, Copy, Debug)]
enum Mask {
    None,
    /// Blocks some pairs of query and key, and all keys of some queries, `[B, 1, T, S]`.
    Some,
    /// Blocks keys after the query's position, `[1, 1, T, S]`.
    Causal,
    /// Blocks the last keys of each sequence, `[B, 1, 1, S]`.
    Padding,
    /// Blocks the first `h` keys of head `h`, `[1, H, 1, S]`.
    OfHeads,
}

impl Attention {
    fn sizes(&self) -> Vec<usize> {
        let shapes = self.shapes().into_iter();
        shapes.map(|shape| shape.iter().product()).collect()
    }

    fn mask(&self, device: &Device) -> Option<Tensor<4, Bool>> {
        let (t, s) = (self.t, self.s.unwrap_or(self.t));
        let (shape, is_blocked): (_, &dyn Fn(usize) -> bool) = match self.mask {
            Mask::None => return None,
            Mask::Some => ([self.batch, 1, t, s], &|i| {
                i / s % 5 == 3 || (i * 7919) % 31 < 11
            }),
            Mask::Causal => ([1, 1, t, s], &|i| i % s > i / s),
            Mask::Padding => ([self.batch, 1, 1, s], &|i| i % s + i / s + 2 > s),
            Mask::OfHeads => ([1, self.n_heads, 1, s], &|i| i % s < i / s),
        };
        let n = shape.iter().product::<usize>();
        let blocked: Vec<bool> = (0..n).map(is_blocked).collect();
        Some(Tensor::from_data(TensorData::new(blocked, shape), device))
    }

    /// Returns the shapes of the inputs, with the bias after the packed input of self-attention.
    fn shapes(&self) -> Vec<[usize; 4]> {
        let Self {
            batch,
            n_heads,
            t,
            s,
            d_head,
            ..
        } = *self;
        let of_keys = n_heads / self.group;
        match s {
            None if self.has_bias => vec![
                [batch, t, n_heads + 2 * of_keys, d_head],
                [1, n_heads, t, t],
            ],
            None => vec![[batch, t, n_heads + 2 * of_keys, d_head]],
            Some(s) => vec![[batch, t, n_heads, d_head], [batch, s, 2 * of_keys, d_head]],
        }
    }

    fn inputs(&self, leaves: &[Tensor<1>]) -> Vec<Tensor<4>> {
        let leaves = leaves.iter().cloned().zip(self.shapes());
        leaves.map(|(leaf, shape)| leaf.reshape(shape)).collect()
    }

    fn portable(&self, leaves: &[Tensor<1>]) -> Tensor<1> {
        let mask = self.mask(&leaves[0].device());
        let inputs = self.inputs(leaves);
        let terms = ScoreTerms {
            mask: mask.as_ref(),
            bias: (self.s.is_none()).then(|| inputs.get(1)).flatten(),
            is_unscaled: self.is_unscaled,
        };
        let y = match self.s {
            None => fused::self_attention(&inputs[0], self.n_heads, terms, self.dropout),
            Some(_) => fused::cross_attention(&inputs[0], &inputs[1], terms, self.dropout),
        };
        flat(y.expect("there is a backward pass for it"))
    }

    fn plain(&self, leaves: &[Tensor<1>]) -> Tensor<1> {
        let n_heads = self.n_heads;
        let inputs = self.inputs(leaves);
        let query = inputs[0].clone().narrow(2, 0, n_heads).swap_dims(1, 2);
        let (packed, before) = match self.s {
            None => (&inputs[0], n_heads),
            Some(_) => (&inputs[1], 0),
        };
        // Each query head uses the key head and the value head of its group.
        let [key, value] = [0, n_heads / self.group].map(|first| {
            let of_head = |head| {
                packed
                    .clone()
                    .narrow(2, before + first + head / self.group, 1)
            };
            Tensor::cat((0..n_heads).map(of_head).collect(), 2).swap_dims(1, 2)
        });
        // The scores are multiplied by a factor, since Burn's gradient rounds a divisor to f32.
        let scale = if self.is_unscaled {
            1.0
        } else {
            1.0 / (self.d_head as f64).sqrt()
        };
        let mut scores = query.matmul(key.swap_dims(2, 3)) * scale;
        if self.s.is_none()
            && let Some(bias) = inputs.get(1)
        {
            scores = scores + bias.clone();
        }
        let weights = match self.mask(&leaves[0].device()) {
            None => softmax(scores, 3),
            Some(mask) => {
                let shape = scores.dims();
                let mask = mask.expand(shape);
                let weights = softmax(scores.mask_fill(mask.clone(), -1e30), 3);
                weights.mask_fill(mask.all_dim(3).expand(shape), 0.0)
            }
        };
        flat(weights.matmul(value).swap_dims(1, 2))
    }

    fn compare(&self) {
        let name = format!("{self:?}");
        let (portable, plain) = (|x: &[_]| self.portable(x), |x: &[_]| self.plain(x));
        compare(&name, &self.sizes(), &portable, &plain);
    }

    fn check_slope(&self) {
        let name = format!("{self:?}");
        check_slope(&name, &self.sizes(), &|leaves| self.portable(leaves));
    }
}

const ATTENTION: Attention = Attention {
    batch: 2,
    n_heads: 2,
    group: 1,
    t: 6,
    s: None,
    d_head: 3,
    mask: Mask::Some,
    dropout: 0.0,
    has_bias: false,
    is_unscaled: false,
};

/// A case with so many keys that the backward pass computes the weights again, and with enough
/// queries for two blocks.
const LONG: Attention = Attention {
    t: 700,
    s: Some(1100),
    ..ATTENTION
};

const MASKS: [Mask; 5] = [
    Mask::None,
    Mask::Some,
    Mask::Causal,
    Mask::Padding,
    Mask::OfHeads,
];

#[test]
fn attention_to_many_keys_agrees_with_plain_burn() {
    for mask in MASKS {
        Attention { mask, ..LONG }.compare();
    }
    // Self-attention has as many queries as keys, here 1,100.
    Attention {
        t: 1100,
        s: None,
        mask: Mask::Causal,
        ..LONG
    }
    .compare();
    Attention {
        group: 2,
        t: 1100,
        s: None,
        mask: Mask::Causal,
        has_bias: true,
        is_unscaled: true,
        ..LONG
    }
    .compare();
}

#[test]
fn gradients_of_attention_agree_with_finite_differences() {
    for case in [ATTENTION, LONG] {
        for dropout in [0.0, 0.4] {
            for mask in MASKS {
                let case = Attention {
                    mask,
                    dropout,
                    ..case
                };
                case.check_slope();
            }
        }
    }
    for (group, has_bias, is_unscaled) in [(1, true, true), (2, false, false), (2, true, false)] {
        let case = Attention {
            group,
            has_bias,
            is_unscaled,
            dropout: 0.4,
            ..ATTENTION
        };
        case.check_slope();
        Attention { s: Some(9), ..case }.check_slope();
    }
}

#[test]
fn weights_are_dropped_with_the_probability() {
    let _turn = turn();
    let device = &Device::ndarray().autodiff();
    // With few attention keys, the dropout mask is drawn. With many, it is computed from a random
    // dropout key.
    for s in [400, 1100] {
        // All weights are equal and all values are 1. An output is therefore the share of weights
        // that are kept, divided by 0.7, the probability that a weight is kept.
        let case = Attention {
            batch: 1,
            n_heads: 1,
            t: 50,
            s: Some(s),
            d_head: 1,
            mask: Mask::None,
            dropout: 0.3,
            ..ATTENTION
        };
        let zeros = Tensor::<1>::zeros([50], (device, DType::F64));
        let keys = Tensor::<1>::ones([2 * s], (device, DType::F64));
        let kept: Vec<f64> = case.portable(&[zeros, keys]).into_data().iter().collect();
        let mean = kept.iter().sum::<f64>() / 50.0;
        // The standard deviation of the mean of at least 20,000 weights is at most 0.005.
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
        let is_kept = |share: f64| (share * s as f64 * 0.7).fract().abs() < 1e-6;
        let whole = |share: &f64| is_kept(*share) || is_kept(*share + 1e-9);
        assert!(kept.iter().all(whole), "{kept:?}");
        assert!(kept.iter().any(|share| *share != kept[0]));
    }
}

/// Returns the layer norm of the first leaf, or its RMS norm if there is no leaf for `beta`.
fn layer_norm(leaves: &[Tensor<1>]) -> Tensor<1> {
    let [x, gamma, beta @ ..] = leaves else {
        unreachable!()
    };
    let width = gamma.dims()[0];
    let rows = x.dims()[0] / width;
    let x = x.clone().reshape([rows, width]);
    flat(fused::layer_norm(
        x,
        gamma.clone(),
        beta.first().cloned(),
        1e-5,
    ))
}

fn residual_norm(leaves: &[Tensor<1>], dropout: f64) -> Tensor<1> {
    let [x, y, gamma, beta @ ..] = leaves else {
        unreachable!()
    };
    let width = gamma.dims()[0];
    let [x, y] = [x, y].map(|x| x.clone().reshape([x.dims()[0] / width, width]));
    let (gamma, beta) = (gamma.clone(), beta.first().cloned());
    flat(fused::residual_norm(x, y, gamma, beta, dropout, 1e-5))
}

/// Returns `sum * sum + norm`, where `sum` is `x + dropout(y)` and `norm` is its layer norm or,
/// without `beta`, its RMS norm.
fn residual_and_norm(leaves: &[Tensor<1>], dropout: f64) -> Tensor<1> {
    let [x, y, gamma, beta @ ..] = leaves else {
        unreachable!()
    };
    let width = gamma.dims()[0];
    let [x, y] = [x, y].map(|x| x.clone().reshape([x.dims()[0] / width, width]));
    let (gamma, beta) = (gamma.clone(), beta.first().cloned());
    let (sum, norm) = fused::residual_and_norm(x, y, gamma, beta, dropout, 1e-5);
    flat(sum.clone() * sum + norm)
}

fn activate(leaves: &[Tensor<1>], activation: Activation, width: usize, dropout: f64) -> Tensor<1> {
    let x = leaves[0].clone() * 3.0;
    let x = x.reshape([leaves[0].dims()[0] / width, width]);
    flat(fused::activate(x, activation, dropout))
}

/// Returns the losses with and without label smoothing. The latter have no gradient.
fn cross_entropy(
    leaves: &[Tensor<1>],
    vocab_size: usize,
    smoothing: f64,
) -> (Tensor<1>, Tensor<1>) {
    let rows = leaves[0].dims()[0] / vocab_size;
    let logits = leaves[0].clone().reshape([rows, vocab_size]) * 4.0;
    let target: Vec<i64> = (0..rows)
        .map(|i| (i * 31 % (vocab_size + 1)) as i64 - 1)
        .collect();
    let target = TensorData::new(target, [rows]);
    let target = Tensor::<1, Int>::from_data(target, &leaves[0].device());
    fused::cross_entropy(logits, target, smoothing)
}

fn linear_cross_entropy(leaves: &[Tensor<1>], vocab_size: usize, at_a_time: usize) -> Tensor<1> {
    let [x, weight, bias] = leaves else {
        unreachable!()
    };
    let d_input = weight.dims()[0] / vocab_size;
    let rows = x.dims()[0] / d_input;
    let target: Vec<i64> = (0..rows)
        .map(|i| (i * 7 % (vocab_size + 1)) as i64 - 1)
        .collect();
    let target = Tensor::<1, Int>::from_data(TensorData::new(target, [rows]), &x.device());
    let (loss, _) = fused::linear_cross_entropy(
        x.clone().reshape([rows, d_input]),
        weight.clone().reshape([d_input, vocab_size]),
        bias.clone(),
        target,
        0.1,
        at_a_time,
    );
    loss
}

#[test]
fn gradients_of_norms_and_losses_agree_with_finite_differences() {
    for parameters in [&[7, 7][..], &[7]] {
        check_slope("norm", &[&[35], parameters].concat(), &layer_norm);
        let both = [&[35, 35], parameters].concat();
        check_slope("residual and norm", &both, &|leaves| {
            residual_norm(leaves, 0.3)
        });
        check_slope("residual, and norm", &both, &|leaves| {
            residual_and_norm(leaves, 0.3)
        });
    }
    for smoothing in [0.0, 0.1] {
        check_slope("cross-entropy", &[5 * 12], &|leaves| {
            cross_entropy(leaves, 12, smoothing).0
        });
    }
    check_slope("linear and cross-entropy", &[20, 36, 9], &|leaves| {
        linear_cross_entropy(leaves, 9, 2)
    });
}

#[test]
fn gradients_of_linear_dropout_and_activations_agree_with_finite_differences() {
    let linear = |leaves: &[Tensor<1>]| {
        let [x, weight, bias] = leaves else {
            unreachable!()
        };
        let (x, weight) = (x.clone().reshape([5, 4]), weight.clone().reshape([4, 3]));
        flat(fused::linear(x, weight, Some(bias.clone())))
    };
    check_slope("linear", &[20, 12, 3], &linear);
    check_slope("dropout", &[60], &|x| fused::dropout(x[0].clone(), 0.4));
    // On ndarray, Burn computes the sigmoid in f32, which is too coarse for these differences, and the
    // other functions have it. Below, their gradients are compared with those that Burn derives.
    let is_exact =
        |activation: &Activation| [Function::Relu, Function::Gelu].contains(&activation.function);
    for activation in Activation::all().filter(is_exact) {
        for dropout in [0.0, 0.4] {
            check_slope(&format!("{activation:?}"), &[60], &|leaves| {
                activate(leaves, activation, 10, dropout)
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_attention_agrees_with_plain_burn(
        batch in 1..4usize,
        of_keys in 1..4usize,
        group in 1..4usize,
        t in 1..30usize,
        s in prop::option::of(1..30usize),
        d_head in 1..12usize,
        mask in prop::sample::select(MASKS.to_vec()),
        has_bias: bool,
        is_unscaled: bool,
    ) {
        let (n_heads, dropout) = (of_keys * group, 0.0);
        Attention { batch, n_heads, group, t, s, d_head, mask, dropout, has_bias, is_unscaled }
            .compare();
    }

    #[test]
    fn any_norm_agrees_with_plain_burn(rows in 1..20usize, width in 2..40usize) {
        compare("layer norm", &[rows * width, width, width], &layer_norm, &layer_norm);
        compare("rms norm", &[rows * width, width], &layer_norm, &layer_norm);
    }

    #[test]
    fn any_activation_agrees_with_plain_burn(
        rows in 1..20usize,
        half in 1..20usize,
        activation in prop::sample::select(Activation::all().collect::<Vec<_>>()),
    ) {
        let act = |leaves: &[Tensor<1>]| activate(leaves, activation, 2 * half, 0.0);
        compare(&format!("{activation:?}"), &[rows * 2 * half], &act, &act);
    }

    #[test]
    fn any_loss_agrees_with_plain_burn(
        rows in 1..30usize,
        vocab_size in 2..60usize,
        smoothing in prop::sample::select(vec![0.0, 0.1, 0.5]),
    ) {
        let loss = |leaves: &[Tensor<1>]| {
            let (loss, plain) = cross_entropy(leaves, vocab_size, smoothing);
            loss + plain
        };
        compare("cross-entropy", &[rows * vocab_size], &loss, &loss);
    }

    #[test]
    fn any_loss_in_chunks_agrees_with_plain_burn(
        rows in 1..30usize,
        d_input in 1..12usize,
        vocab_size in 2..40usize,
        at_a_time in 1..40usize,
    ) {
        let loss = |leaves: &[Tensor<1>]| linear_cross_entropy(leaves, vocab_size, at_a_time);
        let sizes = [rows * d_input, d_input * vocab_size, vocab_size];
        compare("linear and cross-entropy", &sizes, &loss, &loss);
    }
}
