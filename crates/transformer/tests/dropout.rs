//! Tests that dropout is applied where Vaswani et al. (2017, section 5.4) and common
//! implementations apply it, and only in training.
//!
//! The file also tests embeddings and learned positions.

mod common;

use burn::module::Module;
use burn::tensor::{Device, Distribution, Int, Tensor};
use transformer::attention::CrossAttention;
use transformer::generate::GenerateConfig;
use transformer::weights::{parameters, with_parameters};
use transformer::{AttentionMask, Memory, Positions, Transformer, TransformerConfig};

/// Returns two models with the same parameters, the first with dropout and the second without.
fn models(device: &Device) -> (Transformer, Transformer) {
    let config = TransformerConfig::new(31, 31)
        .with_d_model(24)
        .with_n_heads(3)
        .with_d_ff(20)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(1)
        .with_max_len(16);
    let with = config.clone().with_dropout(0.5);
    let without = config.with_dropout(0.0);
    (
        with.init_seeded(1, device).unwrap(),
        without.init_seeded(1, device).unwrap(),
    )
}

fn difference(a: Tensor<3>, b: Tensor<3>) -> f32 {
    (a.inner() - b.inner()).abs().max().into_scalar::<f32>()
}

#[test]
fn every_sublayer_drops_in_training_only() {
    for backend in common::cpu_backends() {
        let device = &backend.device;
        let _guard = common::seed(device, 1);
        let (with, without) = models(device);
        let x = Tensor::<3>::random([4, 9, 24], Distribution::Normal(0.0, 1.0), device);
        let memory = Tensor::<3>::random([4, 7, 24], Distribution::Normal(0.0, 1.0), device);
        let cross = |model: &Transformer| -> CrossAttention {
            model.decoder.layers[0].cross_attention.clone().unwrap()
        };
        type Site<'a> = (
            &'a str,
            Box<dyn Fn(&Transformer, Tensor<3>, Tensor<3>) -> Tensor<3> + 'a>,
        );
        let sites: [Site; 4] = [
            (
                "self-attention weights",
                Box::new(|m, x, _| m.encoder.layers[0].self_attention.forward(x, None, None)),
            ),
            (
                "cross-attention weights",
                Box::new(move |m, x, memory| cross(m).forward(x, memory, None)),
            ),
            (
                "feed-forward activation",
                Box::new(|m, x, _| m.encoder.layers[0].feed_forward.forward(x)),
            ),
            (
                "sublayer output",
                Box::new(|m, x, _| m.encoder.layers[0].feed_forward_residual.forward(x, |x| x)),
            ),
        ];
        for (name, run) in sites {
            let name = format!("{name} on {}", backend.name);
            let plain = run(&without, x.clone(), memory.clone());
            let dropped = difference(run(&with, x.clone(), memory.clone()), plain.clone());
            assert!(dropped > 1e-2, "{name}: nothing was dropped");
            let valid = run(&with.valid(), x.clone().inner(), memory.clone().inner());
            let kept = (valid - plain.inner()).abs().max().into_scalar::<f32>();
            assert!(kept < 1e-5, "{name}: dropped {kept} outside training");
        }
    }
}

#[test]
fn kept_elements_of_the_input_are_scaled_up() {
    let device = Device::flex().autodiff();
    let _guard = common::seed(&device, 1);
    let (with, without) = models(&device);
    let ids = some_ids(&device);
    let dropped = with.encoder.input.forward(ids.clone(), 0).into_data();
    let plain = without.encoder.input.forward(ids, 0).into_data();
    let mut zeros = 0;
    for (dropped, plain) in dropped.iter::<f32>().zip(plain.iter::<f32>()) {
        zeros += usize::from(dropped == 0.0);
        assert!(dropped == 0.0 || (dropped - 2.0 * plain).abs() < 1e-5);
    }
    let share = zeros as f64 / (2.0 * 15.0 * 24.0);
    assert!((share - 0.5).abs() < 0.1, "{share} was dropped");
}

#[test]
fn a_model_without_autodiff_never_drops_whatever_it_is_given() {
    for backend in common::cpu_backends() {
        let (device, plain) = (&backend.device, backend.device.clone().inner());
        let _guard = common::seed(device, 1);
        let (model, _) = models(&plain);
        let mask = AttentionMask::of_lengths_within(&[2], 3, device);
        let forward = |model: &Transformer, device: &Device| {
            let ids = |ids| Tensor::<2, Int>::from_data([ids], device);
            model.forward(ids([3, 4, 5]), Some(&mask), ids([1, 6, 7]))
        };
        let expected = forward(&model, &plain);
        for device in [device, &plain] {
            let again = forward(&model, device);
            assert!(difference(again, expected.clone()) < 1e-5);
        }
        let states = Tensor::random([1, 3, 24], Distribution::Default, device);
        let memory = Memory::new(states, mask.clone());
        let config = GenerateConfig::new(5).with_bos_id(Some(1));
        let complete = || model.decoder.complete(&memory, &[[3]], &config).unwrap();
        assert_eq!(complete(), complete());
        let score = || model.decoder.score(&memory, &[[1, 5, 6]]).unwrap();
        assert_eq!(score(), score());
        // In training, it does.
        let model = model.train();
        assert!(difference(forward(&model, device), forward(&model, device)) > 0.0);
    }
}

