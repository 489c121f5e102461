//! Tests that an inspection returns the outputs of the forward pass and the intermediate values of
//! its layers.

mod common;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use transformer::inspect::{TensorStats, top_k};
use transformer::{
    AttentionMask, NormPlacement, Positions, TransformerConfig, WeightTying, pad_sequences,
};

#[test]
fn an_inspection_returns_the_outputs_of_the_forward_pass() {
    for backend in common::cpu_backends() {
        let device = backend.device.without_autodiff();
        for (placement, positions) in [
            (NormPlacement::Post, Positions::Sinusoidal),
            (NormPlacement::Pre, Positions::Rotary),
        ] {
            let model = TransformerConfig::new(19, 19)
                .with_d_model(42)
                .with_n_heads(3)
                .with_d_ff(37)
                .with_n_encoder_layers(2)
                .with_n_decoder_layers(3)
                .with_max_len(12)
                .with_norm_placement(placement)
                .with_positions(positions)
                .with_weight_tying(WeightTying::All)
                .init_seeded(4, &device)
                .unwrap()
                .valid();
            let source = pad_sequences(&[vec![3, 4, 5, 6, 7], vec![8, 9]], 0, &device);
            let target = pad_sequences(&[vec![1, 2, 3], vec![1, 9, 8]], 0, &device);
            let mask = AttentionMask::of_lengths(&[5, 2], &device);
            let seen = model.inspect(source.clone(), Some(&mask), target.clone());
            let close = |a: Tensor<3>, b: Tensor<3>| {
                common::assert_close("inspection", &a.into_data(), &b.into_data(), 2e-6);
            };
            close(
                seen.memory,
                model.encode(source.clone(), Some(&mask)).states().clone(),
            );
            close(seen.logits, model.forward(source, Some(&mask), target));

            assert_eq!((seen.encoder.len(), seen.decoder.len()), (2, 3));
            for layer in &seen.encoder {
                assert_eq!(layer.self_attention.dims(), [2, 3, 5, 5]);
                assert_eq!(layer.feed_forward_input.dims(), [2, 5, 42]);
                assert!(layer.cross_attention.is_none());
                assert_rows_sum_to_one(&layer.self_attention);
                // The padding of the second source has attention weight 0.
                let padding = layer.self_attention.clone().narrow(0, 1, 1).narrow(3, 2, 3);
                assert_eq!(padding.max().into_scalar::<f32>(), 0.0);
            }
            for layer in &seen.decoder {
                let cross = layer.cross_attention.as_ref().unwrap();
                assert_eq!(layer.self_attention.dims(), [2, 3, 3, 3]);
                assert_eq!(cross.dims(), [2, 3, 3, 5]);
                assert_rows_sum_to_one(&layer.self_attention);
                assert_rows_sum_to_one(cross);
                // The first token attends only to itself.
                let first = layer.self_attention.clone().narrow(2, 0, 1).narrow(3, 0, 1);
                let ones = first.into_data();
                assert!(ones.iter::<f32>().all(|x| (x - 1.0).abs() < 1e-6));
            }
        }
    }
}

fn assert_rows_sum_to_one(weights: &Tensor<4>) {
    let sums = weights.clone().sum_dim(3).into_data();
    assert!(sums.iter::<f32>().all(|sum| (sum - 1.0).abs() < 1e-5));
}

#[test]
fn the_feed_forward_input_is_that_of_the_network() {
    let device = Device::flex();
    let model = TransformerConfig::new(9, 9)
        .with_d_model(6)
        .with_n_heads(2)
        .with_d_ff(5)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(1)
        .with_max_len(4)
        .with_norm_placement(NormPlacement::Pre)
        .with_final_norm(false)
        .init_seeded(1, &device)
        .unwrap();
    let source = pad_sequences(&[vec![3, 4]], 0, &device);
    let seen = model.inspect(source, None, pad_sequences(&[vec![1]], 0, &device));
    let layer = &model.encoder.layers[0];
    // With pre-norm and no final norm, memory = x + FFN(norm(x)). The inspection returns norm(x) as
    // `feed_forward_input`.
    let input = seen.encoder[0].feed_forward_input.clone();
    let x = seen.memory - layer.feed_forward.forward(input.clone());
    let again = layer.feed_forward_residual.norm.forward(x);
    common::assert_close("input", &again.into_data(), &input.into_data(), 1e-5);
}

#[test]
fn statistics_are_those_computed_by_hand() {
    let x = Tensor::<2>::from_data([[1.0, 2.0], [3.0, 6.0]], &Device::flex());
    let stats = TensorStats::of(&x);
    assert_eq!((stats.mean, stats.min, stats.max), (3.0, 1.0, 6.0));
    // The squares of the deviations -2, -1, 0 and 3 sum to 14, which is divided by n - 1 = 3.
    assert!((stats.std - (14f64 / 3.0).sqrt()).abs() < 1e-12);
}

#[test]
fn the_likeliest_tokens_are_those_computed_by_hand() {
    let ln = |x: f32| x.ln();
    let logits = Tensor::<3>::from_data(
        [[[ln(0.1), ln(0.6), ln(0.3)], [ln(0.25), ln(0.5), ln(0.25)]]],
        &Device::flex(),
    );
    let best = top_k(logits, 2);
    let ids: Vec<Vec<u32>> = best[0]
        .iter()
        .map(|position| position.iter().map(|c| c.id).collect())
        .collect();
    assert_eq!(ids, [[1, 2], [1, 0]]);
    let probabilities: Vec<f32> = best[0][0].iter().map(|c| c.probability).collect();
    assert!((probabilities[0] - 0.6).abs() < 1e-6 && (probabilities[1] - 0.3).abs() < 1e-6);
}
