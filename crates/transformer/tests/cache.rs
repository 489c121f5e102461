//! Stepping with the cache is the full pass, for every step.

mod common;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use common::cpu_backends;
use transformer::attention::{KeyValue, KeyValueCache};
use transformer::generate::greedy;
use transformer::{NormPlacement, Positions, TransformerConfig, pad_sequences};

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

fn assert_same(name: &str, actual: Tensor<3>, expected: Tensor<3>) {
    common::assert_close(name, &actual.into_data(), &expected.into_data(), 2e-6);
}

#[test]
fn steps_are_the_full_pass() {
    for backend in cpu_backends() {
        let device = backend.device.without_autodiff();
        for placement in [NormPlacement::Post, NormPlacement::Pre] {
            for positions in [Positions::Sinusoidal, Positions::Learned, Positions::Rotary] {
                let config = config()
                    .with_norm_placement(placement)
                    .with_positions(positions);
                let model = config.init_seeded(3, &device).unwrap();
                let source = pad_sequences(&[vec![3, 4, 5, 6], vec![7, 8]], 0, &device);
                let rows = [vec![1, 2, 3, 4, 5, 6, 7], vec![1, 28, 27, 26, 9, 8, 0]];
                let target = pad_sequences(&rows, 0, &device);
                let memory = model.encode(source);
                let full = model.decode(target.clone(), &memory, &mut model.new_cache());

                // One by one; all at once and then one by one; in pieces. With every capacity:
                // none, too little, just enough, more.
                for pieces in [vec![1; 7], vec![4, 1, 1, 1], vec![2, 3, 2], vec![7]] {
                    for capacity in [0, 3, 7, 20] {
                        let mut cache = model.decoder.new_cache_with_capacity(capacity);
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
fn a_decoder_alone_steps_too() {
    let device = Device::flex();
    let decoder = config().init_decoder_only(&device).unwrap();
    let ids = Tensor::<2, Int>::from_data([[1, 5, 9, 13]], &device);
    let full = decoder.forward(ids.clone(), None, &mut decoder.new_cache());
    let mut cache = decoder.new_cache();
    for step in 0..4 {
        let logits = decoder.forward(ids.clone().narrow(1, step, 1), None, &mut cache);
        assert_same("decoder only", logits, full.clone().narrow(1, step, 1));
    }
}

#[test]
fn the_cache_returns_what_was_put_in() {
    let device = Device::flex();
    let piece = |begin: i64, length: i64| {
        let x = Tensor::<1, Int>::arange(begin..begin + length, &device).float();
        let x = x.reshape([1, 1, length, 1]);
        KeyValue {
            key: x.clone(),
            value: x * -1.0,
        }
    };
    for capacity in [0, 2, 9, 50] {
        let mut cache = KeyValueCache::with_capacity(capacity);
        assert!(cache.is_empty());
        let mut total = 0;
        for length in [1, 3, 1, 1, 5, 7] {
            let all = cache.append(piece(total, length));
            total += length;
            let expected: Vec<f32> = (0..total).map(|x| x as f32).collect();
            let negative: Vec<f32> = expected.iter().map(|x| -x).collect();
            assert_eq!(
                all.key.into_data().iter::<f32>().collect::<Vec<_>>(),
                expected
            );
            assert_eq!(
                all.value.into_data().iter::<f32>().collect::<Vec<_>>(),
                negative
            );
            assert_eq!(cache.len(), total as usize);
        }
    }
}

#[test]
#[should_panic(expected = "new keys are [2, 1, 1, 1], but the cache holds [1, 1, 4, 1]")]
fn another_batch_does_not_fit_the_cache() {
    let device = Device::flex();
    let piece = |batch| {
        let x = Tensor::<4>::zeros([batch, 1, 4 / batch / batch, 1], &device);
        KeyValue {
            key: x.clone(),
            value: x,
        }
    };
    let mut cache = KeyValueCache::default();
    cache.append(piece(1));
    cache.append(piece(2));
}

#[test]
fn greedy_is_the_argmax_of_the_full_pass() {
    for backend in cpu_backends() {
        let device = backend.device.without_autodiff();
        let model = config().init_seeded(8, &device).unwrap().valid();
        let source = pad_sequences(&[vec![3, 4, 5, 6], vec![7, 8], vec![9]], 0, &device);
        let eos = 2;
        let outputs = greedy(&model, source.clone(), 1, Some(eos), 9);
        assert_eq!(outputs.len(), 3);
        for (row, output) in outputs.iter().enumerate() {
            let source = source.clone().narrow(0, row, 1);
            let mut target = vec![1u32];
            for _ in 0..9 {
                let ids = pad_sequences(&[&target], 0, &device);
                let logits = model.forward(source.clone(), ids);
                let last = logits.narrow(1, target.len() - 1, 1).argmax(2);
                let next = last.into_data().iter::<u32>().next().unwrap();
                if next == eos {
                    break;
                }
                target.push(next);
            }
            assert_eq!(output, &target[1..], "row {row} on {}", backend.name);
        }
    }
}

#[test]
#[should_panic(expected = "each memory needs a new cache")]
fn a_cache_refuses_another_memory() {
    let device = Device::flex();
    let model = config().init(&device).unwrap();
    let token = Tensor::<2, Int>::ones([1, 1], &device);
    let mut cache = model.new_cache();
    for source in [vec![3, 4, 5], vec![6, 7]] {
        let memory = model.encode(pad_sequences(&[source], 0, &device));
        model.decode(token.clone(), &memory, &mut cache);
    }
}
