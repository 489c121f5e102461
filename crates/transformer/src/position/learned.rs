//! A trained table of positions (paper, section 3.5 and table 3, row E).

use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::rows;
use crate::config::TransformerConfig;
use crate::init::Init;

/// One trained vector for each position.
#[derive(Module, Debug)]
pub struct LearnedEncoding {
    /// `[max_len, D]`
    pub weight: Param<Tensor<2>>,
}

impl LearnedEncoding {
    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        Self {
            weight: init.xavier(config.max_len, config.d_model),
        }
    }

    /// The encodings of positions `offset..offset + length`: `[length, D]`.
    ///
    /// # Panics
    ///
    /// If `offset + length` is past `max_len`.
    pub fn forward(&self, offset: usize, length: usize) -> Tensor<2> {
        rows(self.weight.val(), offset, length)
    }
}
