//! Compares attention and its gradients with attention in plain Burn.
//!
//! Also tests padding, NaN, and queries whose keys are all blocked.

mod common;

use std::sync::Mutex;

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use common::{assert_close, floats};
use fused::ScoreTerms;
use proptest::prelude::*;

/// Each test that uses the device's random generator holds this lock, since all tests share the
/// generator.
static RANDOM: Mutex<()> = Mutex::new(());

#[derive(Clone, Copy, Debug)]
enum Masking {
    None,
    Padding,
    Causal,
    /// Each query of each head has a mask of its own, and some queries see no key.
    Scattered,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    n_heads: usize,
    /// Number of query heads that share one key head and one value head.
    group: usize,
    t: usize,
    /// Number of keys; `None` for self-attention.
    s: Option<usize>,
    d_head: usize,
    masking: Masking,
    dropout: f64,
    /// Whether self-attention adds a bias to the scores.
    has_bias: bool,
    is_unscaled: bool,
}

impl Case {
    fn mask(&self) -> Option<Tensor<4, Bool>> {
        let Self {
            batch, n_heads, t, ..
        } = *self;
        let s = self.s.unwrap_or(t);
        let (shape, blocked): ([usize; 4], Vec<bool>) = match self.masking {
            Masking::None => return None,
            Masking::Padding => (
                [batch, 1, 1, s],
                (0..batch * s).map(|i| i % s > (i / s * 7) % s).collect(),
            ),
            Masking::Causal => ([1, 1, t, s], (0..t * s).map(|i| i % s > i / s).collect()),
            Masking::Scattered => (
                [batch, n_heads, t, s],
                (0..batch * n_heads * t * s)
                    .map(|i| i / s % 5 == 3 || (i * 7919) % 31 < 11)
                    .collect(),
            ),
        };
        // The mask is on the autodiff device, as the masks of a model are.
        let device = Device::flex().autodiff();
        Some(Tensor::from_data(TensorData::new(blocked, shape), &device))
    }

    /// Returns the packed inputs of self-attention or cross-attention.
    ///
    /// There are `G = H / group` key heads. For self-attention, the inputs are packed queries, keys
    /// and values `[B, T, H + 2 * G, K]`, and then the bias `[1, H, T, T]` if there is one. For
    /// cross-attention, they are queries `[B, T, H, K]`, and packed keys and values
    /// `[B, S, 2 * G, K]`.
    fn inputs(&self, device: &Device) -> Vec<Tensor<4>> {
        let Self {
            batch,
            n_heads,
            t,
            d_head,
            ..
        } = *self;
        let of_keys = n_heads / self.group;
        let tensor = |seed, shape: [usize; 4]| {
            let values = floats(shape.iter().product(), seed, 2.0);
            let tensor = Tensor::<4>::from_data(TensorData::new(values, shape), device);
            if device.is_autodiff() {
                tensor.require_grad()
            } else {
                tensor
            }
        };
        match self.s {
            None => {
                let mut inputs = vec![tensor(1, [batch, t, n_heads + 2 * of_keys, d_head])];
                inputs.extend(self.has_bias.then(|| tensor(4, [1, n_heads, t, t])));
                inputs
            }
            Some(s) => vec![
                tensor(1, [batch, t, n_heads, d_head]),
                tensor(2, [batch, s, 2 * of_keys, d_head]),
            ],
        }
    }

    fn fused(&self, inputs: &[Tensor<4>]) -> Tensor<3> {
        let mask = self.mask();
        let terms = ScoreTerms {
            mask: mask.as_ref(),
            bias: (self.s.is_none()).then(|| inputs.get(1)).flatten(),
            is_unscaled: self.is_unscaled,
        };
        match self.s {
            None => fused::self_attention(&inputs[0], self.n_heads, terms, self.dropout),
            Some(_) => fused::cross_attention(&inputs[0], &inputs[1], terms, self.dropout),
        }
        .expect("flex has it")
    }

