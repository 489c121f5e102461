//! The tables of Hugging Face's layouts.

use super::table::*;
use crate::weights::layout::rule::{Kind, Part};

/// Returns the rules that Marian, BART and M2M100 have in common.
pub(super) fn marian() -> Table {
    let mut table = Table::new(["weight", "bias"]);
    table.before = "model.";
    let mut table = table
        .linear(BOTH, "self_attn.q_proj.{p}", QUERY)
        .linear(BOTH, "self_attn.k_proj.{p}", KEY)
        .linear(BOTH, "self_attn.v_proj.{p}", VALUE)
        .linear(BOTH, "self_attn.out_proj.{p}", OUTPUT)
        .linear(DECODER, "encoder_attn.q_proj.{p}", CROSS_QUERY)
        .linear(DECODER, "encoder_attn.k_proj.{p}", CROSS_KEY)
        .linear(DECODER, "encoder_attn.v_proj.{p}", CROSS_VALUE)
        .linear(DECODER, "encoder_attn.out_proj.{p}", CROSS_OUTPUT)
        .linear(BOTH, "fc1.{p}", INNER)
        .linear(BOTH, "fc2.{p}", OUTER)
        .norm(BOTH, "self_attn_layer_norm", SELF_NORM)
        .norm(DECODER, "encoder_attn_layer_norm", CROSS_NORM)
        .norm(BOTH, "final_layer_norm", INNER_NORM)
        .embeddings("model.shared.weight", "model.{s}.embed_tokens.weight")
        .positions(&["model.{s}.embed_positions.weight"], BOTH, None);
    let names = ["lm_head.weight", "decoder.generator.weight"];
    table.rule(&names[..1], names[1], Kind::Linear, [Part::WHOLE; 2]);
    let names = ["final_logits_bias", "decoder.generator.bias"];
    table.rule(&names[..1], names[1], Kind::Vector(1), [Part::WHOLE; 2]);
    table
}

/// Returns the rules that plain and gated T5 have in common.
pub(super) fn t5() -> Table {
    let mut table = Table::new(["weight", "bias"]);
    table.layers = "block";
    let mut table = table
        .linear(BOTH, "layer.0.SelfAttention.q.{p}", QUERY)
        .linear(BOTH, "layer.0.SelfAttention.k.{p}", KEY)
        .linear(BOTH, "layer.0.SelfAttention.v.{p}", VALUE)
        .linear(BOTH, "layer.0.SelfAttention.o.{p}", OUTPUT)
        .linear(DECODER, "layer.1.EncDecAttention.q.{p}", CROSS_QUERY)
        .linear(DECODER, "layer.1.EncDecAttention.k.{p}", CROSS_KEY)
        .linear(DECODER, "layer.1.EncDecAttention.v.{p}", CROSS_VALUE)
        .linear(DECODER, "layer.1.EncDecAttention.o.{p}", CROSS_OUTPUT)
        .linear(ENCODER, "layer.1.DenseReluDense.wo.{p}", OUTER)
        .linear(DECODER, "layer.2.DenseReluDense.wo.{p}", OUTER)
        .norm(BOTH, "layer.0.layer_norm", SELF_NORM)
        .norm(ENCODER, "layer.1.layer_norm", INNER_NORM)
        .norm(DECODER, "layer.1.layer_norm", CROSS_NORM)
        .norm(DECODER, "layer.2.layer_norm", INNER_NORM)
        .final_norm("{s}.final_layer_norm")
        .same(
            &["{s}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"],
            "{s}.attention_position.relative.weight",
        )
        .embeddings("shared.weight", "{s}.embed_tokens.weight");
    let names = ["lm_head.weight", "decoder.generator.weight"];
    table.rule(&names[..1], names[1], Kind::Linear, [Part::WHOLE; 2]);
    table
}
