//! Import of weights from any layout.

use std::collections::BTreeMap;

use burn::tensor::{DType, Device, TensorData};
use fused::map_in_parallel;

use super::contents::Contents;
use super::error::{WeightsError, check_finite};
use super::file::WeightsFile;
use super::header::ForeignObject;
use super::int8::axis;
use super::layout::Layout;
use super::options::ImportOptions;
use super::parameters::{Parameters, with_parameters};
use super::pieces::{self, Pieces};
use super::recognise::{is_bias, recognise};
use super::rule::Kind;
use super::stacks::Stacks;
use super::tying::{GENERATOR, SOURCE_TABLE, Vocabulary, is_vocabulary};
use super::unshown::{assumed, replaced};
use crate::config::{DecoderConfig, TransformerConfig, WeightTying};
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::init::Init;
use crate::model::Transformer;

/// Imported weights and the configuration of their model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Imported {
    /// Layout of the file.
    pub layout: Layout,
    /// The part of a model that the file holds.
    pub contents: Contents,
    /// Configurations of the stacks that the file holds.
    pub stacks: Stacks,
    /// Parameters with the names that they have in a whole model, even if the file holds a single
    /// stack.
    pub parameters: Parameters,
    /// Tensors of the family's models that belong to no stack, in f32, by their names in the
    /// library, arranged as there: weights of PyTorch's linear layers are `[out, in]`.
    ///
    /// BERT has those of `pooler` and `embeddings.token_type_embeddings.weight`. The encoder's
    /// positions include the embedding of token type 0, and the rows here are those of each type
    /// less that of type 0. Whisper has weights and biases of its convolutions, `encoder.conv1` and
    /// `encoder.conv2`.
    pub others: Parameters,
    /// Messages for the user about skipped tensors, objects and settings, and about missing biases.
    pub warnings: Vec<String>,
}

/// Checks that the models of a layout have a decoder, and an encoder of tokens.
pub(super) fn check_whole(layout: Layout) -> Result<(), WeightsError> {
    let family = layout.family();
    Err(WeightsError::File(
        match (family.contents, family.vectors_of) {
            (Contents::Model, None) => return Ok(()),
            (Contents::Model, Some(what)) => format!(
                "is not a model of text: the encoder of model_type {layout} takes vectors of {what}"
            ),
            (contents, _) => format!("is not a whole model: model_type {layout} is {contents}"),
        },
    ))
}

impl Imported {
    /// Returns the configuration of the whole model.
    ///
    /// # Errors
    ///
    /// The file holds a single stack, or stacks that differ in more than their depth, or the encoder
    /// takes vectors.
    pub fn config(&self) -> Result<TransformerConfig, WeightsError> {
        self.check_whole()?;
        let differ =
            || WeightsError::File("has stacks that differ in more than their depth".into());
        self.stacks.config().ok_or_else(differ)
    }

    fn check_whole(&self) -> Result<(), WeightsError> {
        check_whole(self.layout)?;
        if self.contents == Contents::Model {
            return Ok(());
        }
        let what = format!("holds {}, not a whole model", self.contents);
        Err(WeightsError::File(what))
    }

    /// Builds the model with the imported weights.
    ///
    /// # Errors
    ///
    /// The file holds a single stack, the encoder takes vectors, or tensors do not fit the
    /// configuration.
    pub fn transformer(self, device: &Device) -> Result<Transformer, WeightsError> {
        self.check_whole()?;
        let zeros = &mut Init::zeros(device);
        let (encoder, decoder) = (self.stacks.encoder, self.stacks.decoder);
        let (encoder, decoder) = encoder.zip(decoder).expect("the file holds both stacks");
        Stacks::check_fit(&encoder, &decoder)?;
        let encoder = Encoder::build(&encoder, zeros);
        let model = Transformer::from_parts(encoder, Decoder::build(&decoder, zeros));
        with_parameters(&model, self.parameters)
    }

    /// Builds the encoder and the decoder with the imported weights, as a program needs them that
    /// puts something of its own before the encoder.
    ///
    /// Either is as [`encoder`](Self::encoder) and [`decoder`](Self::decoder) describe it.
    ///
    /// # Errors
    ///
    /// The file holds a single stack, or its tensors do not fit the configuration.
    pub fn encoder_and_decoder(
        mut self,
        device: &Device,
    ) -> Result<(Encoder, Decoder), WeightsError> {
        // The names of an encoder follow those of a decoder.
        let encoder = Self {
            parameters: self.parameters.split_off("encoder."),
            stacks: self.stacks.clone(),
            others: Parameters::new(),
            warnings: Vec::new(),
            ..self
        };
        Ok((encoder.encoder(device)?, self.decoder(device)?))
    }

