//! The model families: how each names and arranges the parameters, what its models usually are, and
//! how its library describes them.
//!
//! A family is one file here, with one value of [`Family`], and a name in [`Layout`]. All other code
//! runs over the layouts. The files use what this one imports.

mod activation;
mod annotated;
mod bart;
mod bert;
mod fairseq;
mod gpt2;
mod labml;
mod llama;
mod m2m100;
mod marian;
mod names;
mod native;
mod paper;
mod python;
mod t5;
mod torch_nn;
mod whisper;

use std::fmt;

use burn::tensor::TensorData;
use serde_json::{Map, Value, json};

use self::names::Names;
pub use self::python::PythonModel;
use self::python::{hugging_face, module_of, python};

use super::contents::Contents;
use super::error::WeightsError;
use super::fields::Fields;
use super::layout::Layout;
use super::options::ImportOptions;
use super::parameters::Parameters;
use super::rule::Part;
use super::rules::Rules;
use super::sizes::{Described, Sizes};
use super::stacks::Stacks;
use crate::choice::Choice;
use crate::config::{
    Activation, NormKind, NormPlacement, NormVariance, Positions, TransformerConfig, WeightTying,
};
use crate::error::ConfigError;

/// All that is known of a family of models.
#[derive(Clone, Copy)]
pub(in crate::weights) struct Family {
    /// The stacks of a whole model of the family.
    pub contents: Contents,
    /// Where the parameters are in files. In names, `{s}` stands for `encoder` or `decoder`.
    pub rules: fn() -> Rules,
    /// Prefix of the names inside the library's inner module, such as `model.`. Files may lack it or
    /// have another one. Empty if there is no such module.
    pub core: &'static str,
    /// A part of a tensor's name that tells the family from those of all later layouts. Every whole
    /// model has such a name. `None` if the names of self-attention are enough.
    pub mark: Option<&'static str>,
    /// Parts of the names of tensors that the library itself ignores.
    pub ignores: &'static [&'static str],
    /// What the vectors are made of that the encoder takes instead of tokens; `None` for tokens. The
    /// caller computes the vectors by tensors that belong to no stack, so that files are only read.
    pub vectors_of: Option<&'static str>,
    /// Parts of the names of tensors that belong to no stack, and are left to the caller.
    pub others: &'static [&'static str],
    /// Checks those tensors, and adds what a stack can compute of them to the parameters.
    pub fold: fn(&mut Parameters, &mut Parameters) -> Result<(), WeightsError>,
    /// Returns tensors that the library requires beside the parameters.
    pub added: fn(&Stacks) -> Parameters,
    /// Parts of the names of parameters, here or in files, that some models of the family have and
    /// others lack: the file shows which.
    pub optional: &'static [&'static str],
    /// Number of rows before the first position in tables of learned positions.
    pub position_offset: usize,
    /// Whether a final norm shows pre-norm, since post-norm models have none.
    pub final_norm_is_pre: bool,
    /// Whether files lack tables of sines and cosines, because the library computes them.
    pub computes_positions: bool,
    /// Whether files are this crate's own: with the configurations in their metadata, quantised
    /// matrices, and without copies of shared matrices.
    pub is_own: bool,
    /// Whether the logits are scaled if the generator shares the embedding table, as in T5.
    pub scales_tied_logits: bool,
    /// Sets the usual values of the hyper-parameters that weights do not show, in those of the paper.
    pub usual: fn(TransformerConfig) -> TransformerConfig,
    /// Hyper-parameters, by name, that may differ from the usual ones in a model of the family.
    pub free: &'static [&'static str],
    /// Returns the name of a hyper-parameter that the family cannot represent, among those in `free`.
    pub refuses: fn(&TransformerConfig, Contents) -> Option<&'static str>,
    /// Returns Python code that builds the model and loads its file, unless the library is
    /// `transformers`, whose code follows from `hugging_face`.
    pub python: fn(&PythonModel) -> Option<String>,
    /// The `config.json` of the family; `None` if the library has no such file.
    pub hugging_face: Option<HuggingFace>,
}

