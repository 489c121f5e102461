//! Builds the whole model at the base size of the paper "Attention Is All You Need". Prints the
//! number of parameters, and the shapes of inputs and outputs.
//!
//!     cargo run --release --example full_model

use burn::module::Module;
use burn::tensor::{Device, Distribution, Int, Tensor};
use transformer::TransformerConfig;

fn main() -> Result<(), transformer::ConfigError> {
    let device = Device::flex();
    device.seed(42);
    let model = TransformerConfig::new(10_000, 8_000).init(&device)?;
    println!("parameters: {}", model.num_params());
    println!(
        "size:       {:.2} MiB",
        model.size_bytes() as f64 / 1024.0 / 1024.0
    );

    let ids = |vocab_size: f64, shape| {
        Tensor::<2, Int>::random(shape, Distribution::Uniform(1.0, vocab_size), &device)
    };
    let (source, target) = (ids(10_000.0, [2, 20]), ids(8_000.0, [2, 15]));
    let logits = model.forward(source.clone(), None, target.clone());
    println!("source:     {:?}", source.dims());
    println!("target:     {:?}", target.dims());
    println!("logits:     {:?}", logits.dims());
    assert_eq!(logits.dims(), [2, 15, 8_000]);

    let seen = model.inspect(source, None, target);
    let cross = seen.decoder[0]
        .cross_attention
        .as_ref()
        .expect("it attends to the source");
    println!(
        "encoder:    {} layers, self-attention {:?}",
        seen.encoder.len(),
        seen.encoder[0].self_attention.dims()
    );
    println!(
        "decoder:    {} layers, self-attention {:?}",
        seen.decoder.len(),
        seen.decoder[0].self_attention.dims()
    );
    println!("            and cross-attention {:?}", cross.dims());
    Ok(())
}
