//! Attention of sequences, and of one query with a cache.

use burn::tensor::{Bool, Device, Tensor, TensorData};
use fused::CacheIndex;

use super::common::assert_close;
use super::random::{Random, dropout_mask, leaf, lock, tensor};
use super::report;

/// One head: queries `[T, K]`, keys and values `[S, K]`, the attention mask `[T, S]` (`true` =
/// blocked), and the dropout mask of the weights `[T, S]` (0, or the factor of a weight that is
/// kept).
struct Head {
    d_head: usize,
    query: Vec<f64>,
    key: Vec<f64>,
    value: Vec<f64>,
    blocked: Vec<bool>,
    dropout: Vec<f64>,
}

impl Head {
    fn dot(&self, a: &[f64], i: usize, b: &[f64], j: usize) -> f64 {
        let d = self.d_head;
        let (a, b) = (&a[i * d..][..d], &b[j * d..][..d]);
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    /// Returns the weights of a query before dropout: zeros if all keys are blocked.
    fn weights(&self, query: usize) -> Vec<f64> {
        let s = self.key.len() / self.d_head;
        let scale = (self.d_head as f64).sqrt();
        let score = |key: usize| {
            if self.blocked[query * s + key] {
                f64::NEG_INFINITY
            } else {
                self.dot(&self.query, query, &self.key, key) / scale
            }
        };
        let scores: Vec<f64> = (0..s).map(score).collect();
        let largest = scores.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x));
        if largest == f64::NEG_INFINITY {
            return vec![0.0; s];
        }
        let sum: f64 = scores.iter().map(|x| (x - largest).exp()).sum();
        scores.iter().map(|x| (x - largest).exp() / sum).collect()
    }

    /// Returns the output, and the gradients of queries, keys and values.
    ///
    /// `d_output` is the gradient of the output.
    fn run(&self, d_output: &[f64]) -> [Vec<f64>; 4] {
        let (d, scale) = (self.d_head, (self.d_head as f64).sqrt());
        let s = self.key.len() / d;
        let mut output = vec![0.0; self.query.len()];
        let mut d_query = vec![0.0; self.query.len()];
        let (mut d_key, mut d_value) = (vec![0.0; self.key.len()], vec![0.0; self.key.len()]);
        for t in 0..self.query.len() / d {
            let weights = self.weights(t);
            let kept = &self.dropout[t * s..][..s];
            let d_weights: Vec<f64> = (0..s)
                .map(|key| kept[key] * self.dot(d_output, t, &self.value, key))
                .collect();
            let mean: f64 = (0..s).map(|key| weights[key] * d_weights[key]).sum();
            for key in 0..s {
                let d_score = weights[key] * (d_weights[key] - mean) / scale;
                let weight = weights[key] * kept[key];
                for i in 0..d {
                    output[t * d + i] += weight * self.value[key * d + i];
                    d_value[key * d + i] += weight * d_output[t * d + i];
                    d_query[t * d + i] += d_score * self.key[key * d + i];
                    d_key[key * d + i] += d_score * self.query[t * d + i];
                }
            }
        }
        [output, d_query, d_key, d_value]
    }
}

/// The position of a head in a tensor `[B, T, parts, K]`.
///
/// Each part is one head of the queries, keys or values that the tensor packs.
#[derive(Clone, Copy)]
struct Place {
    batch: usize,
    part: usize,
    /// The tensor's sizes `T`, `parts` and `K`.
    sizes: [usize; 3],
}

impl Place {
    fn rows(self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let [t, parts, d] = self.sizes;
        let first = move |row: usize| ((self.batch * t + row) * parts + self.part) * d;
        (0..t).map(move |row| first(row)..first(row) + d)
    }

    fn take(self, from: &[f64]) -> Vec<f64> {
        self.rows().flat_map(|row| from[row].to_vec()).collect()
    }

    fn add(self, head: &[f64], to: &mut [f64]) {
        for (row, head) in self.rows().zip(head.chunks(self.sizes[2])) {
            for (to, head) in to[row].iter_mut().zip(head) {
                *to += head;
            }
        }
    }
}

