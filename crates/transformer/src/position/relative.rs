//! Relative positions (T5, Raffel et al. 2020, section 2.1): a trained bias for each head and
//! distance, which is added to the scores of self-attention.
//!
//! Distances in the same bucket share a bias. With `n` buckets for one direction and `e = n / 2`,
//! each distance `d < e` has a bucket of its own. For longer distances, the bucket grows with the
//! logarithm of the distance:
//!
//! ```text
//! bucket(d) = min(n - 1, e + floor((n - e) ln(d / e) / ln(max_distance / e)))
//! ```
//!
//! An encoder has half of the buckets for keys up to the query, and half for keys after the query.
//! In a decoder, all buckets are for keys up to the query.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use super::table::{floats, of_distances};
use crate::config::PositionConfig;
use crate::error::ConfigError;
use crate::init::Init;

/// A table with one trained bias per bucket and head, which all layers of a stack share.
#[derive(Module, Debug)]
pub struct RelativeBias {
    /// The table, `[n_buckets, H]`.
    pub weight: Param<Tensor<2>>,
    max_distance: usize,
    is_causal: bool,
}

impl RelativeBias {
    /// Creates a table for `n_heads` heads, in a stack that is causal or not, with the buckets of
    /// `config`.
    ///
    /// # Errors
    ///
    /// `relative_buckets` or `relative_max_distance` is not valid.
    pub fn new(
        config: &PositionConfig,
        n_heads: usize,
        is_causal: bool,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        config.validate_relative()?;
        Ok(Self::build(
            config,
            n_heads,
            is_causal,
            &mut Init::new(device),
        ))
    }

    pub(super) fn build(
        config: &PositionConfig,
        n_heads: usize,
        is_causal: bool,
        init: &mut Init,
    ) -> Self {
        Self {
            weight: init.xavier(config.relative_buckets, n_heads),
            max_distance: config.relative_max_distance,
            is_causal,
        }
    }

    /// Returns the biases that are added to the scores of `length` queries, which follow `past`
    /// tokens and attend to these tokens and to each other.
    ///
    /// # Shapes
    ///
    /// - output: `[1, H, length, past + length]`
    ///
    /// # Panics
    ///
    /// If `length` is 0.
    pub fn forward(&self, past: usize, length: usize) -> Tensor<4> {
        assert!(length > 0, "biases are for at least one query, not 0");
        let table = floats(self.weight.val());
        let [n_buckets, n_heads] = table.dims();
        let total = past + length;
        let by_distance = |query, key| self.bucket(query, key, n_buckets);
        let buckets = TensorData::new(of_distances(past, length, by_distance), [length * total]);
        let buckets = Tensor::<1, Int>::from_data(buckets, (&table.device(), DType::I32));
        let bias = table.transpose().select(1, buckets);
        bias.reshape([1, n_heads, length, total])
    }

    /// Returns the bucket of a query and a key at the given positions.
    fn bucket(&self, query: usize, key: usize, n_buckets: usize) -> i32 {
        let (first, n, distance) = if self.is_causal {
            (0, n_buckets, query.saturating_sub(key))
        } else if key > query {
            (n_buckets / 2, n_buckets / 2, key - query)
        } else {
            (0, n_buckets / 2, query - key)
        };
        let exact = n / 2;
        let bucket = if distance < exact {
            distance
        } else {
            // The operations, their order and their precision are those of T5, so that rounding
            // puts a distance at the edge of two buckets into the same bucket as in T5.
            let ratio = (distance as f32 / exact as f32).ln();
            let whole = (self.max_distance as f64 / exact as f64).ln() as f32;
            let step = ratio / whole * (n - exact) as f32;
            (exact + step as usize).min(n - 1)
        };
        (first + bucket) as i32
    }
}
