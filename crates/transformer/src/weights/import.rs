//! Weights of others, into this crate's names and arrangement.

use std::collections::BTreeMap;

use burn::tensor::{Device, TensorData};

use super::assemble;
use super::contents::Contents;
use super::error::WeightsError;
use super::file::WeightsFile;
use super::header::ForeignObject;
use super::layout::{self, Layout};
use super::options::ImportOptions;
use super::parameters::{Parameters, with_parameters};
use super::recognise::{is_bias, recognise};
use super::tying::tie;
use crate::config::{TransformerConfig, WeightTying};
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::init::Init;
use crate::model::Transformer;

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
