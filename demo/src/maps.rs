//! Attention weights of every layer and head.

use burn::tensor::Tensor;
use serde::Serialize;
use transformer::inspect::Inspection;

/// Attention weights of one layer and one head, in thousandths: a row of weights for each query.
type Map = Vec<Vec<u16>>;

/// Attention weights of a model for one source and one target.
///
/// Weights are in thousandths, indexed by layer, head, query and key.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Maps {
    /// Weights of the decoder's cross-attention.
    pub cross: Vec<Vec<Map>>,
    /// Weights of the encoder's self-attention.
    pub encoder: Vec<Vec<Map>>,
    /// Weights of the decoder's self-attention.
    pub decoder: Vec<Vec<Map>>,
}

impl Maps {
    /// Returns the weights of the first sequence of a batch.
    pub fn of(inspection: &Inspection) -> Self {
        let decoder = &inspection.decoder;
        let cross = decoder
            .iter()
            .filter_map(|layer| layer.cross_attention.as_ref());
        Self {
            cross: cross.map(heads).collect(),
            encoder: inspection
                .encoder
                .iter()
                .map(|layer| heads(&layer.self_attention))
                .collect(),
            decoder: decoder
                .iter()
                .map(|layer| heads(&layer.self_attention))
                .collect(),
        }
    }
}

/// Returns the weights of each head of a layer, for the first sequence of the batch.
///
/// `weights` is `[B, H, T, S]`.
fn heads(weights: &Tensor<4>) -> Vec<Map> {
    let [_, n_heads, queries, keys] = weights.dims();
    let all: Vec<f32> = weights.to_data().iter::<f32>().collect();
    let thousandths = |row: &[f32]| {
        row.iter()
            .map(|weight| (weight * 1000.0).round() as u16)
            .collect()
    };
    let heads = all.chunks(queries * keys).take(n_heads);
    heads
        .map(|head| head.chunks(keys).map(thousandths).collect())
        .collect()
}
