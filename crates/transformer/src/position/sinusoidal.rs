//! Fixed sines and cosines (paper, section 3.5):
//!
//! ```text
//! PE(p, 2i)     = sin(p / 10000^(2i / D))
//! PE(p, 2i + 1) = cos(p / 10000^(2i / D))
//! ```

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};

use super::rows;
use crate::config::TransformerConfig;
use crate::init::Init;

/// The table `[max_len, D]`. It has no gradient, moves with the module, and is not stored in
/// checkpoints, since it can be computed again.
#[derive(Module, Debug)]
pub struct SinusoidalEncoding {
    table: Tensor<2>,
}

impl SinusoidalEncoding {
    /// Computes the table; any `d_model`, odd ones too.
    pub fn new(max_len: usize, d_model: usize, device: &Device) -> Self {
        Self {
            table: table(max_len, d_model, device),
        }
    }

    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        let device = init.device().clone();
        let compute = || table(config.max_len, config.d_model, &device);
        Self {
            table: init.sinusoid.get_or_insert_with(compute).clone(),
        }
    }

    /// The encodings of positions `offset..offset + length`: `[length, D]`.
    ///
    /// # Panics
    ///
    /// If `offset + length` is past `max_len`.
    pub fn forward(&self, offset: usize, length: usize) -> Tensor<2> {
        rows(self.table.clone(), offset, length)
    }

    pub(super) fn max_len(&self) -> usize {
        self.table.dims()[0]
    }
}

/// `10000^(-2i / D)` for the pair of dimensions `i`, in log space.
pub(super) fn frequency(i: usize, d_model: usize) -> f64 {
    (-(10_000f64.ln()) * (2 * i) as f64 / d_model as f64).exp()
}

/// The values in f64, rounded once at the end.
pub(crate) fn table(max_len: usize, d_model: usize, device: &Device) -> Tensor<2> {
    let frequencies: Vec<f64> = (0..d_model).map(|d| frequency(d / 2, d_model)).collect();
    let values: Vec<f32> = (0..max_len)
        .flat_map(|position| {
            frequencies.iter().enumerate().map(move |(d, frequency)| {
                let angle = position as f64 * frequency;
                (if d % 2 == 0 { angle.sin() } else { angle.cos() }) as f32
            })
        })
        .collect();
    Tensor::from_data(TensorData::new(values, [max_len, d_model]), device)
}
