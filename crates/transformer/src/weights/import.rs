//! Import of weights from any layout.

use std::collections::BTreeMap;

use burn::tensor::{DType, Device, TensorData};

use super::assemble;
use super::contents::Contents;
use super::error::WeightsError;
use super::families::Layout;
use super::file::WeightsFile;
use super::header::ForeignObject;
use super::int8::axis;
use super::metadata;
use super::options::ImportOptions;
use super::parameters::{Parameters, with_parameters};
use super::recognise::{is_bias, recognise};
use super::shapes::shapes;
use super::tying::{Vocabulary, is_vocabulary};
use crate::config::{TransformerConfig, WeightTying};
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::init::Init;
use crate::model::Transformer;

/// Imported weights and the configuration of their model.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Layout of the file.
    pub layout: Layout,
    /// The part of a model that the file holds.
    pub contents: Contents,
    /// Configuration of the model.
    pub config: TransformerConfig,
    /// Parameters with the names that they have in a whole model, even if the file holds a single
    /// stack.
    pub parameters: Parameters,
    /// Messages for the user about skipped tensors, objects and settings, and about missing biases.
    pub warnings: Vec<String>,
}

impl Imported {
    /// Builds the model with the imported weights.
    ///
    /// # Errors
    ///
    /// The file holds a single stack, or its tensors do not fit the configuration.
    pub fn transformer(self, device: &Device) -> Result<Transformer, WeightsError> {
        if self.contents != Contents::Model {
            let what = format!("holds {}, not a whole model", self.contents);
            return Err(WeightsError::File(what));
        }
        let model = Transformer::build(&self.config, &mut Init::zeros(device));
        with_parameters(&model, self.parameters)
    }

    /// Builds the encoder with the imported weights.
    ///
    /// The encoder has no embedding table if the file has none for the encoder, or if both stacks
    /// of the model share one.
    ///
    /// # Errors
    ///
    /// The file holds a decoder alone, or its tensors do not fit the configuration.
    pub fn encoder(self, device: &Device) -> Result<Encoder, WeightsError> {
        let own = self.stack("encoder.", Contents::Decoder)?;
        let has_table = own.contains_key("input.embedding.weight");
        let mut config = self.config.encoder();
        if !has_table {
            config.input.vocab_size = None;
        }
        with_parameters(&Encoder::build(&config, &mut Init::zeros(device)), own)
    }

    /// Builds the decoder with the imported weights.
    ///
    /// # Errors
    ///
    /// The file holds an encoder alone, or its tensors do not fit the configuration.
    pub fn decoder(self, device: &Device) -> Result<Decoder, WeightsError> {
        let own = self.stack("decoder.", Contents::Encoder)?;
        let decoder = Decoder::build(&self.config.decoder(), &mut Init::zeros(device));
        with_parameters(&decoder, own)
    }

