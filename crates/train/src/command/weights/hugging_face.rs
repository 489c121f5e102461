//! The `config.json` that Hugging Face's library writes beside a model's weights.

use std::path::Path;

use serde::Deserialize;
use transformer::Activation;
use transformer::weights::{self, ImportOptions, Layout, WeightsFile};

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
) -> Result<(), UsageError> {
    let beside = path.with_file_name("config.json");
    let is_marian = weights::recognise(file, options)
        .is_ok_and(|recognised| recognised.layout == Layout::Marian);
    let Some(json) = is_marian.then(|| std::fs::read(&beside).ok()).flatten() else {
        return Ok(());
    };
    let wrong = |what: String| UsageError::new("FILE", beside.display(), what);
    let config: Config = match serde_json::from_slice(&json) {
        Ok(config) => config,
        Err(error) => {
            let what = format!("warning: {} is not read ({error})", beside.display());
            output::note(&what);
            return Ok(());
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
    Ok(())
}