/// Returns a random attention mask (`true` = blocked) and its shape, or `None` for attention
/// without a mask.
///
/// The mask is causal, hides padding, or blocks arbitrary keys and all keys of some queries.
fn blocked(random: &mut Random, [b, h, t, s]: [usize; 4]) -> Option<(Vec<bool>, [usize; 4])> {
    match random.below(4) {
        0 => None,
        1 => Some(((0..t * s).map(|i| i % s > i / s).collect(), [1, 1, t, s])),
        2 => {
            let lengths: Vec<usize> = (0..b).map(|_| random.size(s)).collect();
            let is_blocked = |i: usize| i % s >= lengths[i / s];
            Some(((0..b * s).map(is_blocked).collect(), [b, 1, 1, s]))
        }
        _ => {
            let rows: Vec<bool> = (0..b * h * t).map(|_| random.below(7) == 0).collect();
            let is_blocked = |i: usize| rows[i / s] || random.below(3) == 0;
            Some(((0..b * h * t * s).map(is_blocked).collect(), [b, h, t, s]))
        }
    }
}

fn mask(blocked: &(Vec<bool>, [usize; 4]), device: &Device) -> Tensor<4, Bool> {
    Tensor::from_data(TensorData::new(blocked.0.clone(), blocked.1), device)
}

/// Checks one case of self-attention, or of cross-attention if `s`, the number of keys, is given.
///
/// The sizes are `[B, G, T, K]`, where `G` is the number of key heads. Each key head is shared by
/// `group` query heads.
fn check(random: &mut Random, seed: u64, [b, g, t, d]: [usize; 4], group: usize, s: Option<usize>) {
    let h = g * group;
    let dropout = [0.0, 0.3][random.below(2)];
    let (keys, first) = (s.unwrap_or(t), if s.is_some() { 0 } else { h });
    let scores = [b, h, t, keys];
    let blocked = blocked(random, scores);
    let kept = dropout_mask(seed, scores, dropout);
    let parts = first + 2 * g;
    let packed = random.numbers(b * keys * parts * d, 2.0);
    let query = random.numbers(if s.is_some() { b * t * h * d } else { 0 }, 2.0);
    let d_output = random.numbers(b * t * h * d, 1.0);

    let device = Device::flex().autodiff();
    let mask = blocked.as_ref().map(|blocked| mask(blocked, &device));
    let packed_leaf = leaf(&packed, [b, keys, parts, d]);
    let query_leaf = s.map(|_| leaf(&query, [b, t, h, d]));
    device.seed(seed);
    let output = match &query_leaf {
        None => fused::self_attention(&packed_leaf, h, mask.as_ref(), dropout),
        Some(query) => fused::cross_attention(query, &packed_leaf, mask.as_ref(), dropout),
    }
    .expect("flex has it");
    let weights = tensor(&d_output, [b, t, h * d], &device);
    let gradients = (output.clone() * weights).sum().backward();
    let output = output.into_data();
    let d_packed = packed_leaf.grad(&gradients).unwrap().into_data();
    let d_query = query_leaf.map(|query| query.grad(&gradients).unwrap().into_data());

    let mut expected = [&d_output, &packed, &query].map(|like| vec![0.0; like.len()]);
    let is_blocked = |batch: usize, head: usize, i: usize| {
        let Some((all, shape)) = &blocked else {
            return false;
        };
        let at = [batch, head, i / keys, i % keys];
        let index = (0..4).fold(0, |n, axis| n * shape[axis] + at[axis] % shape[axis]);
        all[index]
    };
    for (batch, head) in (0..b * h).map(|i| (i / h, i % h)) {
        let place = |t: usize, parts: usize, part: usize| Place {
            batch,
            part,
            sizes: [t, parts, d],
        };
        let own = place(t, h, head);
        let [key, value] = [0, g].map(|part| place(keys, parts, first + part + head / group));
        let in_packed = place(keys, parts, head);
        let weights = (batch * h + head) * t * keys;
        let of = Head {
            d_head: d,
            query: match s {
                None => in_packed.take(&packed),
                Some(_) => own.take(&query),
            },
            key: key.take(&packed),
            value: value.take(&packed),
            blocked: (0..t * keys).map(|i| is_blocked(batch, head, i)).collect(),
            dropout: kept[weights..][..t * keys].to_vec(),
        };
        let [output, d_query, d_key, d_value] = of.run(&own.take(&d_output));
        own.add(&output, &mut expected[0]);
        key.add(&d_key, &mut expected[1]);
        value.add(&d_value, &mut expected[1]);
        match s {
            None => in_packed.add(&d_query, &mut expected[1]),
            Some(_) => own.add(&d_query, &mut expected[2]),
        }
    }
    let name = |of: &str| {
        format!("{of}, [{b}, {h}, {t}, {d}], {g} heads and {s:?} keys, dropout {dropout}")
    };
    assert_close(&name("output"), &output, &expected[0], 1e-5);
    assert_close(&name("dpacked"), &d_packed, &expected[1], 2e-5);
    report("attention", &[&output, &d_packed]);
    if let Some(d_query) = d_query {
        assert_close(&name("dquery"), &d_query, &expected[2], 2e-5);
        report("cross_attention", &[&d_query]);
    }
}