    fn plain(&self, inputs: &[Tensor<4>]) -> Tensor<3> {
        let Self {
            batch,
            n_heads,
            t,
            d_head,
            ..
        } = *self;
        let of_keys = n_heads / self.group;
        let query = inputs[0].clone().narrow(2, 0, n_heads).swap_dims(1, 2);
        let (packed, before) = match self.s {
            None => (&inputs[0], n_heads),
            Some(_) => (&inputs[1], 0),
        };
        // Each query head uses the key head and the value head of its group.
        let [key, value] = [0, 1].map(|part| {
            let heads = (0..n_heads).map(|head| {
                let at = before + part * of_keys + head / self.group;
                packed.clone().narrow(2, at, 1)
            });
            Tensor::cat(heads.collect(), 2).swap_dims(1, 2)
        });
        let s = key.dims()[2];
        let scale = if self.is_unscaled {
            1.0
        } else {
            (d_head as f64).sqrt()
        };
        let mut scores = query.matmul(key.swap_dims(2, 3)) / scale;
        if self.s.is_none()
            && let Some(bias) = inputs.get(1)
        {
            scores = scores + bias.clone();
        }
        let weights = match self.mask() {
            None => softmax(scores, 3),
            Some(mask) => {
                let mask = mask.expand([batch, n_heads, t, s]);
                let weights = softmax(scores.mask_fill(mask.clone(), -1e30), 3);
                weights.mask_fill(mask.all_dim(3).expand([batch, n_heads, t, s]), 0.0)
            }
        };
        let weights = fused::dropout(weights, self.dropout);
        let context = weights.matmul(value).swap_dims(1, 2);
        context.reshape([batch, t, n_heads * d_head])
    }

    /// Returns the output, followed by the gradient of each input.
    ///
    /// The loss is a weighted sum of the elements of the output.
    fn run(&self, f: impl Fn(&Self, &[Tensor<4>]) -> Tensor<3>) -> Vec<TensorData> {
        let device = Device::flex().autodiff();
        let inputs = self.inputs(&device);
        device.seed(42);
        let output = f(self, &inputs);
        let shape = output.dims();
        let weights = TensorData::new(floats(shape.iter().product(), 3, 1.0), shape);
        let weighted = output.clone() * Tensor::from_data(weights, &device);
        let gradients = weighted.sum().backward();
        let mut all = vec![output.into_data()];
        all.extend(
            inputs
                .iter()
                .map(|x| x.grad(&gradients).unwrap().into_data()),
        );
        all
    }

    fn check(&self) {
        let _guard = RANDOM
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let (actual, expected) = (self.run(Self::fused), self.run(Self::plain));
        assert_eq!(actual.len(), expected.len());
        for ((actual, expected), name) in
            actual
                .iter()
                .zip(&expected)
                .zip(["y", "dx", "dkv or dbias"])
        {
            assert_eq!(actual.shape(), expected.shape(), "{name}");
            let expected: Vec<f64> = expected.iter().collect();
            assert_close(&format!("{name} of {self:?}"), actual, &expected, 2e-5);
        }
    }
}

const CASE: Case = Case {
    batch: 2,
    n_heads: 2,
    group: 1,
    t: 5,
    s: None,
    d_head: 4,
    masking: Masking::None,
    dropout: 0.0,
    has_bias: false,
    is_unscaled: false,
};

#[test]
fn several_blocks_agree_with_plain_burn() {
    // A head with 200 queries has several blocks of queries. Its attention weights have more
    // elements than a chunk of the dropout mask.
    let long = Case {
        batch: 1,
        t: 200,
        d_head: 16,
        dropout: 0.3,
        ..CASE
    };
    long.check();
    Case {
        masking: Masking::Causal,
        ..long
    }
    .check();
    Case {
        masking: Masking::Scattered,
        ..long
    }
    .check();
    Case {
        s: Some(131),
        masking: Masking::Scattered,
        ..long
    }
    .check();
}

