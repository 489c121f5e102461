//! Tests of properties that a model has with any parameters.
//!
//! Later tokens do not affect earlier outputs, padding does not affect outputs, and the order of
//! source tokens matters only through positions.

mod common;

use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::tensor::{Device, Int, Tensor};
use common::{bits, cpu_backends};
use transformer::attention::{attention_weights, scaled_dot_product_attention};
use transformer::position::{RotaryEncoding, SinusoidalEncoding};
use transformer::{
    AttentionMask, Choice, CrossEntropy, Memory, NormPlacement, Positions, Transformer,
    TransformerConfig, pad_sequences,
};

const PLACEMENTS: [NormPlacement; 2] = [NormPlacement::Post, NormPlacement::Pre];
fn config() -> TransformerConfig {
    TransformerConfig::new(23, 29)
        .with_d_model(42)
        .with_n_heads(3)
        .with_d_ff(37)
        .with_dropout(0.0)
        .with_n_encoder_layers(2)
        .with_n_decoder_layers(2)
        .with_max_len(20)
}

/// Runs `check` for every norm placement and each positional encoding on every CPU backend.
///
/// Each model is checked with and without autodiff, because attention runs different code without
/// autodiff.
fn for_all_models(check: impl Fn(&str, &Transformer, &Device)) {
    for backend in cpu_backends() {
        for placement in PLACEMENTS {
            for &positions in Positions::ALL {
                let is_grouped = matches!(positions, Positions::Rotary | Positions::Alibi);
                let config = config()
                    .with_norm_placement(placement)
                    .with_positions(positions)
                    .with_n_kv_heads(is_grouped.then_some(1));
                let name = format!("{placement:?} {positions:?} on {}", backend.name);
                let model = config.init_seeded(5, &backend.device).unwrap();
                check(&name, &model, &backend.device);
                let device = backend.device.clone().without_autodiff();
                check(&format!("{name}, fused"), &model.valid(), &device);
            }
        }
    }
}

fn ids(rows: &[&[u32]], device: &Device) -> Tensor<2, Int> {
    pad_sequences(rows, 0, device)
}

/// Returns the logits of a batch whose padding is 0.
fn logits(model: &Transformer, source: Tensor<2, Int>, target: Tensor<2, Int>) -> Tensor<3> {
    let mask = AttentionMask::padding(&source, 0);
    model.forward(source, Some(&mask), target)
}

fn largest_difference<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> f32 {
    let (a, b) = (a.into_data(), b.into_data());
    assert_eq!(a.shape(), b.shape());
    let differences = a
        .iter::<f32>()
        .zip(b.iter::<f32>())
        .map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |worst, d| {
        if d.is_nan() {
            f32::INFINITY
        } else {
            worst.max(d)
        }
    })
}

#[test]
fn later_tokens_do_not_affect_earlier_logits() {
    for_all_models(|name, model, device| {
        let source = ids(&[&[3, 4, 5, 6], &[7, 8]], device);
        let one = ids(&[&[1, 2, 3, 4, 5], &[1, 9, 8, 7, 6]], device);
        let one = logits(model, source.clone(), one);
        let other = logits(
            model,
            source,
            ids(&[&[1, 2, 3, 28, 11], &[1, 9, 8, 0, 0]], device),
        );
        let past = |logits: Tensor<3>| bits(&logits.narrow(1, 0, 3).into_data());
        assert_eq!(past(one.clone()), past(other.clone()), "{name}");
        assert!(
            largest_difference(one, other) > 1e-3,
            "{name}: the change had no effect"
        );
    });
}

#[test]
fn padding_does_not_affect_logits() {
    for_all_models(|name, model, device| {
        let source = ids(&[&[3, 4, 5, 6, 7], &[8, 9, 10, 11, 12]], device);
        let target = ids(&[&[1, 2, 3], &[1, 9, 8]], device);
        let plain = logits(model, source.clone(), target.clone());

        let padded = ids(&[&[3, 4, 5, 6, 7, 0, 0], &[8, 9, 10, 11, 12, 0, 0]], device);
        let difference = largest_difference(plain.clone(), logits(model, padded, target));
        assert!(
            difference <= 1e-6,
            "{name}: source padding changed {difference:e}"
        );

        let padded = ids(&[&[1, 2, 3, 0, 0], &[1, 9, 8, 0, 0]], device);
        let padded = logits(model, source, padded).narrow(1, 0, 3);
        let difference = largest_difference(plain, padded);
        assert!(
            difference <= 1e-6,
            "{name}: target padding changed {difference:e}"
        );
    });
}

