//! Import of position tables, which are sinusoidal or learned.

use burn::tensor::TensorData;

use super::error::{WeightsError, check_finite};
use super::file::WeightsFile;
use super::options::ImportOptions;
use super::parameters::Parameters;
use super::recognise::Recognised;
use super::stacks::Stacks;
use crate::config::Positions;
use crate::position::sinusoidal;

impl Recognised {
    /// Sets the kind and the number of positions of `stacks` from the file's position tables; a
    /// stack without a table has those of the other one. Returns the learned tables, which are
    /// parameters.
    ///
    /// # Errors
    ///
    /// A table cannot be read, or has the wrong shape or elements that are not finite. The tables
    /// are of different kinds, or a table contradicts the options.
    pub(super) fn positions(
        &self,
        file: &WeightsFile,
        options: &ImportOptions,
        stacks: &mut Stacks,
    ) -> Result<Parameters, WeightsError> {
        let mut trained = Parameters::new();
        let d_model = stacks
            .parts_mut()
            .next()
            .map_or(1, |(_, input, _)| input.d_model);
        let tables = self.found.iter().filter_map(|(rule, name)| {
            let is_table = rule.ours.ends_with(".input.position.learned.weight");
            Some((rule, name.as_ref()?)).filter(|_| is_table)
        });
        let mut kinds = Vec::new();
        for (rule, name) in tables {
            let data = file.read(name)?;
            let shape = data.shape().to_vec();
            let offset = self.layout.family().position_offset;
            let rows = data.num_elements() / d_model;
            let expected = rule.their_shape(&[rows, d_model]);
            if rows <= offset || !rule.fits(&shape, &expected) {
                return Err(WeightsError::Shape {
                    name: name.clone(),
                    expected: rule.their_shape(&[rows.max(1 + offset), d_model]),
                    found: shape,
                });
            }
            let max_len = rows - offset;
            let values: Vec<f32> = data.iter::<f32>().skip(offset * d_model).collect();
            check_finite(name, &values)?;
            let data = TensorData::new(values, [max_len, d_model]);
            let kind = match options.positions {
                Some(Positions::Learned) => Positions::Learned,
                _ if offset > 0 => Positions::Learned,
                _ => kind_of(&data, &file.tensors[name].dtype),
            };
            let max_len = match (kind, options.max_len) {
                (Positions::Learned, Some(asked)) if asked != max_len => {
                    let what = format!("{name} has {max_len} positions, not {asked}");
                    return Err(WeightsError::File(what));
                }
                // Sinusoidal tables can be computed for any length.
                (_, asked) => asked.unwrap_or(max_len),
            };
            kinds.push((name, kind));
            for (stack, input, _) in stacks.parts_mut() {
                if kinds.len() == 1 || rule.ours.starts_with(stack) {
                    input.positions.kind = kind;
                    input.positions.max_len = max_len;
                }
            }
            if kind == Positions::Learned {
                trained.insert(rule.ours.clone(), data);
            }
        }
        let Some(&(first, kind)) = kinds.first() else {
            return Ok(trained);
        };
        if let Some((name, other)) = kinds.iter().find(|(_, other)| *other != kind) {
            let what = format!("{first} has {kind} positions, but {name} has {other} ones");
            return Err(WeightsError::File(what));
        }
        if let Some(asked) = options.positions
            && asked != kind
        {
            let what = format!("{first} has {kind} positions, not {asked} ones");
            return Err(WeightsError::File(what));
        }
        Ok(trained)
    }
}

/// Returns the kind of a position table `[max_len, D]`, recognised by its elements.
///
/// A table is sinusoidal if its elements equal those of a computed table, up to rounding. PyTorch
/// computes the frequencies in f32, with an error of a few units in the last place. The error that
/// this causes in an element grows with the position.
fn kind_of(table: &TensorData, dtype: &str) -> Positions {
    let [max_len, d_model] = [table.shape()[0], table.shape()[1]];
    let rounding = match dtype {
        "f16" => 5e-4,
        "bf16" => 4e-3,
        _ => 1e-6,
    };
    let is = |expected: TensorData| {
        let pairs = table.iter::<f32>().zip(expected.iter::<f32>());
        pairs.enumerate().all(|(index, (found, expected))| {
            let position = (index / d_model) as f32;
            (found - expected).abs() <= rounding + position * 2e-6
        })
    };
    if is(sinusoidal::table(max_len, d_model)) {
        Positions::Sinusoidal
    } else if d_model.is_multiple_of(2) && is(sinusoidal::table_in_halves(max_len, d_model)) {
        Positions::SinusoidalHalves
    } else {
        Positions::Learned
    }
}