#[test]
fn the_smallest_shapes_agree_with_plain_burn() {
    Case {
        batch: 1,
        n_heads: 1,
        t: 1,
        d_head: 1,
        ..CASE
    }
    .check();
    Case {
        s: Some(1),
        d_head: 1,
        dropout: 0.5,
        ..CASE
    }
    .check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_attention_agrees_with_plain_burn(
        batch in 1..4usize,
        of_keys in 1..4usize,
        group in 1..4usize,
        t in 1..40usize,
        s in prop::option::of(1..40usize),
        d_head in 1..20usize,
        masking in prop::sample::select(vec![
            Masking::None, Masking::Padding, Masking::Causal, Masking::Scattered,
        ]),
        dropout in prop::sample::select(vec![0.0, 0.1, 0.5]),
        has_bias: bool,
        is_unscaled: bool,
    ) {
        let n_heads = of_keys * group;
        Case { batch, n_heads, group, t, s, d_head, masking, dropout, has_bias, is_unscaled }.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_attention_of_several_blocks_agrees_with_plain_burn(
        of_keys in 1..3usize,
        group in 1..3usize,
        t in 60..300usize,
        s in prop::option::of(1..300usize),
        d_head in 1..20usize,
        masking in prop::sample::select(vec![
            Masking::Padding, Masking::Causal, Masking::Scattered,
        ]),
        dropout in prop::sample::select(vec![0.0, 0.3]),
        has_bias: bool,
    ) {
        let n_heads = of_keys * group;
        let is_unscaled = false;
        Case { batch: 2, n_heads, group, t, s, d_head, masking, dropout, has_bias, is_unscaled }
            .check();
    }
}

#[test]
fn a_query_that_sees_nothing_is_zero_and_has_no_gradient() {
    let device = Device::flex().autodiff();
    let packed = CASE.inputs(&device).remove(0);
    let mask = Tensor::<4, Bool>::from_data([[[[true]]]], &Device::flex());
    let y = fused::self_attention(&packed, CASE.n_heads, Some(&mask), 0.0).unwrap();
    let gradients = y.clone().sum().backward();
    assert!(y.into_data().iter::<f32>().all(|y| y == 0.0));
    let grad = packed.grad(&gradients).unwrap().into_data();
    assert!(grad.iter::<f32>().all(|x| x == 0.0));
}

#[test]
fn padding_changes_no_bit() {
    let inputs = CASE.inputs(&Device::flex());
    let alone = CASE.fused(&inputs).into_data();
    let padded = Tensor::cat(vec![inputs[0].clone(), inputs[0].clone().ones_like()], 1);
    let mask = Tensor::<4, Bool>::from_data(
        [[[[
            false, false, false, false, false, true, true, true, true, true,
        ]]]],
        &Device::flex(),
    );
    let y = fused::self_attention(&padded, CASE.n_heads, Some(&mask), 0.0).unwrap();
    assert_eq!(y.narrow(1, 0, 5).into_data(), alone);
}

#[test]
#[should_panic(expected = "the mask is [1, 1, 4, 5], but the scores are [2, 2, 5, 5]")]
fn a_mask_of_another_shape_is_rejected() {
    let mask = Tensor::<4, Bool>::from_data([[[[false; 5]; 4]]], &Device::flex());
    let _ = fused::self_attention(&CASE.inputs(&Device::flex())[0], 2, Some(&mask), 0.0);
}

#[test]
#[should_panic(expected = "the query is [2, 5, 2, 4], but keys and values are [2, 7, 3, 4]")]
fn keys_without_values_are_rejected() {
    let query = Tensor::<4>::zeros([2, 5, 2, 4], &Device::flex());
    let packed = Tensor::<4>::zeros([2, 7, 3, 4], &Device::flex());
    let _ = fused::cross_attention(&query, &packed, None, 0.0);
}

#[test]
#[should_panic(
    expected = "queries, keys and values have 10 heads together, which is not 4 and two times a divisor of 4"
)]
fn heads_in_other_groups_are_rejected() {
    // Four query heads cannot share three key heads.
    let packed = Tensor::<4>::zeros([2, 5, 4 + 2 * 3, 4], &Device::flex());
    let _ = fused::self_attention(&packed, 4, None, 0.0);
}

#[test]
fn nan_is_not_hidden() {
    let _guard = RANDOM
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (t, d_head) = (20, 4);
    let index = |token: usize, part: usize| (token * 3 + part) * d_head;
    // NaN in a query spoils the output of this query. NaN in a key spoils the outputs of the
    // queries that see this key: the query of the same token and all later queries.
    for (at, spoilt) in [(index(7, 0), 7..8), (index(15, 1), 15..t)] {
        let mut packed = floats(t * 3 * d_head, 1, 1.0);
        packed[at] = f32::NAN;
        let device = Device::flex().autodiff();
        let packed = Tensor::<4>::from_data(TensorData::new(packed, [1, t, 3, d_head]), &device);
        let packed = packed.require_grad();
        let blocked: Vec<bool> = (0..t * t).map(|i| i % t > i / t).collect();
        let mask = Tensor::<4, Bool>::from_data(TensorData::new(blocked, [1, 1, t, t]), &device);
        let output = fused::self_attention(&packed, 1, Some(&mask), 0.0).expect("flex has it");
        let gradients = output.clone().sum().backward();
        let output: Vec<f32> = output.into_data().iter().collect();
        for (token, output) in output.chunks(d_head).enumerate() {
            let is_nan = output.iter().all(|x| x.is_nan());
            assert_eq!(is_nan, spoilt.contains(&token), "{token}: {output:?}");
        }
        let gradient = packed.grad(&gradients).expect("it has one").into_data();
        let gradient: Vec<f32> = gradient.iter().collect();
        assert!(gradient[index(spoilt.start, 0)].is_nan());
    }
}