#[test]
fn the_rows_of_a_batch_do_not_affect_each_other() {
    for_all_models(|name, model, device| {
        let sources: [&[u32]; 3] = [&[3, 4, 5, 6, 7], &[8], &[9, 10, 11]];
        let targets: [&[u32]; 3] = [&[1, 2], &[1, 9, 8, 4], &[1, 5, 6]];
        let batch = logits(model, ids(&sources, device), ids(&targets, device));
        for (row, (source, target)) in sources.iter().zip(targets).enumerate() {
            let alone = logits(model, ids(&[source], device), ids(&[target], device));
            let in_batch = batch.clone().narrow(0, row, 1).narrow(1, 0, target.len());
            let difference = largest_difference(alone, in_batch);
            assert!(difference <= 2e-6, "{name}, row {row}: {difference:e}");
        }
    });
}

#[test]
fn without_positions_the_source_is_a_set() {
    for_all_models(|name, model, device| {
        let memory = model
            .encode(ids(&[&[3, 4, 5, 6]], device), None)
            .states()
            .clone();
        let permuted = model
            .encode(ids(&[&[5, 3, 6, 4]], device), None)
            .states()
            .clone();
        let back = Tensor::<1, Int>::from_data([1, 3, 0, 2], device);
        let difference = largest_difference(memory, permuted.select(1, back));
        let is_set = name.contains("None");
        assert_eq!(difference <= 1e-5, is_set, "{name}: {difference:e}");
    });
}

#[test]
fn a_row_with_every_key_masked_is_zero_and_finite() {
    for backend in cpu_backends() {
        let device = &backend.device;
        let _guard = common::seed(device, 1);
        let leaf = || {
            let distribution = burn::tensor::Distribution::Normal(0.0, 3.0);
            Tensor::<4>::random([1, 2, 3, 4], distribution, device).require_grad()
        };
        let (q, k, v) = (leaf(), leaf(), leaf());
        let blocked = Tensor::<4, Int>::from_data([[[[0, 1, 0], [1, 1, 1], [0, 0, 1]]]], device);
        let mask = AttentionMask::from_blocked(blocked.bool());
        let weights = attention_weights(q.clone(), k.clone(), Some(&mask));
        let blind = weights.narrow(2, 1, 1).into_data();
        assert!(blind.iter::<f32>().all(|x| x == 0.0), "{}", backend.name);

        let y = scaled_dot_product_attention(q.clone(), k.clone(), v.clone(), Some(&mask));
        let blind = y.clone().narrow(2, 1, 1).into_data();
        assert!(blind.iter::<f32>().all(|x| x == 0.0), "{}", backend.name);
        // If the softmax of a fully masked row divided by a tiny number, the gradients of this
        // steep loss would overflow.
        let gradients = (y * 1e30).sum().backward();
        for x in [&q, &k, &v] {
            let gradient = x.grad(&gradients).unwrap().into_data();
            assert!(
                gradient.iter::<f32>().all(f32::is_finite),
                "{}",
                backend.name
            );
        }
        let blind = q.grad(&gradients).unwrap().narrow(2, 1, 1).into_data();
        assert!(blind.iter::<f32>().all(|x| x == 0.0), "{}", backend.name);
    }
}

#[test]
fn a_mask_gives_what_its_tensor_gives() {
    for backend in cpu_backends() {
        for device in [backend.device.clone(), backend.device.without_autodiff()] {
            let random = |length| {
                let distribution = burn::tensor::Distribution::Normal(0.0, 3.0);
                Tensor::<4>::random([2, 2, length, 4], distribution, &device)
            };
            let (q, k, v) = (random(3), random(5), random(5));
            for mask in [
                AttentionMask::causal_after(2, 3, &device),
                AttentionMask::of_lengths(&[5, 5], &device),
                AttentionMask::of_lengths(&[5, 2], &device),
            ] {
                let plain = AttentionMask::from_blocked(mask.blocked().clone());
                let [found, expected] = [&mask, &plain].map(|mask| {
                    let y =
                        scaled_dot_product_attention(q.clone(), k.clone(), v.clone(), Some(mask));
                    y.into_data()
                });
                found.assert_approx_eq(&expected, burn::tensor::Tolerance::<f32>::absolute(1e-6));
            }
        }
    }
}

#[test]
fn a_source_of_padding_alone_gives_finite_values() {
    for_all_models(|name, model, device| {
        let source = ids(&[&[3, 4], &[0, 0]], device);
        let target = ids(&[&[1, 5], &[1, 6]], device);
        let labels = ids(&[&[5, 2], &[6, 2]], device);
        let logits = logits(model, source, target);
        assert!(logits.to_data().iter::<f32>().all(f32::is_finite), "{name}");
        if device.is_autodiff() {
            let loss = CrossEntropy::new(0.1).unwrap().forward(logits, labels);
            for (path, gradient) in common::parameter_gradients(model, &loss.backward()) {
                let gradient = gradient.unwrap();
                assert!(gradient.iter::<f32>().all(f32::is_finite), "{name}: {path}");
            }
        }
    });
}