/// How a family of the library `transformers` is described in `config.json`.
#[derive(Clone, Copy)]
pub(in crate::weights) struct HuggingFace {
    /// The values of `model_type`.
    pub model_types: &'static [&'static str],
    /// Class of the library that builds a model from a configuration.
    pub auto_class: &'static str,
    /// Fields that do not change how this crate computes a model of the family.
    pub neutral: &'static [&'static str],
    /// Returns the import options and the sizes that follow from the fields, given `model_type`.
    pub read: fn(&mut Fields, &str) -> Result<Described, WeightsError>,
    /// Returns the fields of a model; `null` if files of the family are only read.
    pub write: fn(&Stacks) -> Value,
}

impl Family {
    /// Returns a model of the family with vocabularies of this size, and the paper's other sizes.
    ///
    /// Weights do not show the dropout probability. With 0, a device with autodiff gives the same
    /// logits as a device without.
    pub fn usual_with(&self, vocab_size: usize) -> TransformerConfig {
        let paper = TransformerConfig::new(vocab_size, vocab_size);
        (self.usual)(paper.with_dropout(0.0))
    }

    /// Returns the stacks of a model of the family.
    pub fn stacks(&self, config: &TransformerConfig) -> Stacks {
        let mut stacks = Stacks::from(config).only(self.contents);
        if self.vectors_of.is_some()
            && let Some(encoder) = &mut stacks.encoder
        {
            encoder.input.vocab_size = None;
        }
        if let Some(decoder) = &mut stacks.decoder {
            decoder.cross_attention = self.contents == Contents::Model;
        }
        stacks
    }
}

/// Hyper-parameters that an encoder alone does not have.
const OF_DECODER: [&str; 3] = ["weight_tying", "logits_bias", "scale_logits"];

/// A family without a special feature.
const PLAIN: Family = Family {
    contents: Contents::Model,
    rules: Rules::new,
    core: "",
    mark: None,
    ignores: &[],
    vectors_of: None,
    others: &[],
    fold: |_, _| Ok(()),
    added: |_| Parameters::new(),
    optional: &[],
    position_offset: 0,
    final_norm_is_pre: false,
    computes_positions: false,
    is_own: false,
    scales_tied_logits: false,
    usual: |base| base,
    free: &["norm_epsilon", "weight_tying"],
    refuses: |_, _| None,
    python: |_| None,
    hugging_face: None,
};

