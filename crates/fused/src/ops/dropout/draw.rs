//! Checks a dropout probability, and draws the random key from which a dropout mask is computed.

/// Panics unless the dropout probability is in `[0, 1)`.
pub(crate) fn check(probability: f64) {
    assert!(
        (0.0..1.0).contains(&probability),
        "the dropout probability is {probability}, but must be at least 0 and less than 1"
    );
}

/// Draws 64 random bits from the device's random generator.
#[cfg(any(feature = "flex", feature = "autodiff"))]
pub(crate) fn draw_key(device: &burn::tensor::Device) -> u64 {
    use burn::tensor::{DType, Distribution, Tensor};

    let device = device.clone().without_autodiff();
    // The numbers are drawn in f32, since half precision has fewer random bits.
    let options = (&device, DType::F32);
    let random = Tensor::<1>::random([3], Distribution::Default, options).into_data();
    let bits = |x: f32| (x * (1 << 24) as f32) as u64;
    random
        .iter::<f32>()
        .fold(0, |key: u64, x| key.rotate_left(24) ^ bits(x))
}