    /// Builds the encoder with the imported weights. Those of a decoder are dropped.
    ///
    /// The encoder has no embedding table if the file has none for the encoder, or if both stacks
    /// of the model share one. That of Whisper takes vectors.
    ///
    /// # Errors
    ///
    /// The file holds a decoder alone, or its tensors do not fit the configuration.
    pub fn encoder(self, device: &Device) -> Result<Encoder, WeightsError> {
        match &self.stacks.encoder {
            Some(config) => {
                let encoder = Encoder::build(config, &mut Init::zeros(device));
                with_parameters(&encoder, stack(self.parameters, "encoder."))
            }
            None => Err(WeightsError::File(format!("holds {}", self.contents))),
        }
    }

    /// Builds the decoder with the imported weights. Those of an encoder are dropped.
    ///
    /// # Errors
    ///
    /// The file holds an encoder alone, or its tensors do not fit the configuration.
    pub fn decoder(self, device: &Device) -> Result<Decoder, WeightsError> {
        match &self.stacks.decoder {
            Some(config) => {
                let decoder = Decoder::build(config, &mut Init::zeros(device));
                with_parameters(&decoder, stack(self.parameters, "decoder."))
            }
            None => Err(WeightsError::File(format!("holds {}", self.contents))),
        }
    }
}

/// Returns the parameters of one stack, by their paths within the stack. `name` is the prefix of the
/// stack in parameter names.
fn stack(parameters: Parameters, name: &str) -> Parameters {
    let own = parameters.into_iter().filter_map(|(path, data)| {
        let path = path.strip_prefix(name)?;
        Some((path.to_string(), data))
    });
    own.collect()
}

/// Quantises a matrix. Returns the matrix itself if it is already quantised or cannot be quantised.
fn quantise(data: TensorData, axis: usize) -> TensorData {
    let quantised = match data.dtype() {
        DType::F32 => fused::quantize_int8_data(&data, axis),
        _ => None,
    };
    quantised.unwrap_or(data)
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
/// let bytes = to_bytes_with(&tensors, Dtype::F32, &Default::default())?;
///
/// // The shapes do not show the number of heads.
/// let options = ImportOptions { n_heads: Some(2), ..Default::default() };
/// let imported = import(&WeightsFile::from_bytes(bytes)?, &options)?;
/// assert_eq!(imported.layout, Layout::TorchNn);
/// assert_eq!(imported.config()?.n_encoder_layers, 6);
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
    read(file, options, false).map_err(|error| file.error(error))
}

