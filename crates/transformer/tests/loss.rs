//! Tests that `Transformer::loss` is the loss of the logits that `forward` returns: to the last bit
//! if it computes all logits at once, and up to rounding if it computes them in chunks.

mod common;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{DType, Device, FloatDType, Int, Tensor, TensorData};
use common::{assert_close, cpu_backends, parameter_gradients, seed};
use transformer::loss::LossSum;
use transformer::{
    AttentionMask, CrossEntropy, IGNORE_INDEX, Positions, Transformer, TransformerConfig,
    WeightTying, pad_sequences,
};

const PAD: u32 = 0;

fn config() -> TransformerConfig {
    TransformerConfig::new(13, 13)
        .with_d_model(12)
        .with_n_heads(3)
        .with_d_ff(20)
        .with_n_encoder_layers(2)
        .with_n_decoder_layers(2)
}

fn criterion() -> CrossEntropy {
    CrossEntropy::new(0.1).unwrap()
}

/// Returns the source, target and labels of three examples of different lengths, with 8 labels in
/// total.
fn batch(device: &Device) -> [Tensor<2, Int>; 3] {
    let source = [vec![5, 6, 7, 8, 9], vec![10, 3], vec![4, 4, 4]];
    let target = [vec![1, 7, 6], vec![1, 11, 12, 3], vec![1]];
    let labels = [vec![7, 6, 2], vec![11, 12, 3, 2], vec![2]];
    [
        pad_sequences(&source, PAD, device),
        pad_sequences(&target, PAD, device),
        pad_sequences(&labels, IGNORE_INDEX, device),
    ]
}

/// Returns the mask of the sources of [`batch`].
fn mask(device: &Device) -> AttentionMask {
    AttentionMask::of_lengths(&[5, 2, 3], device)
}

/// Returns the sum of the loss, and the gradients of all parameters with their paths.
fn values(loss: LossSum, model: &Transformer) -> (TensorData, Vec<(String, TensorData)>) {
    assert_eq!(loss.tokens.into_scalar::<f32>(), 8.0);
    let gradients = parameter_gradients(model, &loss.sum.backward());
    let gradients = gradients.into_iter().map(|(path, gradient)| {
        let gradient = gradient.unwrap_or_else(|| panic!("{path} has no gradient"));
        (path, gradient)
    });
    (loss.sum.into_data(), gradients.collect())
}

/// Runs `test` on each CPU backend, with shared and with separate vocabulary matrices.
fn for_each_model(test: impl Fn(&str, &Transformer, &Device)) {
    for backend in cpu_backends() {
        for tying in [WeightTying::None, WeightTying::All] {
            let config = config().with_weight_tying(tying);
            let model = config.init_seeded(7, &backend.device).unwrap();
            let _guard = seed(&backend.device, 5);
            test(backend.name, &model, &backend.device);
        }
    }
}

#[test]
fn the_loss_is_that_of_all_logits_to_the_last_bit() {
    for_each_model(|name, model, device| {
        let [source, target, labels] = batch(device);
        // The same seed drops the same elements in both passes.
        device.seed(5);
        let logits = model.forward(source.clone(), Some(&mask(device)), target.clone());
        let plain = CrossEntropy::new(0.0).unwrap();
        let plain = plain.sum(logits.clone(), labels.clone()).sum.into_data();
        let expected = criterion().sum(logits, labels.clone());
        device.seed(5);
        let actual = model.loss(
            source,
            Some(&mask(device)),
            target,
            labels,
            &criterion(),
            None,
        );
        assert_eq!(actual.unsmoothed.to_data(), plain, "{name}");
        assert_eq!(values(actual, model), values(expected, model), "{name}");
    });
}

