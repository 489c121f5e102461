//! Models with names after the paper's symbols.

use super::*;

pub(super) const FAMILY: Family = Family {
    rules,
    free: &["norm_placement", "norm_epsilon", "weight_tying"],
    python: code,
    ..PLAIN
};

fn rules() -> Rules {
    let generators = ["decoder.output_projection.{p}", "output_projection.{p}"];
    Rules::new()
        .same("{s}.embedding.weight", "{s}.input.embedding.weight")
        .positions(
            &["{s}.pos_encoding.pe", "{s}.pos_encoder.pe", "{s}.pe"],
            "{s}",
            Some(0),
        )
        .norm("{s}.norm", "{s}.final_norm")
        .part(&generators, "decoder.generator", Part::WHOLE)
        .within("{s}.layers.{i}.", "{s}.layers.{i}.")
        .packed(
            &["self_attn.w_q", "self_attn.w_k", "self_attn.w_v"],
            "self_attention.w_qkv",
        )
        .linear("self_attn.w_o", "self_attention.w_o")
        .linear("feed_forward.w_1", "feed_forward.w_1")
        .linear("feed_forward.w_2", "feed_forward.w_2")
        .norm("norm1", "self_attention_residual.norm")
        .within("encoder.layers.{i}.", "encoder.layers.{i}.")
        .norm("norm2", "feed_forward_residual.norm")
        .within("decoder.layers.{i}.", "decoder.layers.{i}.")
        .linear("cross_attn.w_q", "cross_attention.w_q")
        .packed(
            &["cross_attn.w_k", "cross_attn.w_v"],
            "cross_attention.w_kv",
        )
        .linear("cross_attn.w_o", "cross_attention.w_o")
        .norm("norm2", "cross_attention_residual.norm")
        .norm("norm3", "feed_forward_residual.norm")
}

/// Returns a comment: the names have no standard class.
fn code(model: &PythonModel) -> Option<String> {
    let c = &model.whole()?;
    let (source, target) = (c.source_vocab_size, c.target_vocab_size);
    let (encoders, decoders) = (c.n_encoder_layers, c.n_decoder_layers);
    let (d, heads, d_ff, max_len) = (c.d_model, c.n_heads, c.d_ff, c.max_len);
    let (dropout, activation, epsilon) = (c.dropout, c.activation, c.norm_epsilon);
    let is_pre = python(c.norm_placement == NormPlacement::Pre);
    Some(format!(
        "# hyper-parameters: source_vocab_size={source}, target_vocab_size={target}, \
         d_model={d}, n_heads={heads}, n_encoder_layers={encoders}, \
         n_decoder_layers={decoders}, d_ff={d_ff}, dropout={dropout:?}, \
         activation=\"{activation}\", pre_norm={is_pre}, layer_norm_eps={epsilon:?}, \
         max_len={max_len}"
    ))
}
