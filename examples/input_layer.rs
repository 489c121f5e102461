//! Runs the input layer, which turns three token ids into three vectors of 512 elements. Each
//! vector encodes a token and its position.
//!
//!     cargo run --release --example input_layer

use burn::tensor::{Device, Int, Tensor};
use transformer::{AttentionConfig, InputConfig};

fn main() -> Result<(), transformer::ConfigError> {
    let device = Device::flex();
    // 512 dimensions cannot be divided into three heads, so the configuration is not valid.
    let error = AttentionConfig::new(512, 3).validate().unwrap_err();
    println!("with 3 heads: {error}");

    // The three ids stand for "I love AI".
    let ids = Tensor::<2, Int>::from_data([[12, 45, 88]], &device);
    let input = InputConfig::new(512)
        .with_vocab_size(Some(1000))
        .with_scale(false)
        .init(&device)?;
    let x = input.forward(ids.clone(), 0);
    println!("ids:     {:?}", ids.dims());
    println!("vectors: {:?}", x.dims());
    assert_eq!(x.dims(), [1, 3, 512]);

    // The same word at two positions has two different vectors.
    let twice = Tensor::<2, Int>::from_data([[12, 12]], &device);
    let x = input.forward(twice, 0);
    let difference = (x.clone().narrow(1, 0, 1) - x.narrow(1, 1, 1)).abs().max();
    println!(
        "the same word at positions 0 and 1 differs by up to {:.3}",
        difference.into_scalar::<f32>()
    );
    Ok(())
}
