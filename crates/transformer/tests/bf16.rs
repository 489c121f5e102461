//! Tests that a model whose matmuls round their inputs to bfloat16 has nearly the same loss and
//! gradients as in f32.
#![cfg(feature = "flex")]

use std::collections::BTreeMap;

use burn::module::Param;
use burn::tensor::{Device, Gradients, Int, Tensor};
use transformer::weights::{VisitNamed, visit_named};
use transformer::{Transformer, TransformerConfig};

/// The gradients of all parameters by name.
#[derive(Default)]
struct Found {
    gradients: BTreeMap<String, Vec<f64>>,
}

struct Visitor<'a>(&'a Gradients, &'a mut Found);

impl VisitNamed for Visitor<'_> {
    fn visit<const D: usize>(&mut self, name: String, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad(self.0).expect("a gradient").into_data();
        self.1.gradients.insert(name, gradient.iter().collect());
    }
}

/// Returns the loss and the gradients of one forward and backward pass.
fn backward(model: &Transformer, is_bf16: bool) -> (f64, Found) {
    let _format = fused::bf16_matmuls(is_bf16);
    let device = Device::flex().autodiff();
    let ids = |seed: i64| {
        let ids: Vec<i64> = (0..96).map(|i| (i * i * 31 + seed * 17) % 59 + 1).collect();
        Tensor::<1, Int>::from_data(&ids[..], &device).reshape([8, 12])
    };
    // The passes run in the thread pool, as in training, to test that the setting of `bf16_matmuls`
    // reaches the threads of the pool.
    let (loss, gradients) = fused::in_pool(&device, || {
        let loss = model.forward(ids(1), None, ids(2)).powi_scalar(2).mean();
        let value: f32 = loss.clone().into_scalar();
        (value, loss.backward())
    });
    let mut found = Found::default();
    visit_named(model, &mut Visitor(&gradients, &mut found));
    (loss.into(), found)
}

#[test]
fn gradients_point_where_those_of_f32_do() {
    let model = TransformerConfig::new(60, 60)
        .with_d_model(64)
        .with_n_heads(4)
        .with_d_ff(128)
        .with_n_encoder_layers(2)
        .with_n_decoder_layers(2)
        .with_dropout(0.0)
        .init_seeded(1, &Device::flex().autodiff())
        .unwrap();
    let (exact_loss, exact) = backward(&model, false);
    let (loss, rounded) = backward(&model, true);
    // Without fast paths or without bfloat16 instructions of the CPU, nothing is rounded.
    let is_rounded = fused::takes_bf16_matmuls(&Device::flex()) && fused::has_bf16_instructions();
    assert_eq!(loss != exact_loss, is_rounded);
    assert!(
        (loss / exact_loss - 1.0).abs() < 0.002,
        "{loss}, {exact_loss}"
    );
    assert!(!exact.gradients.is_empty());
    for (name, exact) in &exact.gradients {
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let rounded = &rounded.gradients[name];
        let [of_exact, of_rounded] = [exact, rounded].map(|x| dot(x, x).sqrt());
        let cosine = dot(exact, rounded) / (of_exact * of_rounded);
        println!("{name}: cosine {cosine}, norms {of_rounded} and {of_exact}");
        assert!(cosine > 0.999, "{name}: {cosine}");
        assert!(
            (of_rounded / of_exact - 1.0).abs() < 0.01,
            "{name}: {of_rounded}, {of_exact}"
        );
    }
}
