//! Sinusoidal positional encoding (paper, section 3.5):
//!
//! ```text
//! PE(p, 2i)     = sin(p / 10000^(2i / D))
//! PE(p, 2i + 1) = cos(p / 10000^(2i / D))
//! ```
//!
//! [`Positions::SinusoidalHalves`] has the same values, but all sines before all cosines.
//! [`Positions::SinusoidalFairseq`] also has the exponent `i / (D / 2 - 1)` instead of
//! `i / (D / 2)`, and `p + pad_id + 1` in place of `p`. In sources, its positions count only the
//! tokens that are not padding, and the encoding of padding is 0.

use std::ops::Range;

use burn::module::Module;
use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};

use super::table::rows;
use crate::config::{PositionConfig, Positions};
use crate::init::Init;
use crate::mask::AttentionMask;

/// The table of sines and cosines, `[max_len, D]`.
///
/// The table has no gradient and moves between devices with the module. It is recomputed, not saved
/// with the parameters.
#[derive(Module, Debug)]
pub struct SinusoidalEncoding {
    table: Tensor<2>,
    /// Id of the padding that positions do not count; `None` if they count every token.
    uncounted: Option<u32>,
    #[module(skip)]
    kind: Positions,
    /// Id of the padding, after which fairseq's positions begin; 0 for other kinds.
    #[module(skip)]
    pad_id: u32,
}

impl SinusoidalEncoding {
    /// Computes the table of `max_len` positions, with alternating sines and cosines.
    ///
    /// `d_model` may be even or odd.
    pub fn new(max_len: usize, d_model: usize, device: &Device) -> Self {
        Self {
            table: Tensor::from_data(table(max_len, d_model), device),
            uncounted: None,
            kind: Positions::Sinusoidal,
            pad_id: 0,
        }
    }

    /// Builds the configured encoding of sources, or of targets if `is_causal`.
    pub(super) fn build(
        config: &PositionConfig,
        d_model: usize,
        is_causal: bool,
        init: &mut Init,
    ) -> Self {
        let is_fairseq = config.kind == Positions::SinusoidalFairseq;
        Self {
            kind: config.kind,
            pad_id: if is_fairseq { config.pad_id } else { 0 },
            table: init.sinusoid(config, d_model, configured_table),
            // Positions of targets count every token, because a decoder with a cache has only the
            // number of earlier tokens.
            uncounted: (is_fairseq && !is_causal).then_some(config.pad_id),
        }
    }

    /// Returns the same encoding of up to `max_len` positions.
    pub(super) fn lengthened(mut self, max_len: usize, init: &mut Init) -> Self {
        let config = PositionConfig::new(self.kind)
            .with_max_len(max_len)
            .with_pad_id(self.pad_id);
        self.table = init.sinusoid(&config, self.table.dims()[1], configured_table);
        self
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
        rows(self.table.clone(), offset, length)
    }

    /// Returns the encodings of tokens whose sequences have `offset` tokens before them.
    ///
    /// # Shapes
    ///
    /// - ids: `[B, T]`
    /// - output: `[B, T, D]`, or `[1, T, D]` if positions count every token
    ///
    /// # Panics
    ///
    /// If `offset + T` exceeds `max_len`, or `T` is 0.
    pub(super) fn of_tokens(&self, ids: Tensor<2, Int>, offset: usize) -> Tensor<3> {
        let (length, device) = (ids.dims()[1], ids.device());
        let all = self.forward(offset, length);
        let Some(pad_id) = self.uncounted else {
            return all.unsqueeze();
        };
        let is_padding = ids.equal_elem(pad_id);
        // In row i and column j of a causal mask, a blocked key says that token j comes after
        // token i.
        let comes_after = AttentionMask::causal(length, &device);
        let comes_after = comes_after.blocked().clone().reshape([length, length]);
        let counted = is_padding.clone().bool_not();
        // Tokens are counted in float32 on every device, since bfloat16 is exact only up to 256.
        let [counted, comes_after] =
            [counted, comes_after].map(|each| each.float().cast(FloatDType::F32));
        let index = counted.matmul(comes_after).int();
        let encodings = fused::embedding(all, index);
        let is_padding = is_padding.unsqueeze_dim::<3>(2).expand(encodings.dims());
        encodings.mask_fill(is_padding, 0.0)
    }

    /// Returns the number of positions in the table.
    pub(super) fn max_len(&self) -> usize {
        self.table.dims()[0]
    }
}

/// Base of the paper's frequencies.
const BASE: f64 = 10_000.0;

/// Returns the frequency `base^(-2i / D)` of pair `i` of dimensions, computed in log space.
pub(super) fn frequency(base: f64, i: usize, d_model: usize) -> f64 {
    (-(base.ln()) * (2 * i) as f64 / d_model as f64).exp()
}

/// Computes the table of the configured kind, `[max_len, D]`.
pub(crate) fn configured_table(config: &PositionConfig, d_model: usize) -> TensorData {
    let max_len = config.max_len;
    match config.kind {
        Positions::SinusoidalHalves => table_in_halves(max_len, d_model),
        Positions::SinusoidalFairseq => {
            let half = d_model / 2;
            let frequency = |i| frequency(BASE, i, 2 * (half - 1));
            let first = config.pad_id as usize + 1;
            let positions = first..first + max_len;
            fill(positions, d_model, frequency, |d| (d % half, d < half))
        }
        _ => table(max_len, d_model),
    }
}

/// Computes the table with alternating sines and cosines, `[max_len, D]`.
pub(crate) fn table(max_len: usize, d_model: usize) -> TensorData {
    let frequency = |i| frequency(BASE, i, d_model);
    fill(0..max_len, d_model, frequency, |d| (d / 2, d % 2 == 0))
}

/// Computes the table with all sines before all cosines, `[max_len, D]`.
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
    let frequency = |i| frequency(BASE, i, d_model);
    fill(0..max_len, d_model, frequency, |d| (d % half, d < half))
}

/// Computes a table for `positions` in f64 and rounds it to f32 at the end.
///
/// `frequency` returns the frequency of a sine-cosine pair, given the index of the pair. `pair_of`
/// maps a dimension to the index of its sine-cosine pair, and to `true` if the dimension is the
/// sine.
fn fill(
    positions: Range<usize>,
    d_model: usize,
    frequency: impl Fn(usize) -> f64,
    pair_of: impl Fn(usize) -> (usize, bool),
) -> TensorData {
    let max_len = positions.len();
    let columns: Vec<(f64, bool)> = (0..d_model)
        .map(|d| {
            let (pair, is_sine) = pair_of(d);
            (frequency(pair), is_sine)
        })
        .collect();
    let mut values = Vec::with_capacity(max_len * d_model);
    for position in positions {
        for (frequency, is_sine) in &columns {
            let angle = position as f64 * frequency;
            let value = if *is_sine { angle.sin() } else { angle.cos() };
            values.push(value as f32);
        }
    }
    TensorData::new(values, [max_len, d_model])
}
