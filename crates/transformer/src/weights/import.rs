//! Weights of others, into this crate's names and arrangement.

use std::collections::BTreeMap;
use std::fmt;

use burn::tensor::{Device, TensorData};

use super::file::{ForeignObject, WeightsFile, is_float};
use super::layout::{self, Kind, Layout};
use super::recognise::{Recognised, recognise};
use super::{CONFIG, Parameters, WeightsError, with_parameters};
use crate::config::{
    Activation, NormPlacement, NormVariance, Positions, TransformerConfig, WeightTying,
};
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::init::Init;
use crate::model::Transformer;
use crate::position::sinusoidal;

/// What a file's weights do not show, or show otherwise than it is meant.
///
/// Sizes and numbers of layers are read from the shapes. The number of heads must be given, unless
/// the file was written by this crate; everything else has a value that is usual for the layout.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // fields are those of `TransformerConfig`, where they have the same names
pub struct ImportOptions {
    /// The layout, where it is not to be recognised by the names.
    pub layout: Option<Layout>,
    pub n_heads: Option<usize>,
    pub activation: Option<Activation>,
    pub norm_placement: Option<NormPlacement>,
    pub norm_variance: Option<NormVariance>,
    pub norm_epsilon: Option<f64>,
    pub positions: Option<Positions>,
    pub max_len: Option<usize>,
    pub scale_embeddings: Option<bool>,
    pub weight_tying: Option<WeightTying>,
    pub pad_id: Option<u32>,
    pub dropout: Option<f64>,
    /// Tensors by another name than in the file: `(name there, name in the layout)`.
    pub rename: Vec<(String, String)>,
    /// Whether the file may hold more than the model, and objects that are no tensors.
    pub allow_unused: bool,
}

/// What of a model a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Encoder, decoder and generator.
    Model,
    /// The encoder alone.
    Encoder,
    /// The decoder alone, with its generator.
    Decoder,
}

impl Contents {
    /// Whether it is an encoder, and whether it is a decoder.
    pub(super) fn has(self) -> [bool; 2] {
        [self != Self::Decoder, self != Self::Encoder]
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Model => "a whole model",
            Self::Encoder => "an encoder alone",
            Self::Decoder => "a decoder alone",
        })
    }
}

/// Weights in this crate's names and arrangement, and what they are weights of.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The layout that they were in.
    pub layout: Layout,
    /// What they are of a model.
    pub contents: Contents,
    /// The model.
    pub config: TransformerConfig,
    /// By the names in a whole model.
    pub parameters: Parameters,
    /// What a user should know: values that are no numbers, tensors that were passed over.
    pub warnings: Vec<String>,
}

impl Imported {
    /// The model, with these weights.
    ///
    /// # Errors
    ///
    /// If the file holds one stack alone.
    pub fn transformer(self, device: &Device) -> Result<Transformer, WeightsError> {
        if self.contents != Contents::Model {
            let what = format!("holds {}, not a whole model", self.contents);
            return Err(WeightsError::File(what));
        }
        let model = Transformer::build(&self.config, &mut Init::new(device));
        with_parameters(&model, self.parameters)
    }

    /// The encoder, with these weights; without a table where the file has none for it.
    ///
    /// # Errors
    ///
    /// If the file holds a decoder alone.
    pub fn encoder(self, device: &Device) -> Result<Encoder, WeightsError> {
        let own = self.stack("encoder.", Contents::Decoder)?;
        let has_table = own.contains_key("input.embedding.weight");
        let tying = if has_table {
            WeightTying::None
        } else {
            WeightTying::All
        };
        let config = self.config.with_weight_tying(tying);
        with_parameters(&Encoder::build(&config, &mut Init::new(device)), own)
    }

    /// The decoder, with these weights.
    ///
    /// # Errors
    ///
    /// If the file holds an encoder alone.
    pub fn decoder(self, device: &Device) -> Result<Decoder, WeightsError> {
        let own = self.stack("decoder.", Contents::Encoder)?;
        let decoder = Decoder::build(&self.config, true, &mut Init::new(device));
        with_parameters(&decoder, own)
    }

    fn stack(&self, name: &str, without: Contents) -> Result<Parameters, WeightsError> {
        if self.contents == without {
            return Err(WeightsError::File(format!("holds {without}")));
        }
        let own = self.parameters.iter().filter_map(|(path, data)| {
            let path = path.strip_prefix(name)?;
            Some((path.to_string(), data.clone()))
        });
        Ok(own.collect())
    }
}

/// Reads a file's weights.
///
/// # Errors
///
/// If the names are no layout's, a tensor is missing, left over or of another shape, if the file
/// holds other objects than tensors, or if no model can be built from what it holds. Nothing is
/// half done then.
pub fn import(file: &WeightsFile, options: &ImportOptions) -> Result<Imported, WeightsError> {
    if let Some(foreign) = file.foreign.first()
        && !options.allow_unused
    {
        return Err(WeightsError::Foreign {
            path: foreign.path.clone(),
            class: foreign.class.clone(),
            others: file.foreign.len() - 1,
        });
    }
    let recognised = recognise(file, options)?;
    recognised.check(options.allow_unused)?;
    let mut warnings = Vec::new();
    let left = recognised.beside.len() + recognised.unused.len();
    if left > 0 {
        warnings.push(format!("{left} tensors beside the model's were not read"));
    }
    for foreign in &file.foreign {
        let ForeignObject { path, class } = foreign;
        warnings.push(format!("{path} was not read: it asks for {class}"));
    }
    let mut config = recognised.config(file, options)?;
    let positions = recognised.positions(file, options, &mut config)?;
    let has = recognised.contents.has();
    // Every matrix its own at first; what is shared is seen by its numbers.
    let untied = config.clone().with_weight_tying(WeightTying::None);
    untied.validate().map_err(WeightsError::Config)?;
    let shapes: BTreeMap<_, _> = layout::shapes(&untied, has).into_iter().collect();
    recognised.check_shapes(file, &shapes)?;
    let mut parameters = positions;
    for (name, shape) in &shapes {
        if !parameters.contains_key(name)
            && let Some(data) = recognised.read(file, name, shape, &mut warnings)?
        {
            parameters.insert(name.clone(), data);
        }
    }
    if has[1] && !parameters.contains_key("decoder.generator.bias") {
        let zeros = TensorData::zeros::<f32, _>([config.target_vocab_size]);
        parameters.insert("decoder.generator.bias".into(), zeros);
        warnings.push("there is no bias of the generator: it is zero".into());
    }
    config.weight_tying = tie(&mut parameters, &config, recognised.contents, options)?;
    config.validate().map_err(WeightsError::Config)?;
    Ok(Imported {
        layout: recognised.layout,
        contents: recognised.contents,
        config,
        parameters,
        warnings,
    })
}

impl Recognised {
    /// Refuses a file without all tensors, or with more.
    fn check(&self, allow_unused: bool) -> Result<(), WeightsError> {
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
    fn config(
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
    fn positions(
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
    fn check_shapes(
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
    fn read(
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

const SOURCE_TABLE: &str = "encoder.input.embedding.weight";
const TARGET_TABLE: &str = "decoder.input.embedding.weight";
const GENERATOR: &str = "decoder.generator.weight";

/// Which of the vocabulary matrices are the same; takes away those that then are another's.
fn tie(
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
        return Err(WeightsError::Missing {
            name: SOURCE_TABLE.into(),
            others: 0,
        });
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
