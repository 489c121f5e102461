//! Tests that outputs and gradients agree with PyTorch's on every backend under test.
//!
//! The tolerances are in `common::backends`. On the CPU backends, an output may differ by 1e-5, and
//! a gradient by 1e-4 of the largest element of its tensor.

mod common;

use burn::module::Module;
use burn::tensor::{Bool, Int, Tensor};
use common::{Backend, Fixture, backends};
use transformer::attention::{attention_weights, scaled_dot_product_attention};
use transformer::position::SinusoidalEncoding;
use transformer::{
    Activation, AttentionMask, CrossEntropy, IGNORE_INDEX, LayerCache, Memory, NormKind,
    NormPlacement, Positions, TransformerConfig, WeightTying,
};

const PAD: u32 = 0;

/// Returns the configuration from which those of most models in the fixtures are derived.
fn config() -> TransformerConfig {
    TransformerConfig::new(17, 19)
        .with_d_model(33)
        .with_n_heads(3)
        .with_d_ff(13)
        .with_dropout(0.0)
        .with_n_encoder_layers(2)
        .with_n_decoder_layers(2)
        .with_max_len(10)
}

const PLACEMENTS: [(&str, NormPlacement); 2] =
    [("post", NormPlacement::Post), ("pre", NormPlacement::Pre)];

fn mask(fixture: &Fixture, backend: &Backend) -> Option<AttentionMask> {
    fixture.has("input.visible").then(|| {
        let visible: Tensor<4, Bool> = fixture.int("input.visible", &backend.device).bool();
        AttentionMask::from_visible(visible)
    })
}

/// Returns the backend without autodiff, where the model runs different code than in training.
fn inference(backend: &Backend) -> Backend {
    Backend {
        device: backend.device.clone().without_autodiff(),
        ..*backend
    }
}

fn source_mask(fixture: &Fixture, backend: &Backend) -> AttentionMask {
    AttentionMask::padding(&fixture.int("input.source", &backend.device), PAD)
}

/// Returns labels in which padding is ignored.
fn ignoring_padding(labels: Tensor<2, Int>) -> Tensor<2, Int> {
    let is_padding = labels.clone().equal_elem(PAD);
    labels.mask_fill(is_padding, IGNORE_INDEX)
}

fn loss<const D: usize>(y: Tensor<D>, fixture: &Fixture, backend: &Backend) -> Tensor<1> {
    (y * fixture.float("input.cotangent", &backend.device)).sum()
}

#[test]
fn sinusoidal_positions() {
    let fixture = Fixture::load("positions");
    for backend in backends() {
        for d in [20, 23] {
            let table = SinusoidalEncoding::new(101, d, &backend.device).forward(0, 101);
            let name = format!("output.d{d}");
            common::assert_close(&name, &table.into_data(), &fixture.data(&name), 1e-6);
        }
    }
}

#[test]
fn attention() {
    let all = Fixture::load("attention");
    for backend in backends() {
        for case in ["none", "padding", "causal", "blind_row"] {
            let fixture = all.part(case);
            let mask = mask(&fixture, &backend);
            let [q, k, v] =
                ["q", "k", "v"].map(|x| fixture.leaf::<4>(&format!("input.{x}"), &backend.device));
            let weights = attention_weights(q.clone(), k.clone(), mask.as_ref());
            fixture.assert_output("output.weights", weights, &backend);
            let y = scaled_dot_product_attention(q.clone(), k.clone(), v.clone(), mask.as_ref());
            fixture.assert_output("output.y", y.clone(), &backend);
            let gradients = loss(y, &fixture, &backend).backward();
            for (name, input) in [("q", &q), ("k", &k), ("v", &v)] {
                fixture.assert_input_gradient(name, input, &gradients, &backend);
            }

            // Without autodiff, attention runs as Burn's fused operation.
            let [q, k, v] = [q, k, v].map(|x| x.inner());
            let mask = mask.map(|mask| {
                let blocked = mask.blocked().to_data();
                AttentionMask::from_blocked::<4>(Tensor::from_data(blocked, &q.device()))
            });
            let y = scaled_dot_product_attention(q, k, v, mask.as_ref());
            fixture.assert_output("output.y", y, &backend);
        }
    }
}

