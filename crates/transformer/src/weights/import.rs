//! Weights of others, into this crate's names and arrangement.

use std::collections::BTreeMap;
use std::fmt;

use burn::tensor::{Device, TensorData};

use super::assemble;
use super::file::{ForeignObject, WeightsFile};
use super::layout::{self, Layout};
use super::recognise::{is_bias, recognise};
use super::tying::tie;
use super::{Parameters, WeightsError, with_parameters};
use crate::config::{
    Activation, NormPlacement, NormVariance, Positions, TransformerConfig, WeightTying,
};
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::init::Init;
use crate::model::Transformer;

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
    /// The entry of the file's outermost dictionary that has the weights, where several could be
    /// meant.
    pub entry: Option<String>,
    /// Tensors by another name than in the file: `(name there, name in the layout)`. Both without
    /// the entry's name.
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

const NO_BIASES: &str = "the layers have no biases: they are zero";

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
    file.check_unchanged()?;
    recognised.check(options.allow_unused)?;
    let mut warnings = Vec::new();
    let left = recognised.beside.len() + recognised.unused.len();
    if left > 0 {
        let entry = match &recognised.group {
            Some(group) => format!(" of the entry {group}"),
            None => String::new(),
        };
        warnings.push(format!(
            "{left} tensors beside the model's{entry} were not read"
        ));
    }
    for foreign in &file.foreign {
        let ForeignObject { path, class } = foreign;
        warnings.push(format!("{path} was not read: it asks for {class}"));
    }
    let mut config = recognised.config(file, options)?;
    let has = recognised.contents.has();
    // Every matrix its own at first; what is shared is seen by its numbers.
    let untied = |config: &TransformerConfig| config.clone().with_weight_tying(WeightTying::None);
    let shapes = |config: &TransformerConfig| -> Result<BTreeMap<_, _>, WeightsError> {
        let untied = untied(config);
        untied.validate().map_err(WeightsError::Config)?;
        Ok(layout::shapes(&untied, has).into_iter().collect())
    };
    recognised.check_shapes(file, &shapes(&config)?)?;
    let mut parameters = recognised.positions(file, options, &mut config, &mut warnings)?;
    let pieces = recognised.pieces();
    for (name, shape) in shapes(&config)? {
        if parameters.contains_key(&name) {
            continue;
        }
        if let Some(pieces) = pieces.get(name.as_str()) {
            let data = assemble::read(file, pieces, &shape, &mut warnings)?;
            parameters.insert(name, data);
        } else if is_bias(&name) {
            let zeros = TensorData::zeros::<f32, _>(shape);
            parameters.insert(name, zeros);
            if warnings.last().is_none_or(|last| last != NO_BIASES) {
                warnings.push(NO_BIASES.into());
            }
        }
    }
    file.check_unchanged()?;
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
