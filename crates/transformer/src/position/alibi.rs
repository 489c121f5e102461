//! Attention with linear biases (ALiBi, Press et al. 2022).
//!
//! The distance between query and key, multiplied by the head's slope, is subtracted from their
//! score. A stack that is not causal has the same bias in both directions.
//!
//! If `H` is a power of 2, the slopes of `H` heads are `2^(-8/H), 2^(-16/H), .., 2^-8`. Otherwise,
//! let `h` be the largest power of 2 below `H`: the first `h` slopes are those of `h` heads, and
//! the remaining slopes are the first, third, fifth, .. slope of `2 h` heads.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};

use super::table::of_distances;

/// The slope of each head, which all layers share and training does not change.
#[derive(Module, Debug)]
pub struct Alibi {
    /// Slopes, `[H]`. They are recomputed, not saved with the parameters.
    slopes: Tensor<1>,
}

impl Alibi {
    /// Computes the slopes of `n_heads` heads.
    ///
    /// # Panics
    ///
    /// If `n_heads` is 0.
    pub fn new(n_heads: usize, device: &Device) -> Self {
        assert!(n_heads > 0, "n_heads is 0, but must be at least 1");
        let slopes = TensorData::new(slopes(n_heads), [n_heads]);
        Self {
            slopes: Tensor::from_data(slopes, device),
        }
    }

    /// Returns the biases that are added to the scores of `length` queries, which follow `past`
    /// tokens and attend to these tokens and to each other.
    ///
    /// # Shapes
    ///
    /// - output: `[1, H, length, past + length]`
    pub fn forward(&self, past: usize, length: usize) -> Tensor<4> {
        let total = past + length;
        let distance = |query: usize, key| -(query.abs_diff(key) as f32);
        let distances = of_distances(past, length, distance);
        let distances = TensorData::new(distances, [1, 1, length, total]);
        let (device, precision) = (self.slopes.device(), self.slopes.dtype());
        let distances = Tensor::<4>::from_data(distances, (&device, precision));
        let n_heads = self.slopes.dims()[0];
        self.slopes.clone().reshape([1, n_heads, 1, 1]) * distances
    }
}

fn slopes(n_heads: usize) -> Vec<f32> {
    let below = 1 << n_heads.ilog2();
    let of = |n: usize| (1..=n).map(move |i| (-8.0 * i as f64 / n as f64).exp2() as f32);
    let others = of(2 * below).step_by(2).take(n_heads - below);
    of(below).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_paper() {
        // Section 3 of the paper gives the slopes of 8 heads, and the authors' code the slopes of 1
        // and 6 heads.
        assert_eq!(slopes(1), [0.00390625]);
        let eight = [1, 2, 3, 4, 5, 6, 7, 8].map(|i| 0.5f32.powi(i));
        assert_eq!(slopes(8), eight);
        let six = [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125];
        assert_eq!(slopes(6), six);
    }

    #[test]
    fn a_later_query_has_the_last_rows() {
        let alibi = Alibi::new(2, &Device::flex());
        let all = alibi.forward(0, 5);
        assert_eq!(all.dims(), [1, 2, 5, 5]);
        let last = alibi.forward(3, 2).into_data();
        assert_eq!(last, all.clone().narrow(2, 3, 2).into_data());
        // With slope 2^-4, the bias at distance 3 is -3/16 in both directions.
        let values: Vec<f32> = all.into_data().iter().collect();
        assert_eq!([values[3], values[15]], [-3.0 / 16.0; 2]);
    }
}