#[test]
fn self_attention() {
    let fixture = Fixture::load("multi_head").part("self");
    for backend in backends() {
        let device = &backend.device;
        let layer = config()
            .encoder()
            .layer
            .attention
            .init_self_attention(device)
            .unwrap();
        let layer = fixture.fill(layer, device);
        let x = fixture.leaf::<3>("input.x", device);
        let causal = AttentionMask::causal(x.dims()[1], device);
        let (y, weights) = layer.forward_with_weights(x.clone(), Some(&causal), None);
        fixture.assert_output("output.weights", weights, &backend);
        fixture.assert_output("output.y", y, &backend);
        let y = layer.forward(x.clone(), Some(&causal), None);
        fixture.assert_output("output.y", y.clone(), &backend);
        let gradients = loss(y, &fixture, &backend).backward();
        fixture.assert_input_gradient("x", &x, &gradients, &backend);
        fixture.assert_parameter_gradients(&layer, &gradients, &backend);
    }
}

#[test]
fn cross_attention() {
    let fixture = Fixture::load("multi_head").part("cross");
    for backend in backends() {
        let device = &backend.device;
        let layer = config()
            .encoder()
            .layer
            .attention
            .init_cross_attention(device)
            .unwrap();
        let layer = fixture.fill(layer, device);
        let x = fixture.leaf::<3>("input.x", device);
        let memory = fixture.leaf::<3>("input.memory", device);
        let mask = source_mask(&fixture, &backend);
        let (y, weights) = layer.forward_with_weights(x.clone(), memory.clone(), Some(&mask));
        fixture.assert_output("output.weights", weights, &backend);
        fixture.assert_output("output.y", y, &backend);
        let y = layer.forward(x.clone(), memory.clone(), Some(&mask));
        fixture.assert_output("output.y", y.clone(), &backend);
        let gradients = loss(y, &fixture, &backend).backward();
        fixture.assert_input_gradient("x", &x, &gradients, &backend);
        fixture.assert_input_gradient("memory", &memory, &gradients, &backend);
        fixture.assert_parameter_gradients(&layer, &gradients, &backend);
    }
}

#[test]
fn feed_forward() {
    let all = Fixture::load("feed_forward");
    for backend in backends() {
        let device = &backend.device;
        for (name, activation) in [
            ("relu", Activation::Relu),
            ("gelu", Activation::Gelu),
            ("swish", Activation::Swish),
            ("glu", Activation::Glu),
            ("geglu", Activation::Geglu),
            ("swiglu", Activation::Swiglu),
        ] {
            let fixture = all.part(name);
            let layer = config()
                .with_activation(activation)
                .encoder()
                .layer
                .feed_forward
                .init(device)
                .unwrap();
            let layer = fixture.fill(layer, device);
            let x = fixture.leaf::<3>("input.x", device);
            let y = layer.forward(x.clone());
            fixture.assert_output("output.y", y.clone(), &backend);
            let y_inference = layer.valid().forward(x.clone().inner());
            fixture.assert_output("output.y", y_inference, &backend);
            let gradients = loss(y, &fixture, &backend).backward();
            fixture.assert_input_gradient("x", &x, &gradients, &backend);
            fixture.assert_parameter_gradients(&layer, &gradients, &backend);
        }
    }
}

