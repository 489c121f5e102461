//! Compares the fast path of rotations with plain Burn, forward and backward.

use burn::tensor::{Device, Distribution, Tensor};

/// Returns the output and the gradient of `x`, `[B, H, T, K]`, whose heads but the last `left` are
/// rotated.
fn rotated(x: &Tensor<4>, angles: &Tensor<2>, left: usize) -> [Vec<f32>; 2] {
    let x = x.clone().require_grad();
    let [_, heads, ..] = x.dims();
    let angles = [angles.clone().cos(), angles.clone().sin()];
    let y = fused::rotate(x.clone().swap_dims(1, 2), heads - left, angles);
    let n = y.dims().iter().product::<usize>();
    let weights = Tensor::arange(0..n as i64, &x.device()).float();
    let gradients = (y.clone() * weights.reshape(y.dims())).sum().backward();
    let dx = x.grad(&gradients).unwrap();
    [y, dx].map(|tensor| tensor.into_data().iter::<f32>().collect())
}

#[test]
fn the_fast_path_rotates_as_plain_burn_does() {
    let device = Device::flex().autodiff();
    for (shape, left) in [
        ([1, 1, 1, 2], 0),
        ([2, 3, 5, 8], 0),
        ([3, 6, 50, 10], 2),
        ([2, 4, 33, 64], 4),
    ] {
        let x = Tensor::<4>::random(shape, Distribution::Default, &device);
        let [.., t, k] = shape;
        let angles = Tensor::random([t, k / 2], Distribution::Uniform(0.0, 6.0), &device);
        let fast = rotated(&x, &angles, left);
        let _plain = fused::fast_paths(false);
        let plain = rotated(&x, &angles, left);
        for (fast, plain) in fast.iter().zip(&plain) {
            let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * (1.0 + b.abs());
            assert!(fast.iter().zip(plain).all(is_close), "{shape:?}");
        }
    }
}

#[test]
#[should_panic = "the angles of 2 heads are [3, 4] and [3, 4], but x is [1, 2, 2, 8]"]
fn angles_of_another_length_are_rejected() {
    let device = Device::flex();
    let angles = || Tensor::zeros([3, 4], &device);
    let _ = fused::rotate(
        Tensor::zeros([1, 2, 2, 8], &device),
        2,
        [angles(), angles()],
    );
}
