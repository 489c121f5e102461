//! Weight tying (paper, section 3.4): vocabulary matrices that are equal in a file become one
//! parameter.

use burn::tensor::TensorData;

use super::contents::Contents;
use super::error::WeightsError;
use super::int8::{Int8, transpose};
use super::options::ImportOptions;
use super::parameters::Parameters;
use crate::config::{TransformerConfig, WeightTying};

const SOURCE_TABLE: &str = "encoder.input.embedding.weight";
const TARGET_TABLE: &str = "decoder.input.embedding.weight";
const GENERATOR: &str = "decoder.generator.weight";

/// Returns which vocabulary matrices are shared, and changes `parameters` accordingly.
///
/// Copies of a shared matrix are removed. A matrix that the file lacks is copied from the target
/// embedding, unless the model shares it.
///
/// # Errors
///
/// A matrix is missing, or the requested tying does not fit the matrices.
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
    let embeddings = is_whole
        && config.source_vocab_size == config.target_vocab_size
        && same(parameters.get(SOURCE_TABLE), &table);
    let may_lack_source = embeddings && (decoder || config.weight_tying.shares_source());
    if is_whole && !may_lack_source && !parameters.contains_key(SOURCE_TABLE) {
        return Err(WeightsError::missing([SOURCE_TABLE]));
    }
    let found = match (embeddings, decoder) {
        (true, true) => WeightTying::All,
        (false, true) => WeightTying::Decoder,
        (true, false) => WeightTying::Embeddings,
        (false, false) => WeightTying::None,
    };
    let tying = options.weight_tying.unwrap_or(found);
    let can = match tying {
        WeightTying::None => true,
        WeightTying::Decoder => decoder,
        WeightTying::Embeddings => embeddings,
        WeightTying::All => embeddings && decoder,
    };
    if !can {
        let what =
            format!("has different vocabulary matrices, which weight_tying {tying} would share");
        return Err(WeightsError::File(what));
    }
    if tying.shares_generator() {
        parameters.remove(GENERATOR);
    } else {
        parameters.entry(GENERATOR.into()).or_insert(generator);
    }
    if tying.shares_source() {
        parameters.remove(SOURCE_TABLE);
    } else if is_whole {
        parameters.entry(SOURCE_TABLE.into()).or_insert(table);
    }
    Ok(tying)
}

/// Returns the transpose, `[D, V]`, of a table `[V, D]`.
pub(super) fn transposed(table: &TensorData) -> TensorData {
    if let Some(table) = Int8::of(table) {
        return table.transposed();
    }
    let [rows, columns] = [table.shape()[0], table.shape()[1]];
    let values = table.as_slice::<f32>().expect("the table was read as f32");
    let values = transpose(values, [rows, columns]);
    TensorData::new(values, [columns, rows])
}
