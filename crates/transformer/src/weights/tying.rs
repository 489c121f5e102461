//! Vocabulary matrices that are one and the same (paper, section 3.4): each its own in a file, one
//! parameter here.

use burn::tensor::TensorData;

use super::contents::Contents;
use super::error::WeightsError;
use super::options::ImportOptions;
use super::parameters::Parameters;
use crate::config::{TransformerConfig, WeightTying};

const SOURCE_TABLE: &str = "encoder.input.embedding.weight";
const TARGET_TABLE: &str = "decoder.input.embedding.weight";
const GENERATOR: &str = "decoder.generator.weight";

/// Which of the vocabulary matrices are the same; takes away those that then are another's.
pub(super) fn tie(
    parameters: &mut Parameters,
    config: &TransformerConfig,
    contents: Contents,
    options: &ImportOptions,
) -> Result<WeightTying, WeightsError> {
    let Some(table) = parameters.get(TARGET_TABLE).cloned() else {
        return Ok(WeightTying::None);
    };
    let generator = transposed(&table);
    let same = |own: Option<&TensorData>, other: &TensorData| own.is_none_or(|own| own == other);
    let is_whole = contents == Contents::Model;
    let decoder = same(parameters.get(GENERATOR), &generator);
    let all = is_whole
        && decoder
        && config.source_vocab_size == config.target_vocab_size
        && same(parameters.get(SOURCE_TABLE), &table);
    if is_whole && !all && !parameters.contains_key(SOURCE_TABLE) {
        return Err(WeightsError::missing([SOURCE_TABLE]));
    }
    let found = match (all, decoder) {
        (true, _) => WeightTying::All,
        (_, true) => WeightTying::Decoder,
        _ => WeightTying::None,
    };
    let tying = options.weight_tying.unwrap_or(found);
    let can = match tying {
        WeightTying::None => true,
        WeightTying::Decoder => decoder,
        WeightTying::All => all,
    };
    if !can {
        let what = format!(
            "its vocabulary matrices are not the same, but the weights' tying is to be {tying:?}"
        );
        return Err(WeightsError::File(what));
    }
    if tying == WeightTying::None {
        parameters.entry(GENERATOR.into()).or_insert(generator);
    } else {
        parameters.remove(GENERATOR);
    }
    if tying == WeightTying::All {
        parameters.remove(SOURCE_TABLE);
    } else if is_whole {
        parameters.entry(SOURCE_TABLE.into()).or_insert(table);
    }
    Ok(tying)
}

/// `[D, V]` of `[V, D]`.
pub(super) fn transposed(table: &TensorData) -> TensorData {
    let [rows, columns] = [table.shape()[0], table.shape()[1]];
    let values = table.as_slice::<f32>().expect("it was read as f32");
    let column = |c: usize| (0..rows).map(move |r| values[r * columns + c]);
    let values: Vec<f32> = (0..columns).flat_map(column).collect();
    TensorData::new(values, [columns, rows])
}
