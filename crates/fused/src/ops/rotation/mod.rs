//! Rotary positions: each pair of features is rotated by an angle (Su et al., 2021, section 3.4.2).

#[cfg(all(feature = "flex", feature = "autodiff"))]
mod autodiff;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod kernel;

use burn::tensor::Tensor;

/// Rotates features `i` and `i + K/2` of the first `n_heads` heads of each token by the angle with
/// the cosine `cos[t, i]` and the sine `sin[t, i]`, and returns the other heads as they are.
///
/// The angles have no gradient.
///
/// # Shapes
///
/// - x: `[B, T, H, K]`
/// - cos, sin: `[T, K/2]`
/// - output: `[B, T, H, K]`
///
/// # Panics
///
/// If the shapes do not fit together, or `n_heads` exceeds `H`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let x = Tensor::from_data([[[[1.0, 2.0], [3.0, 4.0]]]], &device);
/// let [cos, sin] = [0.0, 1.0].map(|x| Tensor::from_data([[x]], &device)); // a quarter turn
/// let y = fused::rotate(x, 1, [cos, sin]).into_data();
/// assert_eq!(y.iter::<f32>().collect::<Vec<_>>(), [-2.0, 1.0, 3.0, 4.0]);
/// ```
pub fn rotate(x: Tensor<4>, n_heads: usize, [cos, sin]: [Tensor<2>; 2]) -> Tensor<4> {
    let [_, t, heads, k] = x.dims();
    assert!(
        [cos.dims(), sin.dims()] == [[t, k / 2]; 2] && k.is_multiple_of(2) && n_heads <= heads,
        "the angles of {n_heads} heads are {:?} and {:?}, but x is {:?}",
        cos.dims(),
        sin.dims(),
        x.dims()
    );
    #[cfg(feature = "flex")]
    if crate::backend::flex::takes(&x) && crate::backend::flex::takes(&cos) {
        return flex::rotate(x, n_heads, [cos, sin]);
    }
    let [cos, sin] = [cos, sin].map(|angles| angles.reshape([1, t, 1, k / 2]));
    let half = |i| {
        x.clone()
            .slice([0..x.dims()[0], 0..t, 0..n_heads, i * k / 2..(i + 1) * k / 2])
    };
    let (first, second) = (half(0), half(1));
    let rotated = vec![
        first.clone() * cos.clone() - second.clone() * sin.clone(),
        second * cos + first * sin,
    ];
    let rotated = Tensor::cat(rotated, 3);
    if n_heads == heads {
        return rotated;
    }
    Tensor::cat(vec![rotated, x.narrow(2, n_heads, heads - n_heads)], 2)
}
