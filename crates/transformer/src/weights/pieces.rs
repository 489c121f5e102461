//! Reads one parameter from the tensors of a file that are its pieces.

use std::collections::BTreeMap;

use burn::tensor::TensorData;
use fused::map_in_parallel;

use super::error::{WeightsError, check_none};
use super::file::WeightsFile;
use super::rule::{Kind, Rule};

/// The rules for one parameter, each with the name of its tensor in the file.
pub(super) type Pieces<'a> = Vec<(&'a Rule, &'a String)>;

/// Reads one parameter of the given shape from the tensors in `pieces`.
///
/// A quantised matrix stays quantised if the parameter consists of this matrix alone, in the
/// arrangement of this crate. Otherwise, it is dequantised.
///
/// # Errors
///
/// A tensor cannot be read, a tensor has elements that are not finite, or two tensors for the same
/// part of the parameter differ.
pub(super) fn read(
    file: &WeightsFile,
    pieces: &Pieces,
    shape: &[usize],
) -> Result<TensorData, WeightsError> {
    if let &[(rule, name)] = &pieces[..]
        && rule.is_identity()
        && let Some(matrix) = file.read_int8(name)?
    {
        return Ok(matrix);
    }
    let mut values = vec![0f32; shape.iter().product()];
    let mut filled: BTreeMap<usize, &String> = BTreeMap::new();
    for &(rule, name) in pieces {
        let Some(other) = filled.insert(rule.our_part.first, name) else {
            place(file, rule, name, shape, &mut values)?;
            continue;
        };
        if file.is_one_tensor(name, other) {
            continue;
        }
        let mut again = values.clone();
        place(file, rule, name, shape, &mut again)?;
        let is_other = |(one, two): (&f32, &f32)| one.to_bits() != two.to_bits();
        if values.iter().zip(&again).any(is_other) {
            let what = format!("has different elements in {other} and {name}, which must be equal");
            return Err(WeightsError::File(what));
        }
    }
    Ok(TensorData::new(values, shape.to_vec()))
}

/// Copies the elements of a tensor, which must be finite, to their places in a parameter.
fn place(
    file: &WeightsFile,
    rule: &Rule,
    name: &str,
    shape: &[usize],
    values: &mut [f32],
) -> Result<(), WeightsError> {
    /// Number of elements that a thread reads at least.
    const PART: usize = 1 << 20;
    let total = file.tensors[name].shape.iter().product();
    let width = shape.last().copied().unwrap_or(1).max(1);
    // A row of the tensor is in one row of the parameter, unless the tensor is transposed.
    let rows = match rule.kind {
        Kind::Linear => total,
        _ if file.has_parts(name) => PART.div_ceil(width),
        _ => total,
    };
    let work = values.len();
    let parts = values
        .chunks_mut(rows.saturating_mul(width).max(1))
        .enumerate();
    let not_finite = map_in_parallel(parts.collect(), work, |(index, values)| {
        let (start, mut not_finite) = (index * rows, 0);
        let part = start..start + rows;
        file.read_rows(name, rule.their_width(shape), part, |first, rows| {
            not_finite += rows.iter().filter(|x| !x.is_finite()).count();
            rule.place(shape, first - start, rows, values);
            Ok(())
        })?;
        Ok(not_finite)
    });
    let not_finite = not_finite
        .into_iter()
        .sum::<Result<usize, WeightsError>>()?;
    check_none(name, not_finite, total)
}