/// Imports the weights of a file. `is_described` says that `options` has all settings, or those of the
/// family are the usual ones.
pub(super) fn read(
    file: &WeightsFile,
    options: &ImportOptions,
    is_described: bool,
) -> Result<Imported, WeightsError> {
    if let Some(foreign) = file.foreign.first()
        && !options.allow_unused
    {
        return Err(WeightsError::Foreign {
            path: foreign.path.clone(),
            class: foreign.class.clone(),
            others: file.foreign.len() - 1,
        });
    }
    let mut recognised = recognise(file, options)?;
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
    let mut stacks = recognised.stacks(file, options)?;
    // The shapes are those without weight tying, because a file may have a separate copy of each
    // matrix that the model shares.
    let shapes_of = |stacks: &Stacks| -> Result<BTreeMap<String, Vec<usize>>, WeightsError> {
        let mut untied = stacks.clone();
        if let Some(decoder) = &mut untied.decoder {
            decoder.generator.is_tied = false;
        }
        untied.validate().map_err(WeightsError::Config)?;
        Ok(untied.shapes())
    };
    let shapes = shapes_of(&stacks)?;
    recognised.set_heads(&mut stacks);
    recognised.check_shapes(file, &shapes)?;
    let mut parameters = recognised.positions(file, options, &mut stacks)?;
    let mut others = Parameters::new();
    for (name, original) in &recognised.others {
        let data = file.read(original)?;
        check_finite(original, data.as_slice().expect("it was read as f32"))?;
        others.insert(name.clone(), data);
    }
    let family = recognised.layout.family();
    (family.fold)(&mut parameters, &mut others)?;
    let pieces = recognised.pieces();
    let shapes = shapes_of(&stacks)?;
    let written = Stacks::of_metadata(file.metadata())?;
    if let (Some(written), None) = (&written, options.weight_tying) {
        // The metadata says which matrices the model does not share.
        written.validate().map_err(WeightsError::Config)?;
        let own = written.clone().only(recognised.contents).shapes();
        let mut own = own.into_keys().filter(|name| is_vocabulary(name));
        if let Some(name) = own.find(|name| !pieces.contains_key(&name[..])) {
            return Err(WeightsError::missing([name]));
        }
    }
    let [_, has_decoder] = recognised.contents.has();
    let is_untied = |tying: WeightTying| is_described && has_decoder && !tying.shares_generator();
    if options.weight_tying.is_some_and(is_untied) && !pieces.contains_key(GENERATOR) {
        return Err(WeightsError::missing([GENERATOR]));
    }
    // Tables of positions may be those that this crate computes.
    let is_left = |(name, pieces): &(&&str, &Pieces)| {
        let is_table = matches!(pieces[0].0.kind, Kind::Positions(_));
        !is_vocabulary(name) && !is_table && !shapes.contains_key(**name)
    };
    let left: Vec<&str> = pieces
        .iter()
        .filter(is_left)
        .map(|(name, _)| *name)
        .collect();
    if !left.is_empty() && !options.allow_unused {
        return Err(WeightsError::unused(left));
    }
    // The vocabulary matrices are read before the other parameters take memory: for a while, two
    // copies of the largest matrix may be in memory.
    let vocabulary = Vocabulary::read(file, &pieces, &shapes)?;
    vocabulary.tie(&mut parameters, &mut stacks, options.weight_tying)?;
    let quantised = |name: &str, data: TensorData| match axis(name) {
        Some(axis) if options.int8 => quantise(data, axis),
        _ => data,
    };
    for (name, data) in &mut parameters {
        let own = std::mem::replace(data, TensorData::from([0.0; 0]));
        *data = quantised(name, own);
    }
    let mut given = Vec::new();
    for (name, shape) in shapes {
        if is_vocabulary(&name) || parameters.contains_key(&name) {
            continue;
        }
        if let Some(pieces) = pieces.get(name.as_str()) {
            given.push((name, shape, pieces));
        } else if is_bias(&name) {
            let zeros = TensorData::zeros::<f32, _>(shape);
            parameters.insert(name, zeros);
            if warnings.last().is_none_or(|last| last != NO_BIASES) {
                warnings.push(NO_BIASES.into());
            }
        } else if name != "decoder.generator.bias" {
            return Err(WeightsError::missing([name]));
        }
    }
    let size = |shape: &[usize]| shape.iter().product::<usize>();
    let work = given.iter().map(|(_, shape, _)| size(shape)).sum();
    let read = map_in_parallel(given, work, |(name, shape, pieces)| {
        let data = pieces::read(file, pieces, &shape)?;
        let data = quantised(&name, data);
        Ok((name, data))
    });
    for read in read {
        parameters.extend([read?]);
    }
    file.check_unchanged()?;
    if let Some(encoder) = &mut stacks.encoder
        && !parameters.contains_key(SOURCE_TABLE)
    {
        encoder.input.vocab_size = None;
    }
    if let Some(DecoderConfig { generator, .. }) = &mut stacks.decoder {
        let bias = "decoder.generator.bias";
        if generator.bias && !parameters.contains_key(bias) {
            let zeros = TensorData::zeros::<f32, _>([generator.vocab_size]);
            parameters.insert(bias.into(), zeros);
            warnings.push("the generator has no bias: zeros are used".into());
        }
        if family.scales_tied_logits && options.scale_logits.is_none() {
            generator.scale = generator.is_tied;
        }
    }
    stacks.validate().map_err(WeightsError::Config)?;
    if let Some(written) = &written {
        warnings.extend(replaced(&written.nearest(), &stacks.nearest()));
    } else if !is_described {
        warnings.extend(assumed(recognised.layout, &stacks.nearest(), options));
    }
    Ok(Imported {
        layout: recognised.layout,
        contents: recognised.contents,
        stacks,
        parameters,
        others,
        warnings,
    })
}