#[test]
fn a_shift_rotates_the_sinusoidal_encoding() {
    // PE(p + k) = R(k) PE(p): R(k) rotates each pair (sin, cos) by k times the pair's frequency.
    let (d, k) = (12, 7);
    let table = SinusoidalEncoding::new(60, d, &Device::flex());
    let rows: Vec<f32> = table.forward(0, 60).into_data().iter().collect();
    for p in 0..60 - k {
        for i in 0..d / 2 {
            let angle = k as f64 / 10_000f64.powf(2.0 * i as f64 / d as f64);
            let at = |p: usize| {
                (
                    f64::from(rows[p * d + 2 * i]),
                    f64::from(rows[p * d + 2 * i + 1]),
                )
            };
            let ((sin, cos), shifted) = (at(p), at(p + k));
            let turned = (
                sin * angle.cos() + cos * angle.sin(),
                cos * angle.cos() - sin * angle.sin(),
            );
            assert!((turned.0 - shifted.0).abs() < 1e-6 && (turned.1 - shifted.1).abs() < 1e-6);
        }
    }
}

#[test]
fn rotary_scores_depend_on_the_distance_alone() {
    let device = Device::flex();
    let rotary = RotaryEncoding::new(40, 10, 10_000.0, &device);
    let _guard = common::seed(&device, 1);
    let vector =
        || Tensor::<4>::random([1, 1, 1, 10], burn::tensor::Distribution::Default, &device);
    let (q, k) = (vector(), vector());
    let score = |p: usize, s: usize| {
        let q = rotary.forward(p, 1).apply(q.clone());
        let k = rotary.forward(s, 1).apply(k.clone());
        (q * k).sum().into_scalar::<f32>()
    };
    assert!((score(5, 3) - score(32, 30)).abs() < 1e-5);
    assert!((score(5, 3) - score(5, 4)).abs() > 1e-3);
    // The first pair is rotated by one radian per position.
    let x = Tensor::<4>::from_data([[[[1.0, 0.0]]]], &device);
    let turned = RotaryEncoding::new(4, 2, 10_000.0, &device)
        .forward(3, 1)
        .apply(x);
    let turned: Vec<f32> = turned.into_data().iter().collect();
    assert!((turned[0] - 3f32.cos()).abs() < 1e-6 && (turned[1] - 3f32.sin()).abs() < 1e-6);
}

#[test]
fn grouped_queries_are_heads_with_equal_keys_and_values() {
    // Widths of a head and of a model with 6 query heads. Three query heads share one key-value
    // head.
    let (d_head, width) = (4, 24);
    let config = config().with_d_model(width).with_n_heads(6);
    for backend in cpu_backends() {
        let grouped = config.clone().with_n_kv_heads(Some(2));
        let grouped = grouped.init_seeded(3, &backend.device).unwrap();
        let mut whole = config.init_seeded(3, &backend.device).unwrap();
        // Copies the columns of each key or value head of `packed` to all three heads of its group.
        // The first `before` columns, which belong to the queries, do not change.
        let spread = |packed: Tensor<2>, before: usize| {
            let head = |part: usize, head: usize| {
                let at = before + (part * 2 + head / 3) * d_head;
                packed.clone().narrow(1, at, d_head)
            };
            let keys = (0..12).map(|i| head(i / 6, i % 6));
            let first = (before > 0).then(|| packed.clone().narrow(1, 0, before));
            Tensor::cat(first.into_iter().chain(keys).collect(), 1)
        };
        let copy = |to: &mut Linear, from: &Linear, before: usize| {
            let bias = from.bias.as_ref().expect("layers have biases").val();
            let bias = spread(bias.unsqueeze(), before).squeeze_dim::<1>(0);
            to.weight = Param::from_tensor(spread(from.weight.val(), before).detach());
            to.bias = Some(Param::from_tensor(bias.detach()));
        };
        for (to, from) in whole.encoder.layers.iter_mut().zip(&grouped.encoder.layers) {
            copy(
                &mut to.self_attention.w_qkv,
                &from.self_attention.w_qkv,
                width,
            );
            to.self_attention.w_o = from.self_attention.w_o.clone();
            to.feed_forward = from.feed_forward.clone();
        }
        whole.encoder.input = grouped.encoder.input.clone();
        let source = ids(&[&[3, 4, 5, 6, 7], &[8, 9]], &backend.device);
        let mask = AttentionMask::of_lengths(&[5, 2], &backend.device);
        let encode =
            |model: &Transformer| model.encode(source.clone(), Some(&mask)).states().clone();
        let [a, b] = [&whole, &grouped].map(encode);
        assert!(largest_difference(a, b) < 1e-5, "{}", backend.name);

        let mut attention = whole.decoder.layers[0]
            .cross_attention
            .clone()
            .expect("it has one");
        let from = grouped.decoder.layers[0]
            .cross_attention
            .as_ref()
            .expect("it has one");
        copy(&mut attention.w_kv, &from.w_kv, 0);
        attention.w_q = from.w_q.clone();
        attention.w_o = from.w_o.clone();
        let memory = encode(&grouped);
        let x = memory.clone().narrow(1, 0, 3);
        let a = attention.forward(x.clone(), memory.clone(), None);
        let b = from.forward(x, memory, None);
        assert!(largest_difference(a, b) < 1e-5, "{}", backend.name);
    }
}

