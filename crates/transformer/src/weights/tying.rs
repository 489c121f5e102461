//! Weight tying of imported models (paper, section 3.4).
//!
//! A vocabulary matrix that the file lacks, or that equals the target embedding, shares the
//! parameter of the target embedding, unless the options ask for separate parameters.

use std::collections::BTreeMap;

use burn::tensor::TensorData;

use super::error::WeightsError;
use super::file::WeightsFile;
use super::int8::{Int8, transpose};
use super::parameters::Parameters;
use super::pieces::{self, Pieces};
use super::stacks::Stacks;
use crate::config::WeightTying;

pub(super) const SOURCE_TABLE: &str = "encoder.input.embedding.weight";
const TARGET_TABLE: &str = "decoder.input.embedding.weight";
pub(super) const GENERATOR: &str = "decoder.generator.weight";

/// Returns whether a parameter is a vocabulary matrix.
pub(super) fn is_vocabulary(name: &str) -> bool {
    [SOURCE_TABLE, TARGET_TABLE, GENERATOR].contains(&name)
}

/// The source embedding or the generator of a file, compared with the target embedding.
enum Matrix {
    /// The file lacks the matrix.
    Absent,
    /// The matrix has the elements of the target embedding; the generator has them transposed.
    Table,
    /// The matrix has other elements, or the file has no target embedding.
    Other(TensorData),
}

/// The vocabulary matrices of a file. Copies of the target embedding are not kept.
pub(super) struct Vocabulary {
    /// The target embedding; `None` in the file of an encoder alone.
    table: Option<TensorData>,
    source: Matrix,
    generator: Matrix,
}

impl Vocabulary {
    /// Reads the vocabulary matrices.
    ///
    /// # Errors
    ///
    /// A tensor cannot be read, has elements that are not finite, or differs from another tensor
    /// for the same matrix.
    pub fn read(
        file: &WeightsFile,
        pieces: &BTreeMap<&str, Pieces<'_>>,
        shapes: &BTreeMap<String, Vec<usize>>,
    ) -> Result<Self, WeightsError> {
        let of = |name| pieces.get(name).zip(shapes.get(name));
        let read = |name| match of(name) {
            Some((pieces, shape)) => pieces::read(file, pieces, shape).map(Some),
            None => Ok(None),
        };
        // Several rules of a layout can name the same tensor for one matrix, as those of T5 do.
        let tensor = |name| {
            let (&(_, first), others) = of(name)?.0.split_first()?;
            let mut others = others.iter();
            others
                .all(|(_, other)| file.is_one_tensor(first, other))
                .then_some(first)
        };
        let table = read(TARGET_TABLE)?;
        let matrix = |name, is_same: fn(&TensorData, &TensorData) -> bool| {
            if let Some((own, table)) = tensor(name).zip(tensor(TARGET_TABLE))
                && file.is_one_tensor(own, table)
            {
                return Ok(Matrix::Table);
            }
            Ok(match (read(name)?, &table) {
                (None, _) => Matrix::Absent,
                (Some(own), Some(table)) if is_same(&own, table) => Matrix::Table,
                (Some(own), _) => Matrix::Other(own),
            })
        };
        Ok(Self {
            source: matrix(SOURCE_TABLE, |own, table| own == table)?,
            generator: matrix(GENERATOR, is_transposed)?,
            table,
        })
    }

    /// Puts the matrices that are parameters of the model into `parameters`, and sets in `stacks`
    /// which ones the model shares: those of `asked`, or all that are the same.
    ///
    /// A generator that the file lacks is taken from the target embedding. A source embedding that
    /// the file lacks is also taken from it, if the model can share it.
    ///
    /// # Errors
    ///
    /// The source embedding is missing, or the requested tying does not fit the matrices.
    pub fn tie(
        self,
        parameters: &mut Parameters,
        stacks: &mut Stacks,
        asked: Option<WeightTying>,
    ) -> Result<(), WeightsError> {
        let mut set = |name: &str, data| parameters.insert(name.into(), data);
        let Some(table) = self.table else {
            for (name, matrix) in [(SOURCE_TABLE, self.source), (GENERATOR, self.generator)] {
                if let Matrix::Other(own) = matrix {
                    set(name, own);
                }
            }
            return Ok(());
        };
        let Some(generator) = stacks
            .decoder
            .as_mut()
            .map(|decoder| &mut decoder.generator)
        else {
            return Ok(());
        };
        let target = generator.vocab_size;
        let source = stacks
            .encoder
            .as_mut()
            .map(|encoder| &mut encoder.input.vocab_size);
        let is_whole = source.is_some();
        let source_size = source.as_ref().and_then(|size| **size);
        let decoder = !matches!(self.generator, Matrix::Other(_));
        let embeddings = is_whole
            && source_size.is_none_or(|size| size == target)
            && !matches!(self.source, Matrix::Other(_));
        let may_lack_source = embeddings && (decoder || source_size.is_none());
        if is_whole && !may_lack_source && matches!(self.source, Matrix::Absent) {
            return Err(WeightsError::missing([SOURCE_TABLE]));
        }
        let found = match (embeddings, decoder) {
            (true, true) => WeightTying::All,
            (false, true) => WeightTying::Decoder,
            (true, false) => WeightTying::Embeddings,
            (false, false) => WeightTying::None,
        };
        let tying = asked.unwrap_or(found);
        let can = match tying {
            WeightTying::None => true,
            WeightTying::Decoder => decoder,
            WeightTying::Embeddings => embeddings,
            WeightTying::All => embeddings && decoder,
        };
        if !can {
            let what = format!(
                "has different vocabulary matrices, which weight_tying {tying} would share"
            );
            return Err(WeightsError::File(what));
        }
        generator.is_tied = tying.shares_generator();
        if !generator.is_tied {
            let own = match self.generator {
                Matrix::Other(own) => own,
                Matrix::Absent | Matrix::Table => transposed(&table),
            };
            set(GENERATOR, own);
        }
        if let Some(source) = source {
            *source = source_size
                .or(Some(target))
                .filter(|_| !tying.shares_source());
        }
        if !tying.shares_source() && is_whole {
            let own = match self.source {
                Matrix::Other(own) => own,
                Matrix::Absent | Matrix::Table => table.clone(),
            };
            set(SOURCE_TABLE, own);
        }
        set(TARGET_TABLE, table);
        Ok(())
    }
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

/// Returns whether a generator `[D, V]` is the transpose of a table `[V, D]`, to the last bit.
fn is_transposed(generator: &TensorData, table: &TensorData) -> bool {
    let (Ok(own), Ok(elements)) = (generator.as_slice::<f32>(), table.as_slice::<f32>()) else {
        return transposed(table) == *generator;
    };
    let [rows, columns] = [table.shape()[0], table.shape()[1]];
    let is_in_place = |row: usize, column: usize| {
        elements[row * columns + column].to_bits() == own[column * rows + row].to_bits()
    };
    // Several rows at once use whole cache lines.
    *generator.shape() == [columns, rows].into()
        && (0..rows).step_by(16).all(|start| {
            let lines = start..rows.min(start + 16);
            (0..columns).all(|column| lines.clone().all(|row| is_in_place(row, column)))
        })
}