    /// Returns the parameters of one stack, by their paths within the stack.
    ///
    /// `name` is the prefix of the stack in parameter names. `without` is the part of a model that
    /// lacks the stack: a file of this part gives an error.
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

/// Quantises a matrix. Returns the matrix itself if it is already quantised or cannot be quantised.
fn quantise(data: TensorData, axis: usize) -> TensorData {
    let quantised = match data.dtype() {
        DType::F32 => fused::quantize_int8_data(&data, axis),
        _ => None,
    };
    quantised.unwrap_or(data)
}

/// Returns a warning about the settings that tensors do not show and `options` does not give; `None`
/// if it gives all of them.
fn assumed(config: &TransformerConfig, options: &ImportOptions) -> Option<String> {
    let settings = [
        (
            options.norm_placement.is_none(),
            "norm_placement",
            config.norm_placement.to_string(),
        ),
        (
            options.activation.is_none(),
            "activation",
            config.activation.to_string(),
        ),
        (
            options.positions.is_none(),
            "positions",
            config.positions.to_string(),
        ),
        (
            options.norm_epsilon.is_none(),
            "norm_epsilon",
            format!("{:e}", config.norm_epsilon),
        ),
        (
            options.scale_embeddings.is_none(),
            "scale_embeddings",
            config.scale_embeddings.to_string(),
        ),
        (
            options.pad_id.is_none(),
            "pad_id",
            config.pad_id.to_string(),
        ),
    ];
    let missing = settings.into_iter().filter(|(is_missing, ..)| *is_missing);
    let missing: Vec<String> = missing
        .map(|(_, name, value)| format!("{name} {value}"))
        .collect();
    (!missing.is_empty()).then(|| {
        let missing = missing.join(", ");
        format!("the file has no configuration of the model, so these were assumed: {missing}")
    })
}

const NO_BIASES: &str = "the layers have no biases: zeros are used";

/// Imports the weights of a file.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use burn::tensor::Device;
/// use transformer::TransformerConfig;
/// use transformer::weights::{
///     Contents, Dtype, ImportOptions, Layout, WeightsFile, export, import, parameters,
///     to_bytes_with,
/// };
///
/// // A file with PyTorch's names, here written by this crate.
/// let config = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2);
/// let model = config.init_seeded(1, &Device::flex())?;
/// let tensors = export(&config, Contents::Model, &parameters(&model), Layout::TorchNn, true)?;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.safetensors");
/// std::fs::write(&path, to_bytes_with(&tensors, Dtype::F32, &Default::default())?)?;
///
/// // The shapes do not show the number of heads.
/// let options = ImportOptions { n_heads: Some(2), ..Default::default() };
/// let imported = import(&WeightsFile::open(&path)?, &options)?;
/// assert_eq!(imported.layout, Layout::TorchNn);
/// assert_eq!(imported.config.n_encoder_layers, 6);
/// let same = imported.transformer(&Device::flex())?;
/// assert_eq!(parameters(&same), parameters(&model));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The errors of [`recognise`](super::recognise()). The file cannot be read, has changed since it
/// was opened, or contradicts its metadata or the options. The number of heads is not known, the
/// configuration of the model is not valid, or the file holds Python objects other than tensors and
/// plain data. A tensor is missing or unused, has a wrong shape or element type, has elements that
/// are infinite or NaN, or differs from another tensor for the same parameter. With `allow_unused`,
/// such objects and unused tensors are skipped.
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
            "{left} tensors beside the model's{entry} were skipped"
        ));
    }
    for foreign in &file.foreign {
        let ForeignObject { path, class } = foreign;
        warnings.push(format!("{path} was skipped: it refers to {class}"));
    }
    let mut config = recognised.config(file, options)?;
    let has = recognised.contents.has();
    // The shapes are those without weight tying, because a file may have a separate copy of each
    // matrix that the model shares.
    let untied = |config: &TransformerConfig| config.clone().with_weight_tying(WeightTying::None);
    let shapes_of = |config: &TransformerConfig| -> Result<BTreeMap<_, _>, WeightsError> {
        let untied = untied(config);
        untied.validate().map_err(WeightsError::Config)?;
        Ok(shapes(&untied, has).into_iter().collect())
    };
    recognised.check_shapes(file, &shapes_of(&config)?)?;
    let mut parameters = recognised.positions(file, options, &mut config)?;
    let pieces = recognised.pieces();
    let shapes = shapes_of(&config)?;
    // The vocabulary matrices are read before the other parameters take memory: for a while, two
    // copies of the largest matrix may be in memory.
    let vocabulary = Vocabulary::read(file, &pieces, &shapes)?;
    config.weight_tying = vocabulary.tie(&mut parameters, &config, recognised.contents, options)?;
    let quantised = |name: &str, data: TensorData| match axis(name) {
        Some(axis) if options.int8 => quantise(data, axis),
        _ => data,
    };
    for (name, data) in &mut parameters {
        let own = std::mem::replace(data, TensorData::from([0.0; 0]));
        *data = quantised(name, own);
    }
    for (name, shape) in shapes {
        if is_vocabulary(&name) || parameters.contains_key(&name) {
            continue;
        }
        if let Some(pieces) = pieces.get(name.as_str()) {
            let data = assemble::read(file, pieces, &shape)?;
            parameters.insert(name.clone(), quantised(&name, data));
        } else if is_bias(&name) {
            let zeros = TensorData::zeros::<f32, _>(shape);
            parameters.insert(name, zeros);
            if warnings.last().is_none_or(|last| last != NO_BIASES) {
                warnings.push(NO_BIASES.into());
            }
        }
    }
    file.check_unchanged()?;
    if has[1] && config.logits_bias && !parameters.contains_key("decoder.generator.bias") {
        let zeros = TensorData::zeros::<f32, _>([config.target_vocab_size]);
        parameters.insert("decoder.generator.bias".into(), zeros);
        warnings.push("the generator has no bias: zeros are used".into());
    }
    let family = recognised.layout.family();
    if family.scales_tied_logits && options.scale_logits.is_none() {
        config.scale_logits = config.weight_tying.shares_generator();
    }
    config.validate().map_err(WeightsError::Config)?;
    if family.is_own && metadata::config(file.metadata())?.is_none() {
        warnings.extend(assumed(&config, options));
    }
    Ok(Imported {
        layout: recognised.layout,
        contents: recognised.contents,
        config,
        parameters,
        warnings,
    })
}