#[test]
fn positions_beyond_max_len_are_rejected() {
    for positions in [Positions::Sinusoidal, Positions::Learned, Positions::Rotary] {
        let device = Device::flex();
        let model = config().with_positions(positions);
        let model = model.init_seeded(1, &device).unwrap();
        let long = Tensor::<2, Int>::ones([1, 21], &device);
        let message = panic_message(|| {
            model.encode(long.clone(), None);
        });
        assert!(message.contains("0..21 exceed max_len (20)"), "{message}");

        // A decoder that has reached the last of its 20 positions also rejects a further step.
        let memory = model.encode(long.clone().narrow(1, 0, 4), None);
        let mut cache = model.new_cache();
        model.decode(long.clone().narrow(1, 0, 20), &memory, &mut cache);
        let message = panic_message(|| {
            let mut cache = cache.clone();
            model.decode(long.clone().narrow(1, 0, 1), &memory, &mut cache);
        });
        assert!(message.contains("20..21 exceed max_len (20)"), "{message}");
    }
}

#[test]
fn a_model_can_be_assembled_from_parts() {
    let device = Device::flex();
    let one = config().init_seeded(1, &device).unwrap();
    let two = config().init_seeded(2, &device).unwrap();
    let mixed = Transformer::from_parts(one.encoder.clone(), two.decoder.clone());
    let source = ids(&[&[3, 4, 5], &[6, 0, 0]], &device);
    let target = ids(&[&[1, 7], &[1, 8]], &device);
    let mask = AttentionMask::padding(&source, 0);
    let memory = one.encode(source.clone(), Some(&mask));
    let expected = two.decode(target.clone(), &memory, &mut two.new_cache());
    let logits = mixed.forward(source.clone(), Some(&mask), target);
    assert_eq!(bits(&logits.into_data()), bits(&expected.into_data()));

    // The encoder alone computes the same states from ids and from vectors.
    let on_ids = one.encoder.forward(source.clone(), Some(&mask));
    let x = one.encoder.input.forward(source, 0);
    let on_vectors = one.encoder.forward_layers(x, Some(&mask));
    let states = bits(&memory.states().to_data());
    assert_eq!(bits(&on_ids.into_data()), states);
    assert_eq!(bits(&on_vectors.into_data()), states);
}

#[test]
fn log_probabilities_are_the_log_softmax_of_the_logits() {
    let device = Device::flex();
    let _guard = common::seed(&device, 1);
    let decoder = config()
        .decoder()
        .with_cross_attention(false)
        .init(&device)
        .unwrap();
    let x = decoder.input.forward(ids(&[&[1, 7, 9]], &device), 0);
    let states = decoder.forward_layers(x, None, &mut decoder.new_cache());
    let sums = decoder.log_probabilities(states.clone()).exp().sum_dim(2);
    assert!(
        sums.into_data()
            .iter::<f32>()
            .all(|sum| (sum - 1.0).abs() < 1e-5)
    );
    let shifts = decoder.logits(states.clone()) - decoder.log_probabilities(states);
    // At each position, logits and log-probabilities differ by a constant.
    let spread = shifts.clone().max_dim(2) - shifts.min_dim(2);
    assert!(spread.max().into_scalar::<f32>() < 1e-5);
}