impl Layout {
    pub(in crate::weights) fn family(self) -> &'static Family {
        match self {
            Self::Native => &native::FAMILY,
            Self::Paper => &paper::FAMILY,
            Self::Labml => &labml::FAMILY,
            Self::Annotated => &annotated::FAMILY,
            Self::TorchNn => &torch_nn::FAMILY,
            Self::Gpt2 => &gpt2::FAMILY,
            Self::Llama => &llama::FAMILY,
            Self::Bert => &bert::FAMILY,
            Self::Whisper => &whisper::FAMILY,
            Self::Bart => &bart::FAMILY,
            Self::Fairseq => &fairseq::FAMILY,
            Self::M2m100 => &m2m100::FAMILY,
            Self::Marian => &marian::FAMILY,
            Self::T5Gated => &t5::GATED,
            Self::T5 => &t5::FAMILY,
        }
    }

    /// Returns whether the layout is this crate's own, which has quantised matrices and, in the
    /// [metadata](super::metadata), the configuration.
    pub fn is_native(self) -> bool {
        self.family().is_own
    }

    /// Returns whether the layout is one of Hugging Face's library, which writes a `config.json`
    /// beside the weights.
    pub fn is_hugging_face(self) -> bool {
        self.family().hugging_face.is_some()
    }

    /// Returns whether the models of the layout are whole models of text.
    pub fn is_of_texts(self) -> bool {
        let family = self.family();
        family.contents == Contents::Model && family.vectors_of.is_none()
    }

    /// Returns `config` with the choices of the models that have this layout.
    ///
    /// The choices are norms, positions, activation, biases and scales, and for Hugging Face's
    /// layouts also weight tying. Sizes, dropout and `pad_id` do not change.
    ///
    /// ```
    /// use transformer::weights::Layout;
    /// use transformer::{NormKind, TransformerConfig};
    ///
    /// let t5 = Layout::T5.choices(TransformerConfig::new(1000, 1000).with_d_model(128))?;
    /// assert_eq!((t5.norm, t5.d_model), (NormKind::Rms, 128));
    /// # Ok::<(), transformer::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The models of the layout have a single stack, or an encoder of vectors.
    pub fn choices(self, config: TransformerConfig) -> Result<TransformerConfig, ConfigError> {
        if self.is_of_texts() {
            return Ok(self.usual(config));
        }
        let expected = "the layout of whole models of text, such as t5";
        Err(ConfigError::new("family", self, expected))
    }

    fn usual(self, config: TransformerConfig) -> TransformerConfig {
        let usual = self.family().usual_with(config.target_vocab_size);
        TransformerConfig {
            activation: usual.activation,
            norm_placement: usual.norm_placement,
            final_norm: usual.final_norm,
            norm_epsilon: usual.norm_epsilon,
            norm_variance: usual.norm_variance,
            norm: usual.norm,
            embedding_norm: usual.embedding_norm,
            biases: usual.biases,
            logits_bias: usual.logits_bias,
            scale_attention: usual.scale_attention,
            scale_embeddings: usual.scale_embeddings,
            scale_logits: usual.scale_logits,
            positions: usual.positions,
            weight_tying: match usual.weight_tying {
                WeightTying::None => config.weight_tying,
                tying => tying,
            },
            ..config
        }
    }

    /// Returns the Hugging Face layout that can represent a model, if there is one.
    ///
    /// ```
    /// use transformer::TransformerConfig;
    /// use transformer::weights::Layout;
    ///
    /// let config = TransformerConfig::new(20, 20);
    /// assert_eq!(Layout::of_hugging_face(&config), None);
    /// assert_eq!(Layout::of_hugging_face(&Layout::T5.choices(config)?), Some(Layout::T5));
    /// # Ok::<(), transformer::ConfigError>(())
    /// ```
    pub fn of_hugging_face(config: &TransformerConfig) -> Option<Self> {
        Self::ALL.iter().copied().find(|layout| {
            layout.is_hugging_face()
                && layout
                    .unsupported(&config.into(), Contents::Model)
                    .is_none()
        })
    }

    /// Returns Python code that builds the module of an exported file and loads the file.
    ///
    /// For a single encoder or decoder, the code only builds the module. For the layout `paper`,
    /// which has no standard class, the code is a comment with the hyper-parameters. Returns `None`
    /// for the native layout, and for a single encoder or decoder in any layout but `torch-nn`.
    pub fn python(self, model: &PythonModel) -> Option<String> {
        if self.is_hugging_face() {
            return hugging_face(model, self);
        }
        (self.family().python)(model)
    }

    /// Returns the name and value of the first hyper-parameter that the layout cannot represent,
    /// or `None` if the layout can represent the model.
    pub(in crate::weights) fn unsupported(
        self,
        stacks: &Stacks,
        contents: Contents,
    ) -> Option<(&'static str, String)> {
        let family = self.family();
        if stacks.clone().only(contents) == Stacks::default() {
            return Some(("stacks", "none".into()));
        }
        if family.is_own {
            return None;
        }
        if let Some(what) = family.vectors_of {
            let value = format!("without the part that makes vectors of {what}");
            return Some(("stacks", value));
        }
        let config = &stacks.nearest();
        match family.contents {
            Contents::Decoder if contents != Contents::Decoder => {
                return Some(("n_encoder_layers", config.n_encoder_layers.to_string()));
            }
            Contents::Encoder if contents != Contents::Encoder => {
                return Some(("n_decoder_layers", config.n_decoder_layers.to_string()));
            }
            _ => {}
        }
        let cross_attention = family.contents == Contents::Model;
        if let Some(decoder) = &stacks.decoder
            && decoder.cross_attention != cross_attention
        {
            return Some(("cross_attention", decoder.cross_attention.to_string()));
        }
        let usual = family.usual_with(config.target_vocab_size);
        let refused = (family.refuses)(config, contents);
        let d_kv = config.d_kv.unwrap_or(config.d_head());
        let n_kv_heads = config.n_kv_heads.unwrap_or(config.n_heads);
        let mut found = None;
        let mut compare = |name, differs: bool, value: &dyn fmt::Display| {
            let is_absent = stacks.decoder.is_none() && OF_DECODER.contains(&name);
            let differs = differs && !family.free.contains(&name) && !is_absent;
            if found.is_none() && (differs || refused == Some(name) && !is_absent) {
                found = Some((name, value.to_string()));
            }
        };
        macro_rules! fields {
            ($($field:ident)+) => {
                $(compare(stringify!($field), config.$field != usual.$field, &config.$field);)+
            };
        }
        fields!(norm_placement final_norm norm_variance positions);
        let is_gated = config.activation.is_gated() != usual.activation.is_gated();
        compare("activation", is_gated, &config.activation);
        fields!(scale_embeddings weight_tying norm_epsilon norm);
        compare("n_kv_heads", n_kv_heads != config.n_heads, &n_kv_heads);
        compare("d_kv", d_kv != config.d_model / config.n_heads, &d_kv);
        fields!(embedding_norm biases logits_bias scale_attention scale_logits);
        // A model whose stacks differ in something else has it in no field that was compared.
        let mut alike = family.stacks(config).only(contents);
        let mut own = stacks.clone().only(contents);
        for ((_, alike, _), (_, input, _)) in alike.parts_mut().zip(own.parts_mut()) {
            alike.positions.rotary_base = input.positions.rotary_base;
        }
        let is_whole = contents == Contents::Model;
        let differ = if is_whole {
            "that are not alike"
        } else {
            "alone"
        };
        compare("stacks", alike != own, &differ);
        found
    }
}

