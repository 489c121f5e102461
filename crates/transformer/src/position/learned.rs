//! Learned positional encoding (paper, section 3.5 and table 3, row E).

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};

use super::table::{floats, rows};
use crate::init::Init;

/// A table with one trained vector per position.
#[derive(Module, Debug)]
pub struct LearnedEncoding {
    /// The table, `[max_len, D]`.
    pub weight: Param<Tensor<2>>,
}

impl LearnedEncoding {
    /// Creates a table of `max_len` positions with random vectors of width `d_model`.
    pub fn new(max_len: usize, d_model: usize, device: &Device) -> Self {
        Self::build(max_len, d_model, &mut Init::new(device))
    }

    pub(super) fn build(max_len: usize, d_model: usize, init: &mut Init) -> Self {
        Self {
            weight: init.xavier(max_len, d_model),
        }
    }

    /// Returns the encodings of positions `offset..offset + length`.
    ///
    /// # Shapes
    ///
    /// - output: `[length, D]`
    ///
    /// # Panics
    ///
    /// If `offset + length` exceeds `max_len`, or `length` is 0.
    pub fn forward(&self, offset: usize, length: usize) -> Tensor<2> {
        rows(floats(self.weight.val()), offset, length)
    }
}