#[test]
fn combined_masks_are_those_written_by_hand() {
    let device = Device::flex();
    let source = ids(&[&[5, 6, 7], &[8, 0, 0]], &device);
    let mask = AttentionMask::padding(&source, 0).and(&AttentionMask::causal(3, &device));
    let blocked: Vec<bool> = mask.blocked().to_data().iter().collect();
    let (o, x) = (false, true);
    #[rustfmt::skip]
    assert_eq!(blocked, [
        o, x, x,  o, o, x,  o, o, o,
        o, x, x,  o, x, x,  o, x, x,
    ]);
    let later = AttentionMask::causal_after(2, 2, &device);
    let blocked: Vec<bool> = later.blocked().to_data().iter().collect();
    assert_eq!(blocked, [o, o, o, x, o, o, o, o]);
    let message = panic_message(|| {
        AttentionMask::causal(3, &device).and(&AttentionMask::causal(4, &device));
    });
    assert!(
        message.contains("[1, 1, 3, 3] and [1, 1, 4, 4]"),
        "{message}"
    );
    // Two sequences of one token are not padded to four.
    let message = panic_message(|| {
        let padded = AttentionMask::of_lengths_within(&[4, 4], 4, &device);
        AttentionMask::of_lengths(&[1, 1], &device).and(&padded);
    });
    assert!(
        message.contains("[2, 1, 1, 1] and [2, 1, 1, 4]"),
        "{message}"
    );
}

#[test]
fn a_decoder_needs_a_memory_exactly_if_it_has_cross_attention() {
    let device = Device::flex();
    let memory: Memory = Tensor::<3>::ones([1, 2, 42], &device).into();
    let token = Tensor::<2, Int>::ones([1, 1], &device);
    let _guard = common::seed(&device, 1);
    let with = config().decoder().init(&device).unwrap();
    let without = config()
        .decoder()
        .with_cross_attention(false)
        .init(&device)
        .unwrap();
    with.forward(token.clone(), &memory, &mut with.new_cache());
    without.forward(token.clone(), None, &mut without.new_cache());
    let message = panic_message(|| {
        with.forward(token.clone(), None, &mut with.new_cache());
    });
    assert!(
        message.contains("has cross-attention and needs a memory"),
        "{message}"
    );
    let message = panic_message(|| {
        without.forward(token.clone(), &memory, &mut without.new_cache());
    });
    assert!(
        message.contains("has no cross-attention and takes no memory"),
        "{message}"
    );
}

fn panic_message(f: impl FnOnce()) -> String {
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_err();
    payload
        .downcast_ref::<String>()
        .cloned()
        .unwrap_or_else(|| {
            payload
                .downcast_ref::<&str>()
                .map(|s| s.to_string())
                .unwrap()
        })
}

#[test]
fn a_model_with_more_positions_is_the_same_model() {
    let short = vec![4u32, 5, 6, 7];
    let padding_in_between = vec![4, 0, 0, 5, 6];
    let long: Vec<u32> = (0..50).map(|i| 4 + i % 19).collect();
    let device = Device::flex();
    for &positions in Positions::ALL {
        let config = config().with_positions(positions);
        let model = config.init_seeded(5, &device).unwrap();
        let longer = model.clone().with_max_len(50);
        let logits = |model: &Transformer, ids: &[u32]| {
            let ids = pad_sequences(&[ids], 0, &device);
            let mask = AttentionMask::padding(&ids, 0);
            bits(&model.forward(ids.clone(), Some(&mask), ids).into_data())
        };
        for ids in [&short, &padding_in_between] {
            assert_eq!(logits(&model, ids), logits(&longer, ids), "{positions}");
        }
        if positions == Positions::Learned {
            assert_eq!(longer.encoder.max_len(), Some(20));
            continue;
        }
        let built = config.with_max_len(50).init_seeded(5, &device).unwrap();
        assert_eq!(logits(&built, &long), logits(&longer, &long));
    }
}

/// Nor need it be a token of sources alone: lengths say where a source ends.
#[test]
fn the_padding_of_sources_need_not_be_a_token_of_targets() {
    let mut config = config().with_pad_id(22);
    config.target_vocab_size = 9;
    let model = config.init_seeded(5, &Device::flex()).unwrap();
    let (sources, targets) = ([vec![4, 5, 22, 0], vec![7, 0]], [vec![8], vec![3, 4, 5]]);
    let together = model.score(&sources, &targets, 1, Some(2)).unwrap();
    let alignments = model.align(&sources, &targets, 1, 1).unwrap();
    for (index, together) in together.iter().enumerate() {
        let (source, target) = (&sources[index..=index], &targets[index..=index]);
        let alone = &model.score(source, target, 1, Some(2)).unwrap()[0];
        assert!((alone.log_probability - together.log_probability).abs() < 1e-4);
        assert_eq!(alignments[index].len(), targets[index].len());
    }
}