/// Returns the `config.json` fields of an exported model, including `model_type`; `None` if Hugging
/// Face has no model family for the layout.
///
/// `stacks` is the configuration of a whole model or of a stack, which the layout must be able to
/// represent. The caller must add the fields about special tokens other than padding, such as
/// `decoder_start_token_id`, which [`hugging_face_generation`](super::hugging_face_generation)
/// returns.
pub fn hugging_face_config(
    stacks: impl Into<Stacks>,
    layout: Layout,
) -> Option<Map<String, Value>> {
    let hugging_face = layout.family().hugging_face.as_ref()?;
    match (hugging_face.write)(&stacks.into()) {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_represents_the_choices_of_its_models() {
        let config = TransformerConfig::new(20, 20).with_final_norm(false);
        for &layout in Layout::ALL {
            let config = layout.usual(config.clone());
            let contents = layout.family().contents;
            let stacks = layout.family().stacks(&config);
            let unsupported = layout.unsupported(&stacks, contents);
            let is_of_tokens = layout.family().vectors_of.is_none();
            assert_eq!(unsupported.is_none(), is_of_tokens, "{layout}");
            let found = Layout::of_hugging_face(&config);
            let is_whole = layout.is_hugging_face() && contents == Contents::Model;
            assert_eq!(found, (is_whole && is_of_tokens).then_some(layout));
            assert_eq!(config.validate(), Ok(()), "{layout}");
            let nothing = layout.unsupported(&Stacks::default(), contents);
            assert_eq!(nothing, Some(("stacks", "none".into())));
        }
    }
}
