//! Runs the decoder alone on a random encoder output, in one pass and step by step. Prints the most
//! likely next tokens.
//!
//!     cargo run --release --example decoder

use burn::tensor::{Device, Distribution, Int, Tensor};
use transformer::inspect::top_k;
use transformer::{DecoderConfig, Memory};

fn main() -> Result<(), transformer::ConfigError> {
    let device = Device::flex();
    device.seed(42);
    let decoder = DecoderConfig::new(10_000, 512, 2048, 8, 6)
        .with_max_len(100)
        .init(&device)?;

    let target = Tensor::<2, Int>::random([2, 15], Distribution::Uniform(1.0, 10_000.0), &device);
    let noise = Tensor::<3>::random([2, 20, 512], Distribution::Normal(0.0, 1.0), &device);
    let memory = Memory::from(noise);

    let logits = decoder.forward(target.clone(), &memory, &mut decoder.new_cache());
    println!("target: {:?}", target.dims());
    println!("memory: {:?}", memory.states().dims());
    println!("logits: {:?}", logits.dims());
    assert_eq!(logits.dims(), [2, 15, 10_000]);

    println!("the five likeliest tokens after the first:");
    for (rank, candidate) in top_k(logits.clone(), 5)[0][0].iter().enumerate() {
        println!(
            "  {}. token {}: {:.4}",
            rank + 1,
            candidate.id,
            candidate.probability
        );
    }

    // Decoding one token per step with the cache gives the logits of the single pass above, up to
    // rounding.
    let mut cache = decoder.new_cache_with_capacity(1, 15);
    for step in 0..15 {
        let next = decoder.forward(target.clone().narrow(1, step, 1), &memory, &mut cache);
        let full = logits.clone().narrow(1, step, 1);
        let difference = (next - full).abs().max().into_scalar::<f32>();
        assert!(difference < 1e-4, "step {step} is {difference} off");
    }
    println!("15 steps through the cache agree with the full pass");
    Ok(())
}