#[test]
fn encoder_layer() {
    for (name, placement) in PLACEMENTS {
        let fixture = Fixture::load(&format!("encoder_layer_{name}"));
        for backend in backends() {
            let device = &backend.device;
            let config = config().with_norm_placement(placement);
            let layer = fixture.fill(
                config.encoder().layer.init_encoder_layer(device).unwrap(),
                device,
            );
            let x = fixture.leaf::<3>("input.x", device);
            let mask = source_mask(&fixture, &backend);
            let y = layer.forward(x.clone(), Some(&mask), None);
            fixture.assert_output("output.y", y.clone(), &backend);
            let mask = source_mask(&fixture, &inference(&backend));
            let y_inference = layer.valid().forward(x.clone().inner(), Some(&mask), None);
            fixture.assert_output("output.y", y_inference, &backend);
            let gradients = loss(y, &fixture, &backend).backward();
            fixture.assert_input_gradient("x", &x, &gradients, &backend);
            fixture.assert_parameter_gradients(&layer, &gradients, &backend);
        }
    }
}

#[test]
fn decoder_layer() {
    for (name, placement) in PLACEMENTS {
        let fixture = Fixture::load(&format!("decoder_layer_{name}"));
        for backend in backends() {
            let device = &backend.device;
            let config = config()
                .with_norm_placement(placement)
                .with_activation(Activation::Gelu);
            let layer = fixture.fill(
                config
                    .decoder()
                    .layer
                    .init_decoder_layer(true, device)
                    .unwrap(),
                device,
            );
            let x = fixture.leaf::<3>("input.x", device);
            let states = fixture.leaf::<3>("input.memory", device);
            let memory = Memory::new(states.clone(), source_mask(&fixture, &backend));
            let causal = AttentionMask::causal(x.dims()[1], device);
            let mut cache = LayerCache::default();
            let y = layer.forward(x.clone(), Some(&causal), None, &memory, &mut cache);
            fixture.assert_output("output.y", y.clone(), &backend);
            let mask = source_mask(&fixture, &inference(&backend));
            let memory = Memory::new(states.clone().inner(), mask);
            let causal = AttentionMask::causal(x.dims()[1], &inference(&backend).device);
            let (layer_inference, x_inference) = (layer.valid(), x.clone().inner());
            let mut cache = LayerCache::default();
            let y_inference =
                layer_inference.forward(x_inference, Some(&causal), None, &memory, &mut cache);
            fixture.assert_output("output.y", y_inference, &backend);
            let gradients = loss(y, &fixture, &backend).backward();
            fixture.assert_input_gradient("x", &x, &gradients, &backend);
            fixture.assert_input_gradient("memory", &states, &gradients, &backend);
            fixture.assert_parameter_gradients(&layer, &gradients, &backend);
        }
    }
}

#[test]
fn whole_model() {
    let mut shared = config()
        .with_norm_placement(NormPlacement::Pre)
        .with_weight_tying(WeightTying::All)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(1);
    shared.source_vocab_size = 19;
    for (name, config) in [
        ("model_post", config()),
        (
            "model_pre",
            config().with_norm_placement(NormPlacement::Pre),
        ),
        ("model_shared", shared),
    ] {
        let fixture = Fixture::load(name);
        for backend in backends() {
            let device = &backend.device;
            let model = fixture.fill(config.init_seeded(0, device).unwrap(), device);
            let source = fixture.int::<2>("input.source", device);
            let target = fixture.int::<2>("input.target", device);
            let labels = ignoring_padding(fixture.int("input.right", device));
            let mask = source_mask(&fixture, &backend);

            let memory = model.encode(source.clone(), Some(&mask));
            let logits = model.forward(source.clone(), Some(&mask), target.clone());
            let loss = CrossEntropy::new(0.1)
                .unwrap()
                .forward(logits.clone(), labels);

            // Outputs at padded positions are not compared, because they do not affect the loss and
            // PyTorch computed them differently: with a padding mask for targets, which this crate
            // does not use.
            let assert_real = |what: &str, actual: Tensor<3>, ids: Tensor<2, Int>| {
                let device = actual.device();
                let [batch, length, _] = actual.dims();
                let is_real = ids.not_equal_elem(PAD).float().reshape([batch, length, 1]);
                let expected = fixture.float::<3>(&format!("output.{what}"), &device);
                common::assert_close(
                    &format!("{what} of {name} on {}", backend.name),
                    &(actual * is_real.clone()).into_data(),
                    &(expected * is_real).into_data(),
                    backend.output,
                );
            };
            assert_real("logits", logits, target);
            assert_real("memory", memory.states().clone(), source.clone());
            let plain = inference(&backend).device;
            let source = fixture.int::<2>("input.source", &plain);
            let target = fixture.int::<2>("input.target", &plain);
            let mask = source_mask(&fixture, &inference(&backend));
            let inferred = model.valid().forward(source, Some(&mask), target.clone());
            assert_real("logits", inferred, target);

            fixture.assert_output("output.loss", loss.clone(), &backend);
            let gradients = loss.backward();
            fixture.assert_parameter_gradients(&model, &gradients, &backend);
        }
    }
}

