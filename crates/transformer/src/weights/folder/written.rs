//! The `config.json` of a model that was exported for Hugging Face.

use serde_json::{Map, Value, json};

use crate::config::{NormPlacement, Positions, TransformerConfig};
use crate::weights::layout::{Layout, activation};

/// Returns the `config.json` fields of an exported model, including `model_type`; `None` if Hugging
/// Face has no model family for the layout.
///
/// The configuration must be one that the layout can represent. The caller must add the fields
/// about special tokens other than padding, such as `decoder_start_token_id`, which
/// [`hugging_face_generation`](super::hugging_face_generation) returns.
pub fn hugging_face_config(
    config: &TransformerConfig,
    layout: Layout,
) -> Option<Map<String, Value>> {
    let fields = match layout {
        Layout::T5 | Layout::T5Gated => t5(config),
        Layout::Bart | Layout::M2m100 | Layout::Marian => bart(config, layout),
        _ => return None,
    };
    match fields {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

fn t5(config: &TransformerConfig) -> Value {
    json!({
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": true,
        "vocab_size": config.target_vocab_size,
        "d_model": config.d_model,
        "d_kv": config.d_head(),
        "d_ff": config.d_ff,
        "num_heads": config.n_heads,
        "num_layers": config.n_encoder_layers,
        "num_decoder_layers": config.n_decoder_layers,
        "relative_attention_num_buckets": config.relative_buckets,
        "relative_attention_max_distance": config.relative_max_distance,
        "dropout_rate": config.dropout,
        "layer_norm_epsilon": config.norm_epsilon,
        "feed_forward_proj": activation::name_of(config.activation),
        "tie_word_embeddings": config.scale_logits,
        "pad_token_id": config.pad_id,
    })
}

fn bart(config: &TransformerConfig, layout: Layout) -> Value {
    let family = (layout, config.norm_placement, config.positions);
    let (model_type, class) = match family {
        (Layout::Bart, NormPlacement::Post, _) => ("bart", "BartForConditionalGeneration"),
        (Layout::Bart, NormPlacement::Pre, _) => ("mbart", "MBartForConditionalGeneration"),
        (Layout::M2m100, _, Positions::SinusoidalHalves) => {
            ("pegasus", "PegasusForConditionalGeneration")
        }
        (Layout::M2m100, ..) => ("m2m_100", "M2M100ForConditionalGeneration"),
        _ => ("marian", "MarianMTModel"),
    };
    json!({
        "model_type": model_type,
        "architectures": [class],
        "is_encoder_decoder": true,
        "vocab_size": config.target_vocab_size,
        "d_model": config.d_model,
        "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "max_position_embeddings": config.max_len,
        "activation_function": activation::name_of(config.activation),
        "dropout": config.dropout,
        "attention_dropout": config.dropout,
        "activation_dropout": config.dropout,
        "scale_embedding": config.scale_embeddings,
        "pad_token_id": config.pad_id,
    })
}
