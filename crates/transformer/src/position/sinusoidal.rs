//! Fixed sines and cosines (paper, section 3.5):
//!
//! ```text
//! PE(p, 2i)     = sin(p / 10000^(2i / D))
//! PE(p, 2i + 1) = cos(p / 10000^(2i / D))
//! ```
//!
//! or, in halves, with all the sines before all the cosines.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};

use super::rows;
use crate::config::{Positions, TransformerConfig};
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
            table: Tensor::from_data(table(max_len, d_model), device),
        }
    }

    pub(crate) fn build(config: &TransformerConfig, init: &mut Init) -> Self {
        let device = init.device().clone();
        let of = match config.positions {
            Positions::SinusoidalHalves => table_in_halves,
            _ => table,
        };
        let compute = || Tensor::from_data(of(config.max_len, config.d_model), &device);
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

/// Sines and cosines in turns: `[max_len, D]`.
pub(crate) fn table(max_len: usize, d_model: usize) -> TensorData {
    fill(max_len, d_model, |d| (d / 2, d % 2 == 0))
}

/// All sines, then all cosines: `[max_len, D]`.
///
/// # Panics
///
/// If `d_model` is odd.
pub(crate) fn table_in_halves(max_len: usize, d_model: usize) -> TensorData {
    assert!(
        d_model.is_multiple_of(2),
        "d_model is {d_model}, but must be even"
    );
    let half = d_model / 2;
    fill(max_len, d_model, |d| (d % half, d < half))
}

/// The values in f64, rounded once at the end. `of` says for a dimension which pair it is of, and
/// whether it is the pair's sine.
fn fill(max_len: usize, d_model: usize, of: impl Fn(usize) -> (usize, bool)) -> TensorData {
    let columns: Vec<(f64, bool)> = (0..d_model)
        .map(|d| {
            let (pair, is_sine) = of(d);
            (frequency(pair, d_model), is_sine)
        })
        .collect();
    let mut values = Vec::with_capacity(max_len * d_model);
    for position in 0..max_len {
        for (frequency, is_sine) in &columns {
            let angle = position as f64 * frequency;
            let value = if *is_sine { angle.sin() } else { angle.cos() };
            values.push(value as f32);
        }
    }
    TensorData::new(values, [max_len, d_model])
}
