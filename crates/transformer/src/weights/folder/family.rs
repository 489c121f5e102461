//! Import options and sizes from the `config.json` of each model family.

use serde_json::json;

use super::fields::Fields;
use crate::config::{NormPlacement, Positions, TransformerConfig};
use crate::weights::error::WeightsError;
use crate::weights::layout::{Layout, activation};
use crate::weights::options::ImportOptions;

/// The supported model families, by their `model_type`.
const FAMILIES: [&str; 7] = ["bart", "m2m_100", "marian", "mbart", "mt5", "pegasus", "t5"];

/// The sizes in a `config.json`, which the weights must have, too.
#[derive(Debug)]
pub(super) struct Sizes {
    vocab_size: usize,
    d_model: usize,
    d_ff: usize,
    n_encoder_layers: usize,
    n_decoder_layers: usize,
    d_head: usize,
    /// Number of buckets of relative positions; `None` if `config.json` does not give it.
    relative_buckets: Option<usize>,
}

impl Sizes {
    /// Returns the name of each size, its value in the weights, and its value in `config.json`.
    pub fn compare(&self, config: &TransformerConfig) -> Vec<(&'static str, usize, usize)> {
        let buckets = self.relative_buckets.unwrap_or(config.relative_buckets);
        vec![
            ("relative_buckets", config.relative_buckets, buckets),
            ("vocab_size", config.target_vocab_size, self.vocab_size),
            ("d_model", config.d_model, self.d_model),
            ("d_ff", config.d_ff, self.d_ff),
            (
                "encoder layers",
                config.n_encoder_layers,
                self.n_encoder_layers,
            ),
            (
                "decoder layers",
                config.n_decoder_layers,
                self.n_decoder_layers,
            ),
            ("dimensions a head", config.d_head(), self.d_head),
        ]
    }
}

/// Returns the import options, and the sizes that the weights must have.
pub(super) fn read(fields: &mut Fields) -> Result<(ImportOptions, Sizes), WeightsError> {
    let model_type: String = fields.required("model_type")?;
    match model_type.as_str() {
        "t5" | "mt5" => t5(fields, &model_type),
        "bart" | "m2m_100" | "marian" | "mbart" | "pegasus" => bart(fields, &model_type),
        _ => {
            let expected = FAMILIES.join(", ");
            let what = format!(
                "has a config.json with model_type {model_type}, but must have one of {expected}"
            );
            Err(WeightsError::File(what))
        }
    }
}

fn t5(fields: &mut Fields, model_type: &str) -> Result<(ImportOptions, Sizes), WeightsError> {
    let feed_forward: Option<String> = fields.optional("feed_forward_proj")?;
    let usual = match model_type {
        "mt5" => "gated-gelu",
        _ => "relu",
    };
    let feed_forward = feed_forward.unwrap_or_else(|| usual.into());
    let activation = activation::of_name(&feed_forward, true)
        .map_err(|expected| fields.refuse("feed_forward_proj", &feed_forward, &expected))?;
    let layout = if activation.is_gated() {
        Layout::T5Gated
    } else {
        Layout::T5
    };
    // T5, but not mT5, scales the logits if the embeddings are tied. Since version 5, the library
    // `transformers` writes a separate field, `scale_decoder_outputs`.
    let is_tied: Option<bool> = fields.optional("tie_word_embeddings")?;
    let is_scaled: Option<bool> = fields.optional("scale_decoder_outputs")?;
    let is_scaled = is_scaled.unwrap_or(is_tied != Some(false)) && model_type == "t5";
    let n_encoder_layers = fields.required("num_layers")?;
    let sizes = Sizes {
        vocab_size: fields.required("vocab_size")?,
        d_model: fields.required("d_model")?,
        d_ff: fields.required("d_ff")?,
        n_encoder_layers,
        n_decoder_layers: fields
            .optional("num_decoder_layers")?
            .unwrap_or(n_encoder_layers),
        d_head: fields.required("d_kv")?,
        relative_buckets: fields.optional("relative_attention_num_buckets")?,
    };
    let max_distance = fields.optional("relative_attention_max_distance")?;
    let options = ImportOptions {
        layout: Some(layout),
        n_heads: Some(fields.required("num_heads")?),
        activation: Some(activation),
        norm_epsilon: fields.optional("layer_norm_epsilon")?,
        relative_max_distance: Some(max_distance.unwrap_or(128)),
        scale_logits: Some(is_scaled),
        pad_id: Some(fields.optional("pad_token_id")?.unwrap_or(0)),
        dropout: fields.optional("dropout_rate")?,
        ..Default::default()
    };
    Ok((options, sizes))
}