#[test]
fn attention() {
    let mut random = Random::new(41);
    let _guard = lock();
    for seed in 0..60 {
        // Some sequences need several blocks of queries.
        let most = if seed % 6 == 0 { 200 } else { 40 };
        let [b, g, d] = [random.size(3), random.size(3), random.size(33)];
        let group = if seed % 3 == 0 { random.size(3) } else { 1 };
        let (t, s) = (random.size(most), random.flip().then(|| random.size(most)));
        check(&mut random, seed, [b, g, t, d], group, s);
    }
}

#[test]
fn attention_step() {
    let mut random = Random::new(42);
    for _ in 0..80 {
        let [rows, g, d] = [random.size(20), random.size(4), random.size(65)];
        let group = if random.flip() { random.size(3) } else { 1 };
        let h = g * group;
        let [n, length] = [random.size(9), random.size(65)];
        let capacity = length + random.below(4);
        let query = random.numbers(rows * h * d, 2.0);
        let packed = random.numbers(n * capacity * 2 * g * d, 2.0);
        let by_token = random.flip();
        let count = if by_token { rows * length } else { rows };
        let index: Vec<u32> = (0..count).map(|_| random.below(n) as u32).collect();
        let index = if by_token {
            CacheIndex::Tokens(&index)
        } else {
            CacheIndex::Rows(&index)
        };
        let source = |row: usize, key: usize| match index {
            CacheIndex::Tokens(index) => index[row * length + key] as usize,
            CacheIndex::Rows(index) => index[row] as usize,
        };
        // The mask has one row for each row of the cache. It is tested only where all keys of a
        // target are in the same cache row.
        let blocked = (!by_token && random.flip()).then(|| {
            let blocked = (0..n * length).map(|_| random.below(3) == 0).collect();
            (blocked, [n, 1, 1, length])
        });
        let device = Device::flex();
        let output = fused::attention_step(
            &tensor(&query, [rows, 1, h, d], &device),
            &tensor(&packed, [n, capacity, 2 * g, d], &device),
            index,
            length,
            blocked
                .as_ref()
                .map(|blocked| mask(blocked, &device))
                .as_ref(),
        );
        let output = output.expect("flex has it").into_data();
        let mut expected = Vec::new();
        for (row, head) in (0..rows * h).map(|i| (i / h, i % h)) {
            let gather = |part: usize| -> Vec<f64> {
                let at =
                    |key: usize| (source(row, key) * capacity + key) * 2 * g + part + head / group;
                (0..length)
                    .flat_map(|key| packed[at(key) * d..][..d].to_vec())
                    .collect()
            };
            let is_blocked = |key: usize| match &blocked {
                Some((all, _)) => all[source(row, key) * length + key],
                None => false,
            };
            let of = Head {
                d_head: d,
                query: query[(row * h + head) * d..][..d].to_vec(),
                key: gather(0),
                value: gather(g),
                blocked: (0..length).map(is_blocked).collect(),
                dropout: vec![1.0; length],
            };
            let [output, ..] = of.run(&vec![0.0; d]);
            expected.extend(output);
        }
        let name = format!("[{rows}, {h}, {d}], {length} keys, cache [{n}, {capacity}]");
        assert_close(&name, &output, &expected, 1e-5);
        report("attention_step", &[&output]);
    }
}