/// Checks that a backward pass drops the elements that its forward pass dropped.
///
/// Attention is linear in its values, and `relu(c x) = c relu(x)` for `c > 0`. Let `x` be the
/// values of attention, or the input of ReLU: multiplying `x` by `c` multiplies the loss by `c`.
/// Therefore, the sum of `x * gradient` over all elements equals the loss, unless the forward and
/// the backward pass drop different elements.
#[test]
fn backward_passes_drop_what_their_forward_passes_dropped() {
    // Turns fast paths on, even if the environment variable `FUSED_FAST_PATHS` turns them off. The
    // test is about the fast paths, since in plain Burn, both passes use the same dropout mask.
    let _fast_paths = fused::fast_paths(true);
    // On backends other than flex, the forward pass keeps the attention weights for the backward
    // pass if there are fewer than 1,024 keys. For 1,024 keys or more, the backward pass computes
    // the weights again.
    for (backend, s) in common::backends()
        .iter()
        .flat_map(|backend| [(backend, 40), (backend, 1100)])
    {
        let device = &backend.device;
        let _guard = common::seed(device, 1);
        let normal = |shape| Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), device);
        let query = normal([2, 5, 2, 4]);
        let packed = normal([2, s, 4, 4]).require_grad();
        let Some(y) = fused::cross_attention(&query, &packed, None, 0.5) else {
            panic!("{} has no fused attention", backend.name);
        };
        let weights = Tensor::random([2, 5, 8], Distribution::Normal(0.0, 1.0), device);
        let loss = (y * weights).sum();
        let gradients = packed.grad(&loss.backward()).unwrap();
        let values = |x: Tensor<4>| x.narrow(2, 2, 2);
        let found = (values(gradients) * values(packed.inner())).sum();
        let (found, loss) = (found.into_scalar::<f32>(), loss.into_scalar::<f32>());
        let name = backend.name;
        assert!(
            (found - loss).abs() < 1e-3 * loss.abs().max(1.0),
            "{s} keys on {name}: {found}, but the loss is {loss}"
        );
        let x = normal([2, s, 4, 4]).require_grad();
        let loss = (fused::relu(x.clone(), 0.5) * normal([2, s, 4, 4])).sum();
        let gradient = x.grad(&loss.backward()).unwrap();
        let found = (gradient * x.inner()).sum().into_scalar::<f32>();
        let loss = loss.into_scalar::<f32>();
        assert!(
            (found - loss).abs() < 1e-3 * loss.abs().max(1.0),
            "rectifier on {name}: {found}, but the loss is {loss}"
        );
    }
}

/// Returns the ids 0..30 in two rows of 15.
fn some_ids(device: &Device) -> Tensor<2, Int> {
    Tensor::<1, Int>::arange(0..30, device).reshape([2, 15])
}

#[test]
fn embeddings_are_scaled_by_the_square_root_of_d_model() {
    let device = Device::flex();
    let config = TransformerConfig::new(31, 31)
        .with_d_model(24)
        .with_n_heads(3)
        .with_positions(Positions::None);
    let ids = some_ids(&device);
    let parameters = parameters(&config.init_seeded(1, &device).unwrap());
    let embed = |scale| {
        let config = config.clone().with_scale_embeddings(scale);
        let model = config.init_zeros(&device).unwrap();
        let model = with_parameters(&model, parameters.clone()).unwrap();
        model.encoder.input.forward(ids.clone(), 0)
    };
    let expected = embed(false) * 24f64.sqrt();
    common::assert_close(
        "scaled",
        &embed(true).into_data(),
        &expected.into_data(),
        1e-6,
    );
}

#[test]
fn the_gradient_of_a_learned_position_is_summed_over_the_batch() {
    for backend in common::cpu_backends() {
        let device = &backend.device;
        let _guard = common::seed(device, 1);
        let model = TransformerConfig::new(31, 31)
            .with_d_model(6)
            .with_n_heads(3)
            .with_dropout(0.0)
            .with_max_len(9)
            .with_positions(Positions::Learned)
            .init_seeded(1, device)
            .unwrap();
        let ids = Tensor::<2, Int>::from_data([[3, 4, 5], [6, 7, 8]], device);
        let cotangent = Tensor::<3>::random([2, 3, 6], Distribution::Default, device);
        let x = model.encoder.input.forward(ids, 2);
        let gradients = (x * cotangent.clone()).sum().backward();
        let found = common::parameter_gradients(&model, &gradients);
        let (_, gradient) = found
            .into_iter()
            .find(|(path, _)| path == "encoder.input.position.learned.weight")
            .unwrap();
        // The sequences begin at position 2, so each uses rows 2, 3 and 4 of the table.
        let sum = cotangent.inner().sum_dim(0).reshape([3, 6]);
        let inner = sum.device();
        let zeros = |n| Tensor::<2>::zeros([n, 6], &inner);
        let expected = Tensor::cat(vec![zeros(2), sum, zeros(4)], 0);
        common::assert_close("gradient", &gradient.unwrap(), &expected.into_data(), 1e-6);
    }
}