fn bart(fields: &mut Fields, model_type: &str) -> Result<(ImportOptions, Sizes), WeightsError> {
    // In early versions of `transformers`, these fields chose between BART and its relatives, so
    // their values must be those of `model_type`.
    let is_pre = matches!(model_type, "mbart" | "m2m_100" | "pegasus");
    fields.expect(&["normalize_before", "add_final_layer_norm"], json!(is_pre))?;
    let has_norm = matches!(model_type, "bart" | "mbart");
    fields.expect(&["normalize_embedding"], json!(has_norm))?;
    let is_fixed = matches!(model_type, "marian" | "pegasus");
    fields.expect(&["static_position_embeddings"], json!(is_fixed))?;
    fields.expect(&["add_bias_logits"], json!(false))?;
    fields.expect(
        &["tie_word_embeddings", "share_encoder_decoder_embeddings"],
        json!(true),
    )?;
    let n_heads: usize = fields.required("encoder_attention_heads")?;
    fields.expect(&["decoder_attention_heads"], json!(n_heads))?;
    let d_ff: usize = fields.required("encoder_ffn_dim")?;
    fields.expect(&["decoder_ffn_dim"], json!(d_ff))?;
    let activation: Option<String> = fields.optional("activation_function")?;
    let usual = match model_type {
        "bart" | "mbart" | "marian" => "gelu",
        _ => "relu",
    };
    let activation = activation.unwrap_or_else(|| usual.into());
    let activation = activation::of_name(&activation, false)
        .map_err(|expected| fields.refuse("activation_function", &activation, &expected))?;
    let (layout, positions) = match model_type {
        "bart" | "mbart" => (Layout::Bart, Positions::Learned),
        "m2m_100" => (Layout::M2m100, Positions::SinusoidalFairseq),
        "pegasus" => (Layout::M2m100, Positions::SinusoidalHalves),
        _ => (Layout::Marian, Positions::SinusoidalHalves),
    };
    let d_model: usize = fields.required("d_model")?;
    let max_len: usize = fields.required("max_position_embeddings")?;
    let placement = if is_pre {
        NormPlacement::Pre
    } else {
        NormPlacement::Post
    };
    let is_scaled: Option<bool> = fields.optional("scale_embedding")?;
    let usual_pad: u32 = match model_type {
        "pegasus" => 0,
        "marian" => 58_100,
        _ => 1,
    };
    let sizes = Sizes {
        vocab_size: fields.required("vocab_size")?,
        d_model,
        d_ff,
        n_encoder_layers: fields.required("encoder_layers")?,
        n_decoder_layers: fields.required("decoder_layers")?,
        d_head: d_model / n_heads.max(1),
        relative_buckets: None,
    };
    let options = ImportOptions {
        layout: Some(layout),
        n_heads: Some(n_heads),
        activation: Some(activation),
        norm_placement: Some(placement),
        positions: Some(positions),
        max_len: Some(max_len),
        scale_embeddings: Some(is_scaled.unwrap_or(model_type == "m2m_100")),
        pad_id: Some(fields.optional("pad_token_id")?.unwrap_or(usual_pad)),
        dropout: fields.optional("dropout")?,
        ..Default::default()
    };
    Ok((options, sizes))
}
