//! Tests that decoding in steps with the cache computes the same logits as a full pass.

mod common;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use common::cpu_backends;
use transformer::attention::KeyValueCache;
use transformer::generate::GenerateConfig;
use transformer::{AttentionMask, NormPlacement, Positions, TransformerConfig, pad_sequences};

fn config() -> TransformerConfig {
    TransformerConfig::new(23, 29)
        .with_d_model(42)
        .with_n_heads(3)
        .with_d_ff(37)
        .with_dropout(0.1)
        .with_n_encoder_layers(2)
        .with_n_decoder_layers(2)
        .with_max_len(20)
}

/// Positional encodings, each with the `n_kv_heads` of the models that test it.
const POSITIONS: [(Positions, Option<usize>); 6] = [
    (Positions::Sinusoidal, None),
    (Positions::Learned, Some(1)),
    (Positions::Rotary, None),
    (Positions::Rotary, Some(1)),
    (Positions::Relative, None),
    (Positions::Alibi, Some(1)),
];

fn assert_same(name: &str, actual: Tensor<3>, expected: Tensor<3>) {
    common::assert_close(name, &actual.into_data(), &expected.into_data(), 2e-6);
}

#[test]
fn steps_compute_the_logits_of_the_full_pass() {
    for backend in cpu_backends() {
        let device = backend.device.without_autodiff();
        for placement in [NormPlacement::Post, NormPlacement::Pre] {
            for (positions, n_kv_heads) in POSITIONS {
                let config = config()
                    .with_norm_placement(placement)
                    .with_positions(positions)
                    .with_n_kv_heads(n_kv_heads);
                let model = config.init_seeded(3, &device).unwrap();
                let source = pad_sequences(&[vec![3, 4, 5, 6], vec![7, 8]], 0, &device);
                let rows = [vec![1, 2, 3, 4, 5, 6, 7], vec![1, 28, 27, 26, 9, 8, 0]];
                let target = pad_sequences(&rows, 0, &device);
                let mask = AttentionMask::of_lengths(&[4, 2], &device);
                let memory = model.encode(source, Some(&mask));
                let full = model.decode(target.clone(), &memory, &mut model.new_cache());

                // The 7 tokens are decoded in different ways: one at a time, first 4 and then one
                // at a time, in pieces of 2 or 3, and all at once. For each way, the initial
                // capacity of the cache is 0, too small, exact, or larger than needed.
                for pieces in [vec![1; 7], vec![4, 1, 1, 1], vec![2, 3, 2], vec![7]] {
                    for capacity in [0, 3, 7, 20] {
                        let mut cache = model.decoder.new_cache_with_capacity(2, capacity);
                        let mut begin = 0;
                        for &length in &pieces {
                            let piece = target.clone().narrow(1, begin, length);
                            let logits = model.decode(piece, &memory, &mut cache);
                            let name = format!(
                                "{placement:?} {positions:?} {pieces:?} capacity {capacity} step {begin} on {}",
                                backend.name
                            );
                            assert_same(&name, logits, full.clone().narrow(1, begin, length));
                            begin += length;
                            assert_eq!(cache.len(), begin);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn steps_of_a_decoder_alone_compute_the_logits_of_the_full_pass() {
    let device = Device::flex();
    let _guard = common::seed(&device, 1);
    let decoder = config()
        .decoder()
        .with_cross_attention(false)
        .init(&device)
        .unwrap();
    let ids = Tensor::<2, Int>::from_data([[1, 5, 9, 13]], &device);
    let full = decoder.forward(ids.clone(), None, &mut decoder.new_cache());
    let mut cache = decoder.new_cache();
    for step in 0..4 {
        let logits = decoder.forward(ids.clone().narrow(1, step, 1), None, &mut cache);
        assert_same("decoder only", logits, full.clone().narrow(1, step, 1));
    }
}

#[test]
fn the_cache_returns_the_appended_keys_and_values() {
    let device = Device::flex();
    let piece = |begin: i64, length: i64| {
        let x = Tensor::<1, Int>::arange(begin..begin + length, &device).float();
        let x = x.reshape([1, length, 1, 1]);
        Tensor::cat(vec![x.clone(), x * -1.0], 2)
    };
    for capacity in [0, 2, 9, 50] {
        let mut cache = KeyValueCache::with_capacity(1, capacity);
        assert!(cache.is_empty());
        let mut total = 0;
        for length in [1, 3, 1, 1, 5, 7] {
            let all = cache.append(piece(total, length));
            total += length;
            let all = all.narrow(1, 0, total as usize).into_data();
            let expected: Vec<f32> = (0..total).flat_map(|x| [x as f32, -x as f32]).collect();
            assert_eq!(all.iter::<f32>().collect::<Vec<_>>(), expected);
            assert_eq!(cache.len(), total as usize);
        }
    }
}

#[test]
#[should_panic(expected = "new keys and values are [1, 1, 6, 1], but the cache holds [1, 1, 4, 1]")]
fn keys_of_another_shape_are_rejected() {
    let device = Device::flex();
    let mut cache = KeyValueCache::default();
    cache.append(Tensor::zeros([1, 1, 4, 1], &device));
    cache.append(Tensor::zeros([1, 1, 6, 1], &device));
}

#[test]
fn branching_targets_compute_the_logits_of_the_full_pass() {
    for backend in cpu_backends() {
        let device = backend.device.without_autodiff();
        for (positions, n_kv_heads) in POSITIONS {
            let config = config()
                .with_positions(positions)
                .with_n_kv_heads(n_kv_heads);
            let model = config.init_seeded(3, &device).unwrap();
            let sources = [vec![3, 4, 5, 6], vec![7, 8], vec![9, 9, 9]];
            let mask = AttentionMask::of_lengths(&[4, 2, 3], &device);
            let memory = model.encode(pad_sequences(&sources, 0, &device), Some(&mask));
            for capacity in [0, 3, 20] {
                let mut cache = model.decoder.new_cache_with_capacity(capacity, capacity);
                let mut rows: Vec<(usize, Vec<u32>)> = (0..3).map(|i| (i, Vec::new())).collect();
                // The parents of the targets at steps 0 to 5. Targets branch at step 1, and the
                // targets of source 1 end at step 2. From step 3 on, only targets of source 2
                // remain. Step 4 decodes two tokens at once, and step 5 has only one target.
                for (step, parents) in [
                    vec![0, 1, 2],
                    vec![0, 0, 1, 2, 2],
                    vec![1, 0, 0, 3, 4],
                    vec![3, 4, 4],
                    vec![0, 1, 2],
                    vec![2],
                ]
                .into_iter()
                .enumerate()
                {
                    let length = if step == 4 { 2 } else { 1 };
                    // Before step 0, `branch` need not be called, since target `i` belongs to
                    // source `i`.
                    if step > 0 {
                        cache.branch(&parents);
                    }
                    let extended = parents.iter().enumerate().map(|(i, &parent)| {
                        let (source, mut row) = rows[parent].clone();
                        row.extend((0..length).map(|t| (5 + 3 * step + 2 * i + t) as u32 % 29));
                        (source, row)
                    });
                    rows = extended.collect();
                    let new: Vec<&[u32]> = rows
                        .iter()
                        .map(|(_, row)| &row[row.len() - length..])
                        .collect();
                    let ids = pad_sequences(&new, 0, &device);
                    let logits = model.decode(ids, &memory, &mut cache);
                    for (i, (source, row)) in rows.iter().enumerate() {
                        let source = pad_sequences(&[&sources[*source]], 0, &device);
                        let full = model.forward(source, None, pad_sequences(&[row], 0, &device));
                        let name = format!(
                            "{positions:?}, capacity {capacity}, step {step}, row {i} on {}",
                            backend.name
                        );
                        let actual = logits.clone().narrow(0, i, 1);
                        assert_same(&name, actual, full.narrow(1, row.len() - length, length));
                    }
                }
            }
        }
    }
}

#[test]
fn greedy_is_the_argmax_of_the_full_pass() {
    for backend in cpu_backends() {
        let device = backend.device.without_autodiff();
        let model = config().init_seeded(8, &device).unwrap().valid();
        let source = pad_sequences(&[vec![3, 4, 5, 6], vec![7, 8], vec![9]], 0, &device);
        let eos = 2;
        let config = GenerateConfig::new(9)
            .with_bos_id(Some(1))
            .with_eos_id(Some(eos));
        let sources = [vec![3, 4, 5, 6], vec![7, 8], vec![9]];
        let outputs = model.generate(&sources, &config).unwrap();
        assert_eq!(outputs.len(), 3);
        for (row, output) in outputs.iter().enumerate() {
            let source = source.clone().narrow(0, row, 1);
            let mask = AttentionMask::padding(&source, 0);
            let mut target = vec![1u32];
            for _ in 0..9 {
                let ids = pad_sequences(&[&target], 0, &device);
                let logits = model.forward(source.clone(), Some(&mask), ids);
                let last = logits.narrow(1, target.len() - 1, 1).argmax(2);
                let next = last.into_data().iter::<u32>().next().unwrap();
                if next == eos {
                    break;
                }
                target.push(next);
            }
            assert_eq!(
                output[0].tokens,
                &target[1..],
                "row {row} on {}",
                backend.name
            );
        }
    }
}

#[test]
#[should_panic(expected = "each memory needs a new cache")]
fn a_cache_rejects_another_memory() {
    let device = Device::flex();
    let model = config().init_seeded(1, &device).unwrap();
    let token = Tensor::<2, Int>::ones([1, 1], &device);
    let mut cache = model.new_cache();
    for source in [[3, 4, 5], [6, 7, 8]] {
        let memory = model.encode(pad_sequences(&[source], 0, &device), None);
        model.decode(token.clone(), &memory, &mut cache);
    }
}

#[test]
#[should_panic(expected = "the memory has 2 sources, but there are 1 targets")]
fn a_memory_of_other_sources_is_rejected() {
    let device = Device::flex();
    let model = config().init_seeded(1, &device).unwrap();
    let sources = pad_sequences(&[vec![3, 4], vec![6, 7]], 0, &device);
    let token = Tensor::<2, Int>::ones([1, 1], &device);
    model.decode(token, &model.encode(sources, None), &mut model.new_cache());
}

#[test]
#[should_panic(expected = "the parents are [4, 0], but the last step had 2 targets")]
fn a_parent_that_does_not_exist_is_rejected() {
    let device = Device::flex();
    let _guard = common::seed(&device, 1);
    let decoder = config()
        .decoder()
        .with_cross_attention(false)
        .init(&device)
        .unwrap();
    let mut cache = decoder.new_cache_with_capacity(5, 5);
    decoder.forward(Tensor::ones([2, 1], &device), None, &mut cache);
    cache.branch(&[4, 0]);
}
