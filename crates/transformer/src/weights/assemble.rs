//! A model and its parameters, put together from the tensors of a file whose names are known.

use std::collections::BTreeMap;

use burn::tensor::TensorData;

use super::file::{WeightsFile, is_float};
use super::import::ImportOptions;
use super::layout::{Kind, Layout};
use super::recognise::Recognised;
use super::{CONFIG, Parameters, WeightsError};
use crate::config::{Positions, TransformerConfig};
use crate::position::sinusoidal;

impl Recognised {
    /// Refuses a file without all tensors, or with more.
    pub(super) fn check(&self, allow_unused: bool) -> Result<(), WeightsError> {
        if let Some(name) = self.missing.first() {
            return Err(WeightsError::Missing {
                name: name.clone(),
                others: self.missing.len() - 1,
            });
        }
        match self.unused.first() {
            Some(name) if !allow_unused => Err(WeightsError::Unused {
                name: name.clone(),
                others: self.unused.len() - 1,
            }),
            _ => Ok(()),
        }
    }

    /// The model, as far as shapes and options say.
    pub(super) fn config(
        &self,
        file: &WeightsFile,
        options: &ImportOptions,
    ) -> Result<TransformerConfig, WeightsError> {
        let shape = |ours: &str| -> Option<(&[usize], Kind)> {
            let (rule, name) = self
                .found
                .iter()
                .find(|(rule, name)| rule.ours == ours && name.is_some())?;
            Some((&file.tensors[name.as_ref()?].shape, rule.kind))
        };
        let first = |ours: &str| shape(ours).and_then(|(shape, _)| shape.first().copied());
        let vocab_size = |stack: &str| first(&format!("{stack}.input.embedding.weight"));
        let stack = if self.contents.has()[0] {
            "encoder"
        } else {
            "decoder"
        };
        let of_layer = |name: &str| format!("{stack}.layers.0.{name}");
        let target = vocab_size("decoder");
        let source = vocab_size("encoder").or(target).unwrap_or(1);
        let target = target.unwrap_or(source);

        let written: Option<TransformerConfig> = match file.metadata.get(CONFIG) {
            Some(json) if self.layout == Layout::Native => {
                let config = serde_json::from_str(json);
                Some(config.map_err(|error| {
                    WeightsError::File(format!(
                        "has no configuration of a model in its header ({error})"
                    ))
                })?)
            }
            _ => None,
        };
        let is_written = written.is_some();
        let mut config = written.unwrap_or_else(|| self.layout.usual(target));
        (config.source_vocab_size, config.target_vocab_size) = (source, target);
        config.d_model = first(&of_layer("self_attention_residual.norm.gamma")).unwrap_or(0);
        config.d_ff = match shape(&of_layer("feed_forward.w_2.weight")) {
            Some((&[_, d_ff], Kind::Linear)) | Some((&[d_ff, _], _)) => d_ff,
            _ => 0,
        };
        let [n_encoder_layers, n_decoder_layers] = self.n_layers;
        let n_layers = n_encoder_layers.max(n_decoder_layers);
        let or_other = |n| if n == 0 { n_layers } else { n };
        config.n_encoder_layers = or_other(n_encoder_layers);
        config.n_decoder_layers = or_other(n_decoder_layers);
        if matches!(self.layout, Layout::Native | Layout::TorchNn) {
            config.final_norm = shape(&format!("{stack}.final_norm.gamma")).is_some();
        }
        match options.n_heads {
            Some(n_heads) => config.n_heads = n_heads,
            None if is_written => {}
            None => return Err(WeightsError::Heads),
        }
        fn set<T: Clone>(field: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                *field = value.clone();
            }
        }
        set(&mut config.activation, &options.activation);
        set(&mut config.norm_placement, &options.norm_placement);
        set(&mut config.norm_variance, &options.norm_variance);
        set(&mut config.norm_epsilon, &options.norm_epsilon);
        set(&mut config.positions, &options.positions);
        set(&mut config.max_len, &options.max_len);
        set(&mut config.scale_embeddings, &options.scale_embeddings);
        set(&mut config.pad_id, &options.pad_id);
        set(&mut config.dropout, &options.dropout);
        Ok(config)
    }

    /// What the file's tables of positions are; those that are trained are parameters.
    pub(super) fn positions(
        &self,
        file: &WeightsFile,
        options: &ImportOptions,
        config: &mut TransformerConfig,
    ) -> Result<Parameters, WeightsError> {
        let mut trained = Parameters::new();
        let tables = self.found.iter().filter_map(|(rule, name)| {
            let is_table = rule.ours.ends_with(".input.position.Learned.weight");
            Some((rule, name.as_ref()?)).filter(|_| is_table)
        });
        let mut kinds = Vec::new();
        for (rule, name) in tables {
            let data = file.read(name)?;
            let shape = data.shape().to_vec();
            let max_len = data.num_elements() / config.d_model.max(1);
            let expected = rule.their_shape(&[max_len, config.d_model]);
            if max_len == 0 || !rule.fits(&shape, &expected) {
                return Err(WeightsError::Shape {
                    name: name.clone(),
                    expected: rule.their_shape(&[config.max_len, config.d_model]),
                    found: shape,
                });
            }
            let values: Vec<f32> = data.iter::<f32>().collect();
            let data = TensorData::new(values, [max_len, config.d_model]);
            let kind = kind_of_positions(&data, config);
            kinds.push((name, kind));
            config.max_len = match (kind, options.max_len) {
                // It can be computed as far as one likes.
                (Positions::Sinusoidal | Positions::SinusoidalHalves, Some(max_len)) => max_len,
                _ => max_len,
            };
            if kind == Positions::Learned {
                trained.insert(rule.ours.clone(), data);
            }
        }
        let Some(&(first, kind)) = kinds.first() else {
            return Ok(trained);
        };
        if let Some((name, other)) = kinds.iter().find(|(_, other)| *other != kind) {
            let what = format!("{first} is a table of {kind:?} positions, but {name} of {other:?}");
            return Err(WeightsError::File(what));
        }
        if let Some(asked) = options.positions
            && asked != kind
        {
            let what = format!("{first} is a table of {kind:?} positions, not of {asked:?}");
            return Err(WeightsError::File(what));
        }
        config.positions = kind;
        Ok(trained)
    }

    /// Compares all shapes before anything is read.
    pub(super) fn check_shapes(
        &self,
        file: &WeightsFile,
        shapes: &BTreeMap<String, Vec<usize>>,
    ) -> Result<(), WeightsError> {
        for (rule, name) in &self.found {
            let (Some(name), Some(shape)) = (name, shapes.get(&rule.ours)) else {
                continue;
            };
            let info = &file.tensors[name];
            let expected = rule.their_shape(shape);
            if !rule.fits(&info.shape, &expected) {
                return Err(WeightsError::Shape {
                    name: name.clone(),
                    expected,
                    found: info.shape.clone(),
                });
            }
            if !is_float(info.dtype) {
                return Err(WeightsError::Precision {
                    name: name.clone(),
                    dtype: info.dtype.name().into(),
                });
            }
        }
        Ok(())
    }

    /// Puts one parameter together; none where the file has nothing for it.
    pub(super) fn read(
        &self,
        file: &WeightsFile,
        ours: &str,
        shape: &[usize],
        warnings: &mut Vec<String>,
    ) -> Result<Option<TensorData>, WeightsError> {
        let pieces = self.found.iter().filter_map(|(rule, name)| {
            Some((rule, name.as_ref()?)).filter(|(rule, _)| rule.ours == ours)
        });
        let mut values = vec![0f32; shape.iter().product()];
        let mut filled: BTreeMap<usize, &String> = BTreeMap::new();
        for (rule, name) in pieces {
            let data = file.read(name)?;
            let given = data.as_slice::<f32>().expect("it was read as f32");
            let odd = given.iter().filter(|x| !x.is_finite()).count();
            if odd > 0 {
                let all = given.len();
                warnings.push(format!("{name}: {odd} of {all} numbers are not finite"));
            }
            match filled.insert(rule.our_part.first, name) {
                None => rule.for_each_pair(shape, |there, here| values[here] = given[there]),
                Some(other) => {
                    let mut differ = false;
                    rule.for_each_pair(shape, |there, here| {
                        differ |= values[here].to_bits() != given[there].to_bits();
                    });
                    if differ {
                        let what = format!("{other} and {name} should be the same numbers");
                        return Err(WeightsError::File(what));
                    }
                }
            }
        }
        let data = || TensorData::new(values, shape.to_vec());
        Ok((!filled.is_empty()).then(data))
    }
}

/// By its numbers. Tables in half precision, and those of long sequences in single, are some
/// thousandths off.
fn kind_of_positions(table: &TensorData, config: &TransformerConfig) -> Positions {
    let is = |expected: TensorData| {
        let mut pairs = table.iter::<f32>().zip(expected.iter::<f32>());
        pairs.all(|(found, expected)| (found - expected).abs() < 1e-2)
    };
    let [max_len, d_model] = [table.shape()[0], config.d_model];
    if is(sinusoidal::table(max_len, d_model)) {
        Positions::Sinusoidal
    } else if d_model.is_multiple_of(2) && is(sinusoidal::table_in_halves(max_len, d_model)) {
        Positions::SinusoidalHalves
    } else {
        Positions::Learned
    }
}
