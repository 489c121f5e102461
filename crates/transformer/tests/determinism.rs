//! Tests that the same seed gives the same parameters and losses when a model is trained with
//! dropout.
//!
//! This test has a program of its own, because flex has one random generator per process.

mod common;

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::Device;
use common::{bits, cpu_backends, parameters};
use transformer::{AttentionMask, CrossEntropy, IGNORE_INDEX, TransformerConfig, pad_sequences};

fn train(device: &Device, seed: u64) -> (Vec<u32>, Vec<Vec<u32>>) {
    device.seed(seed);
    let mut model = TransformerConfig::new(11, 11)
        .with_d_model(12)
        .with_n_heads(3)
        .with_d_ff(7)
        .with_dropout(0.2)
        .with_n_encoder_layers(2)
        .with_n_decoder_layers(2)
        .with_max_len(8)
        .init(device)
        .unwrap();
    let mut optimizer = AdamConfig::new().init();
    let source = pad_sequences(&[vec![3, 4, 5, 6], vec![7, 8]], 0, device);
    let target = pad_sequences(&[vec![1, 3, 4, 5, 6], vec![1, 7, 8]], 0, device);
    let labels = pad_sequences(&[vec![3, 4, 5, 6, 2], vec![7, 8, 2]], IGNORE_INDEX, device);
    let mask = AttentionMask::of_lengths(&[4, 2], device);
    let criterion = CrossEntropy::new(0.1).unwrap();
    let mut losses = Vec::new();
    for _ in 0..8 {
        let loss = criterion.forward(
            model.forward(source.clone(), Some(&mask), target.clone()),
            labels.clone(),
        );
        losses.push(loss.clone().into_scalar::<f32>().to_bits());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-2, model, gradients);
    }
    let params = parameters(&model.valid());
    (losses, params.iter().map(|(_, data)| bits(data)).collect())
}

#[test]
fn a_seed_repeats_a_training() {
    for backend in cpu_backends() {
        let once = train(&backend.device, 1);
        assert_eq!(once, train(&backend.device, 1), "{}", backend.name);
        let (losses, _) = train(&backend.device, 2);
        assert_ne!(once.0, losses, "{}", backend.name);
        let distinct: std::collections::HashSet<_> = once.0.iter().collect();
        assert_eq!(distinct.len(), 8, "the parameters do not change");
    }
}
