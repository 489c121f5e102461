//! The `config.json` that the library `transformers` of Hugging Face writes beside a model's
//! weights.

use std::path::Path;

use serde::Deserialize;
use training::error::UsageError;
use transformer::weights::{self, ImportOptions, Layout, WeightsFile};
use transformer::{Activation, TransformerConfig};

use crate::terminal::output;

/// The settings in the `config.json` of a Hugging Face model. The only supported `model_type` is
/// `marian`.
#[derive(Deserialize)]
pub struct Config {
    model_type: String,
    encoder_attention_heads: usize,
    decoder_attention_heads: usize,
    activation_function: String,
    pad_token_id: u32,
    max_position_embeddings: usize,
    scale_embedding: bool,
    dropout: f64,
    d_model: usize,
    encoder_layers: usize,
    decoder_layers: usize,
    encoder_ffn_dim: usize,
    decoder_ffn_dim: usize,
    vocab_size: usize,
    #[serde(default)]
    normalize_before: bool,
    #[serde(default)]
    add_final_layer_norm: bool,
    #[serde(default)]
    normalize_embedding: bool,
}

impl Config {
    /// Compares these settings, which were read from `path`, with the configuration that was
    /// derived from the weights.
    ///
    /// # Errors
    ///
    /// The first setting that differs.
    pub fn check(&self, path: &Path, model: &TransformerConfig) -> Result<(), UsageError> {
        for (name, expected, found) in [
            ("d_model", self.d_model, model.d_model),
            (
                "encoder_layers",
                self.encoder_layers,
                model.n_encoder_layers,
            ),
            (
                "decoder_layers",
                self.decoder_layers,
                model.n_decoder_layers,
            ),
            ("encoder_ffn_dim", self.encoder_ffn_dim, model.d_ff),
            ("decoder_ffn_dim", self.decoder_ffn_dim, model.d_ff),
            ("vocab_size", self.vocab_size, model.target_vocab_size),
        ] {
            if expected != found {
                let what = format!("has {name} {expected}, but the weights beside it {found}");
                return Err(UsageError::new("FILE", path.display(), what));
            }
        }
        Ok(())
    }
}

/// Completes `options` with the settings in the file at `path`, if the weights are of a Marian
/// model and the file exists. Options that flags have set take precedence.
///
/// # Errors
///
/// A file with settings of a model that the `transformer` crate cannot represent.
pub fn complete(
    options: &mut ImportOptions,
    file: &WeightsFile,
    path: &Path,
) -> Result<Option<Config>, UsageError> {
    let recognised = weights::recognise(file, options);
    let is_marian = recognised.is_ok_and(|recognised| recognised.layout == Layout::Marian);
    let Some(json) = is_marian.then(|| std::fs::read(path).ok()).flatten() else {
        return Ok(None);
    };
    let shown = path.display();
    let wrong = |what: String| Err(UsageError::new("FILE", &shown, what));
    let config: Config = match serde_json::from_slice(&json) {
        Ok(config) => config,
        Err(error) => {
            output::warn(&format!("{shown} cannot be read ({error})"));
            return Ok(None);
        }
    };
    let model = &config.model_type;
    if model != "marian" {
        let what = format!("is of a {model} model, but the weights are Marian's");
        return wrong(what);
    }
    let heads = config.encoder_attention_heads;
    let others = config.decoder_attention_heads;
    if heads != others {
        return wrong(format!(
            "has {heads} attention heads in the encoder and {others} in the decoder, but they must be the same"
        ));
    }
    for (name, is_set) in [
        ("normalize_before", config.normalize_before),
        ("add_final_layer_norm", config.add_final_layer_norm),
        ("normalize_embedding", config.normalize_embedding),
    ] {
        if is_set {
            return wrong(format!("has {name}, which no Marian model here has"));
        }
    }
    let activation = match config.activation_function.as_str() {
        "swish" | "silu" => Activation::Swish,
        "relu" => Activation::Relu,
        "gelu" => Activation::Gelu,
        other => {
            return wrong(format!(
                "has the activation {other}, but must have swish, relu or gelu"
            ));
        }
    };
    options.n_heads.get_or_insert(heads);
    options.activation.get_or_insert(activation);
    options.pad_id.get_or_insert(config.pad_token_id);
    options
        .max_len
        .get_or_insert(config.max_position_embeddings);
    options
        .scale_embeddings
        .get_or_insert(config.scale_embedding);
    options.dropout.get_or_insert(config.dropout);
    Ok(Some(config))
}