#[test]
fn the_loss_in_chunks_is_that_of_the_states_to_the_last_bit() {
    for_each_model(|name, model, device| {
        for chunk in [1, 5, 12, 100] {
            let [source, target, labels] = batch(device);
            device.seed(5);
            let memory = model.encode(source.clone(), Some(&mask(device)));
            let x = model.decoder.input.forward(target.clone(), 0);
            let cache = &mut model.new_cache();
            let states = model.decoder.forward_layers(x, &memory, cache);
            let labels_again = labels.clone();
            let expected = criterion().sum_in_chunks(&model.decoder, states, labels_again, chunk);
            device.seed(5);
            let actual = model.loss(
                source,
                Some(&mask(device)),
                target,
                labels,
                &criterion(),
                Some(chunk),
            );
            let (actual, expected) = (values(actual, model), values(expected, model));
            assert_eq!(actual, expected, "{name}: chunks of {chunk}");
        }
    });
}

#[test]
fn the_loss_in_chunks_is_close_to_that_of_all_logits() {
    for_each_model(|name, model, device| {
        let loss = |chunk| {
            let [source, target, labels] = batch(device);
            device.seed(5);
            let loss = model.loss(
                source,
                Some(&mask(device)),
                target,
                labels,
                &criterion(),
                chunk,
            );
            values(loss, model)
        };
        let (all, all_gradients) = loss(None);
        for chunk in [1, 5, 12, 100] {
            let (sum, gradients) = loss(Some(chunk));
            let name = format!("{name}: chunks of {chunk}");
            // The two losses add the same terms in a different order, so they differ by rounding.
            assert_close(&name, &sum, &all, 1e-5 * all.iter::<f32>().next().unwrap());
            for ((path, actual), (_, expected)) in gradients.iter().zip(&all_gradients) {
                let largest = expected.iter::<f32>().fold(0.0, |m: f32, x| m.max(x.abs()));
                let tolerance = (1e-4 * largest).max(1e-6);
                assert_close(&format!("{name}: {path}"), actual, expected, tolerance);
            }
        }
    });
}

#[test]
fn a_model_in_half_precision_computes_its_loss_in_f32() {
    struct Cast;
    impl ModuleMapper for Cast {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|tensor| tensor.cast(FloatDType::BF16))
        }
    }
    let device = Device::flex();
    // The positions are learned, so the position tables are parameters and are also cast to bf16.
    let config = config().with_positions(Positions::Learned).with_max_len(8);
    let half = config.init_seeded(7, &device).unwrap().map(&mut Cast);
    let [source, target, labels] = batch(&device);
    let logits = half.forward(source.clone(), Some(&mask(&device)), target.clone());
    assert_eq!(logits.dtype(), DType::BF16);
    let expected = criterion().sum(logits.cast(FloatDType::F32), labels.clone());
    for chunk in [None, Some(3)] {
        let [source, target, labels] = [&source, &target, &labels].map(Tensor::clone);
        let actual = half.loss(
            source,
            Some(&mask(&device)),
            target,
            labels,
            &criterion(),
            chunk,
        );
        assert_eq!(actual.sum.dtype(), DType::F32);
        assert_eq!(actual.sum.into_data(), expected.sum.to_data());
    }
}

/// In many published models, the end symbol is also the padding. It has its loss all the same.
#[test]
fn a_label_with_the_id_of_padding_counts() {
    let device = Device::flex().autodiff();
    let logits = [[0.5f32, -1.0, 2.0], [1.5, 0.0, -0.5], [3.0, 3.0, 3.0]];
    let logits = Tensor::<2>::from_data(logits, &device).unsqueeze::<3>();
    let labels = pad_sequences(&[vec![2, 0], vec![1, 2, 1]], IGNORE_INDEX, &device);
    let labels = labels.narrow(0, 0, 1);
    let loss = CrossEntropy::new(0.0).unwrap().sum(logits, labels);
    assert_eq!(loss.tokens.into_scalar::<f32>(), 2.0);
    let log_p = |logits: [f64; 3], label: usize| {
        logits[label] - logits.iter().map(|x| x.exp()).sum::<f64>().ln()
    };
    let expected = -log_p([0.5, -1.0, 2.0], 2) - log_p([1.5, 0.0, -0.5], 0);
    assert!((f64::from(loss.sum.into_scalar::<f32>()) - expected).abs() < 1e-6);
}
