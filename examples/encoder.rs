//! Runs the encoder alone on token ids. Prints the shapes of the encoder's output (memory) and of
//! the attention weights, and statistics of the memory.
//!
//!     cargo run --release --example encoder

use burn::tensor::Device;
use transformer::inspect::TensorStats;
use transformer::{AttentionMask, EncoderConfig, pad_sequences};

fn main() -> Result<(), transformer::ConfigError> {
    let device = Device::flex();
    let encoder = EncoderConfig::new(512, 2048, 8, 6)
        .with_vocab_size(10_000)
        .with_max_len(100)
        .init_seeded(42, &device)?;

    // Two sources of different lengths, of which the mask hides the padding.
    let sources: [Vec<u32>; 2] = [(100..120).collect(), (300..312).collect()];
    let lengths = sources.each_ref().map(Vec::len);
    let source = pad_sequences(&sources, 0, &device);
    let mask = AttentionMask::of_lengths(&lengths, &device);
    println!("source: {:?}", source.dims());
    println!("mask:   {:?}, true = blocked", mask.blocked().dims());

    let memory = encoder.forward(source.clone(), Some(&mask));
    println!("memory: {:?}", memory.dims());
    assert_eq!(memory.dims(), [2, 20, 512]);
    let alone = encoder.forward(pad_sequences(&sources[1..], 0, &device), None);
    let difference = alone - memory.clone().slice([1..2, 0..lengths[1]]);
    let difference = difference.abs().max().into_scalar::<f32>();
    assert!(difference < 1e-4, "the padding changed {difference}");

    let x = encoder.input.forward(source, 0);
    let (traced, layers) = encoder.forward_traced(x, Some(&mask));
    println!(
        "attention weights: {} layers of {:?}",
        layers.len(),
        layers[0].self_attention.dims()
    );
    let difference = (memory.clone() - traced).abs().max().into_scalar::<f32>();
    assert!(difference < 1e-4, "looking inside changed {difference}");

    let stats = TensorStats::of(&memory);
    println!(
        "memory: mean {:.4}, standard deviation {:.4}",
        stats.mean, stats.std
    );
    println!("        min {:.4}, max {:.4}", stats.min, stats.max);
    Ok(())
}
