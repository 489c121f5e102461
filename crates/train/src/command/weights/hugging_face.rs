//! The `config.json` that Hugging Face's library writes beside a model's weights.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use transformer::weights::{self, ImportOptions, Layout, WeightsFile};
use transformer::{Activation, TransformerConfig};

use crate::error::UsageError;
use crate::output;

#[derive(Deserialize)]
struct Config {
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

/// What such a file says of a model.
pub struct About {
    path: PathBuf,
    config: Config,
}

impl About {
    /// Compares it with what the weights say.
    ///
    /// # Errors
    ///
    /// The first that differs.
    pub fn check(&self, model: &TransformerConfig) -> Result<(), UsageError> {
        let Config {
            d_model,
            encoder_layers,
            decoder_layers,
            encoder_ffn_dim,
            decoder_ffn_dim,
            vocab_size,
            ..
        } = self.config;
        for (name, said, found) in [
            ("d_model", d_model, model.d_model),
            ("encoder_layers", encoder_layers, model.n_encoder_layers),
            ("decoder_layers", decoder_layers, model.n_decoder_layers),
            ("encoder_ffn_dim", encoder_ffn_dim, model.d_ff),
            ("decoder_ffn_dim", decoder_ffn_dim, model.d_ff),
            ("vocab_size", vocab_size, model.target_vocab_size),
        ] {
            if said != found {
                let what = format!("has {name} {said}, but the weights beside it {found}");
                return Err(UsageError::new("FILE", self.path.display(), what));
            }
        }
        Ok(())
    }
}

/// Fills in what flags do not say from the file beside a Marian model, if there is one.
///
/// # Errors
///
/// If it is of a model that is not one of ours.
pub fn complete(
    options: &mut ImportOptions,
    file: &WeightsFile,
    path: &Path,
) -> Result<Option<About>, UsageError> {
    let beside = path.with_file_name("config.json");
    let is_marian = weights::recognise(file, options)
        .is_ok_and(|recognised| recognised.layout == Layout::Marian);
    let Some(json) = is_marian.then(|| std::fs::read(&beside).ok()).flatten() else {
        return Ok(None);
    };
    let wrong = |what: String| UsageError::new("FILE", beside.display(), what);
    let config: Config = match serde_json::from_slice(&json) {
        Ok(config) => config,
        Err(error) => {
            let what = format!("warning: {} is not read ({error})", beside.display());
            output::note(&what);
            return Ok(None);
        }
    };
    if config.model_type != "marian" {
        let what = format!(
            "is of a {} model, but the weights are Marian's",
            config.model_type
        );
        return Err(wrong(what));
    }
    if config.encoder_attention_heads != config.decoder_attention_heads {
        return Err(wrong(format!(
            "has {} attention heads in the encoder and {} in the decoder, but they must be the same",
            config.encoder_attention_heads, config.decoder_attention_heads
        )));
    }
    for (name, is_set) in [
        ("normalize_before", config.normalize_before),
        ("add_final_layer_norm", config.add_final_layer_norm),
        ("normalize_embedding", config.normalize_embedding),
    ] {
        if is_set {
            return Err(wrong(format!("has {name}, which no Marian model here has")));
        }
    }
    let activation = match config.activation_function.as_str() {
        "swish" | "silu" => Activation::Swish,
        "relu" => Activation::Relu,
        "gelu" => Activation::Gelu,
        other => {
            let what = format!("has the activation {other}, but must have swish, relu or gelu");
            return Err(wrong(what));
        }
    };
    options
        .n_heads
        .get_or_insert(config.encoder_attention_heads);
    options.activation.get_or_insert(activation);
    options.pad_id.get_or_insert(config.pad_token_id);
    options
        .max_len
        .get_or_insert(config.max_position_embeddings);
    options
        .scale_embeddings
        .get_or_insert(config.scale_embedding);
    options.dropout.get_or_insert(config.dropout);
    Ok(Some(About {
        path: beside,
        config,
    }))
}