#[test]
fn label_smoothing() {
    let all = Fixture::load("label_smoothing");
    for backend in backends() {
        let device = &backend.device;
        for (name, smoothing) in [("plain", 0.0), ("smooth", 0.1), ("strong", 0.7)] {
            let fixture = all.part(name);
            let logits = fixture.leaf::<3>("input.logits", device);
            let labels = ignoring_padding(fixture.int("input.right", device));
            let criterion = CrossEntropy::new(smoothing).unwrap();
            let loss = criterion.forward(logits.clone(), labels.clone());
            fixture.assert_output("output.loss", loss.clone(), &backend);
            let gradients = loss.backward();
            fixture.assert_input_gradient("logits", &logits, &gradients, &backend);

            // A batch in which all labels are ignored has a loss and gradient of 0.
            let loss = criterion.forward(logits.clone(), labels.full_like(IGNORE_INDEX));
            assert_eq!(loss.clone().into_scalar::<f32>(), 0.0);
            let gradient = logits.grad(&loss.backward()).unwrap().into_data();
            assert!(gradient.iter::<f32>().all(|x| x == 0.0));
        }
    }
}

/// Compares decoders without cross-attention with language models of the library `transformers`:
/// Llama, with grouped queries and rotary positions, and BLOOM, with ALiBi.
#[test]
fn decoders_alone() {
    let small = TransformerConfig::new(17, 17)
        .with_d_model(24)
        .with_n_heads(6)
        .with_n_decoder_layers(2)
        .with_norm_placement(NormPlacement::Pre)
        .with_scale_embeddings(false)
        .with_logits_bias(false)
        .with_dropout(0.0)
        .with_max_len(32);
    let llama = small
        .clone()
        .with_n_kv_heads(Some(2))
        .with_positions(Positions::Rotary)
        .with_norm(NormKind::Rms)
        .with_activation(Activation::Swiglu)
        .with_biases(false)
        .with_d_ff(20);
    let bloom = small
        .with_positions(Positions::Alibi)
        .with_embedding_norm(true)
        .with_activation(Activation::GeluTanh)
        .with_weight_tying(WeightTying::Decoder)
        .with_d_ff(96);
    for (name, config) in [("llama", llama), ("bloom", bloom)] {
        let fixture = Fixture::load(&format!("decoder_{name}"));
        for backend in backends() {
            let device = &backend.device;
            let decoder = config
                .decoder()
                .with_cross_attention(false)
                .init(device)
                .unwrap();
            let decoder = fixture.fill(decoder, device);
            let ids = fixture.int::<2>("input.ids", device);
            let logits = decoder.forward(ids.clone(), None, &mut decoder.new_cache());
            fixture.assert_output("output.logits", logits.clone(), &backend);
            let gradients = loss(logits, &fixture, &backend).backward();
            fixture.assert_parameter_gradients(&decoder, &gradients, &backend);

            // Decodes one token at a time, without autodiff.
            let decoder = decoder.valid();
            let ids = ids.inner();
            let mut cache = decoder.new_cache();
            let steps = (0..ids.dims()[1])
                .map(|step| decoder.forward(ids.clone().narrow(1, step, 1), None, &mut cache));
            fixture.assert_output("output.logits", Tensor::cat(steps.collect(), 1), &backend);
        }
    }
}
