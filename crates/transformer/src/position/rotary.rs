//! Rotary positions (RoFormer, Su et al. 2021, section 3.4.2).
//!
//! At position `p`, dimensions `i` and `i + K/2` of a head are rotated by the angle
//! `p * 10000^(-2i / K)`. The dot product of a query at `p` and a key at `q` then depends only on
//! the two vectors before rotation and on `p - q`. The paper rotates the adjacent dimensions `2i`
//! and `2i + 1` instead.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};

use super::sinusoidal::frequency;
use super::table::rows;

/// The cosines and sines of all rotation angles, `[max_len, K/2]` each.
///
/// The tables have no gradient and move between devices with the module. They are recomputed, not
/// saved with the parameters.
#[derive(Module, Debug)]
pub struct RotaryEncoding {
    cos: Tensor<2>,
    sin: Tensor<2>,
    base: f64,
}

impl RotaryEncoding {
    /// Computes the tables for `max_len` positions, heads of `d_head` dimensions and a base of the
    /// angles, 10,000 in the paper.
    ///
    /// # Panics
    ///
    /// If `d_head` is odd, or `base` is not a positive number.
    pub fn new(max_len: usize, d_head: usize, base: f64, device: &Device) -> Self {
        assert!(
            base > 0.0 && base.is_finite(),
            "the base of the angles is {base}, but must be a positive number"
        );
        assert!(
            d_head.is_multiple_of(2),
            "rotary positions rotate pairs of dimensions, but a head has {d_head}"
        );
        let pairs = d_head / 2;
        let table = |f: fn(f64) -> f64| {
            let values: Vec<f32> = (0..max_len)
                .flat_map(|p| {
                    (0..pairs).map(move |i| f(p as f64 * frequency(base, i, d_head)) as f32)
                })
                .collect();
            Tensor::from_data(TensorData::new(values, [max_len, pairs]), device)
        };
        Self {
            cos: table(f64::cos),
            sin: table(f64::sin),
            base,
        }
    }

    /// Returns the rotation for positions `offset..offset + length`, which all layers share.
    ///
    /// # Panics
    ///
    /// If `offset + length` exceeds `max_len`, or `length` is 0.
    pub fn forward(&self, offset: usize, length: usize) -> Rotation {
        Rotation {
            past: offset,
            cos: rows(self.cos.clone(), offset, length),
            sin: rows(self.sin.clone(), offset, length),
        }
    }

    /// Returns the same encoding of up to `max_len` positions.
    pub(super) fn lengthened(self, max_len: usize) -> Self {
        let [_, pairs] = self.cos.dims();
        Self::new(max_len, 2 * pairs, self.base, &self.cos.device())
    }

    /// Returns the number of positions in the tables.
    pub(super) fn max_len(&self) -> usize {
        self.cos.dims()[0]
    }
}

/// Cosines and sines of the rotation angles of consecutive positions, `[T, K/2]` each.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// Number of positions before these.
    pub(crate) past: usize,
    cos: Tensor<2>,
    sin: Tensor<2>,
}

impl Rotation {
    /// Rotates queries or keys.
    ///
    /// # Shapes
    ///
    /// - x: `[B, H, T, K]`
    /// - output: `[B, H, T, K]`
    ///
    /// # Panics
    ///
    /// If the rotation is one of another number of positions, or of another width.
    pub fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let [_, n_heads, ..] = x.dims();
        self.apply_packed(x.swap_dims(1, 2), n_heads)
            .swap_dims(1, 2)
    }

    /// Rotates the first `n_heads` heads of `x`, `[B, T, H, K]`.
    pub(crate) fn apply_packed(&self, x: Tensor<4>, n_heads: usize) -> Tensor<4> {
        let [length, pairs] = self.cos.dims();
        let [_, t, _, k] = x.dims();
        let width = 2 * pairs;
        assert_eq!(
            [length, width],
            [t, k],
            "the rotation is one of {length} positions and heads of width {width}, but there are {t} tokens and heads of width {k}"
        );
        let angles = [&self.cos, &self.sin].map(|table| table.clone().cast(x.dtype()));
        fused::rotate(x, n_heads, angles)
    }
}
